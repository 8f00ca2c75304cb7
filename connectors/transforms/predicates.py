"""Predicates: for which records a transform is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.connectors.setting import Setting, read_settings
from streamkit.connectors.transforms.headers import has, headers_of
from streamkit.connectors.transforms.java_regex import compiled
from streamkit.connectors.transforms.records import Records
from streamkit.errors import ConfigError
from streamkit.names import HEADERS


class Predicate(ABC):
    """A condition on records, by Connect's name; ConfigError for settings that it has not."""

    NAME: ClassVar[str]
    SETTINGS: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, alias: str, settings: Mapping[str, Any]) -> None:
        self.alias = alias
        self.settings = read_settings(f"the predicate {alias} ({self.NAME})", self.SETTINGS, settings)
        for name in self.settings:
            if not self.settings[name]:
                raise ConfigError(self.said(f"{name} is empty"))

    @abstractmethod
    def holds(self, records: Records) -> Mask:
        """For which records it is true."""

    def said(self, message: str) -> str:
        """A message that names the predicate."""
        return f"the predicate {self.alias} ({self.NAME}): {message}"


class HasHeaderKey(Predicate):
    """True for records with a header of that name."""

    NAME = "HasHeaderKey"
    SETTINGS = (Setting("name", "the header's name"),)

    def holds(self, records: Records) -> Mask:
        if records.fact(HEADERS) is None:
            return np.zeros(records.count, bool)
        return np.asarray(has(headers_of(records), self.settings["name"]))


class RecordIsTombstone(Predicate):
    """True for records without a value."""

    NAME = "RecordIsTombstone"

    def holds(self, records: Records) -> Mask:
        return np.asarray(pc.invert(records.value.valid))


class TopicNameMatches(Predicate):
    """True for records of topics whose whole name matches a regular expression."""

    NAME = "TopicNameMatches"
    SETTINGS = (Setting("pattern", "a regular expression of Java"),)

    def __init__(self, alias: str, settings: Mapping[str, Any]) -> None:
        super().__init__(alias, settings)
        self._pattern = compiled(self.settings["pattern"], self.said)

    def holds(self, records: Records) -> Mask:
        return np.full(records.count, self._pattern.fullmatch(records.topic) is not None)


PREDICATES = {kind.NAME: kind for kind in (HasHeaderKey, RecordIsTombstone, TopicNameMatches)}
