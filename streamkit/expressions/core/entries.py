"""Tables of operations and aggregates by name, in which ksqlDB's are entered when the first of them is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from streamkit.plan.expression_text import NAMED_BY, OF_KSQL

Entry = TypeVar("Entry")


class Entries(dict[str, Entry]):
    """Entries by name; `later` is the module that enters those of ksqlDB, since most programs use none."""

    def __init__(self, later: str) -> None:
        super().__init__()
        self._later = later

    def __missing__(self, name: str) -> Entry:
        if name.startswith(OF_KSQL) or NAMED_BY in name:
            import_module(self._later)
        if name not in self:
            raise KeyError(name)
        return self[name]
