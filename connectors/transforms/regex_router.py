"""RegexRouter: another topic, by its name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.java_regex import check_replacement, compiled, replaced_first
from streamkit.connectors.transforms.records import Records
from streamkit.connectors.transforms.transform import Transform


class RegexRouter(Transform):
    """A topic whose whole name matches `regex` has its first match replaced by `replacement`."""

    NAME = "RegexRouter"
    SETTINGS = (
        Setting("regex", "a regular expression of Java"),
        Setting("replacement", "what takes its place, with $1 for a group"),
    )

    @property
    def keeps_columns(self) -> bool:
        return True

    def check(self) -> None:
        self._pattern = compiled(self.settings["regex"], self.said)
        check_replacement(self._pattern, self.settings["replacement"], self.said)

    def apply(self, records: Records) -> Iterable[Records]:
        if self._pattern.fullmatch(records.topic):
            yield replace(records, topic=replaced_first(self._pattern, self.settings["replacement"], records.topic))
        else:
            yield records
