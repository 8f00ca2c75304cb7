"""ReplaceField: leave columns out, or give them other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from streamkit.connectors.setting import Setting
from streamkit.connectors.transforms.records import RecordPart, Records
from streamkit.connectors.transforms.transform import NULL_DEFAULT, PartTransform
from streamkit.errors import ConfigError


class ReplaceField(PartTransform):
    """Keeps `include` (all unless given) without `exclude`, under the names that `renames` gives (`old:new`)."""

    NAME = "ReplaceField"
    SETTINGS = (
        Setting("exclude", "columns that are left out", "list", ()),
        Setting("include", "columns that are kept; all unless given", "list", ()),
        Setting("renames", "names as old:new, with commas between", "list", ()),
        NULL_DEFAULT,
    )

    def check(self) -> None:
        self._names = dict(pair_of(self, "renames", text) for text in self.settings["renames"])
        for name in ("exclude", "include"):
            check_distinct(self, name, self.settings[name])

    def changed(self, part: RecordPart, records: Records) -> RecordPart:
        self.need_struct(part, "field replacement")
        if not part.is_struct:
            return part
        include, exclude = self.settings["include"], self.settings["exclude"]
        kept = [name for name in part.columns if name not in exclude and (not include or name in include)]
        named = [self._names.get(name, name) for name in kept]
        twice = [name for name, count in Counter(named).items() if count > 1]
        if twice:
            raise self.unfit(f"two fields would be called {twice[0]!r}", part.valid)
        columns = {new: part.columns[old] for old, new in zip(kept, named, strict=True)}
        return part.of(columns, [name for name in columns if name in self._names.values()])


def pair_of(transform: PartTransform, setting: str, text: str) -> tuple[str, str]:
    """The two sides of `one:other`."""
    parts = text.split(":")
    if len(parts) != 2 or not all(parts):
        raise ConfigError(transform.said(f"{setting} has {text!r}; expected two names with a colon between, such as foo:bar"))
    return parts[0].strip(), parts[1].strip()


def check_distinct(transform: object, setting: str, names: Sequence[str], *, may_be_empty: bool = True) -> None:
    """ConfigError for a name that stands twice in a list, or for no name at all."""
    said = transform.said  # type: ignore[attr-defined]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(said(f"{setting} has {twice[0]!r} twice; expected names that differ"))
    if not names and not may_be_empty:
        raise ConfigError(said(f"{setting} is empty; expected at least one name"))
