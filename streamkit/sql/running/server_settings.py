"""The settings of a server of queries: where it runs them, and how."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streamkit.connectors.placeholders import properties
from streamkit.engine.runs.options import AVAILABLE_NOW, Options
from streamkit.errors import ConfigError
from streamkit.sql.running.engines import Engine, checked_engine

ENGINE, CONNECTORS = "streamkit.engine", "streamkit.connectors"
TASKS, TRIGGER, EPOCH_RECORDS = "streamkit.tasks", "streamkit.trigger", "streamkit.max.records.per.epoch"
MEANINGS = {
    ENGINE: "local or spark",
    CONNECTORS: "here or external",
    TASKS: "how many tasks each query has",
    TRIGGER: "how far apart the epochs of a query begin, such as 10 seconds",
    EPOCH_RECORDS: "how many records an epoch takes at most",
}
PLACES = ("here", "external")


@dataclass(frozen=True)
class ServerSettings:
    """Where queries run whose own settings say nothing, where connectors run, and the options of each run."""

    engine: Engine = "local"
    connectors: str = PLACES[0]
    options: Options = field(default_factory=Options)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ServerSettings:
        """The settings by their names; ConfigError for one that there is not, or a value that does not fit."""
        for name in given:
            if name not in MEANINGS:
                near = difflib.get_close_matches(name, MEANINGS, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"a server has no setting {name!r}; it has {', '.join(MEANINGS)}{hint}")
        connectors = given.get(CONNECTORS, PLACES[0])
        if connectors not in PLACES:
            raise ConfigError(f"{CONNECTORS}={connectors!r}; expected {' or '.join(PLACES)}")
        trigger = given.get(TRIGGER)
        if trigger == AVAILABLE_NOW:
            raise ConfigError(f"{TRIGGER}={trigger!r}; a server goes on: expected an interval such as 10 seconds")
        options = Options(_number(given, TASKS), trigger, _number(given, EPOCH_RECORDS))
        return cls(checked_engine(given.get(ENGINE, "local")), connectors, options)


def read_server_settings(file: Path) -> dict[str, str]:
    """The settings of a file of properties, as texts; ConfigError if it cannot be read."""
    try:
        return properties(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(f"cannot read {str(file)!r}: {reason}; expected lines such as {TASKS}=4") from None


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isascii() or not given[name].isdecimal() or not int(given[name]):
        raise ConfigError(f"{name}={given[name]!r}; expected a whole number from 1 on")
    return int(given[name])
