"""Into which topics went what lies before a position: another topic, or one that was deleted since, does not have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from streamkit.connectors.redaction import logger_of
from streamkit.connectors.source import BEGIN, RECREATED_MODE, Position, Source
from streamkit.errors import ConfigError
from streamkit.log.log import Log

TARGETS = "targets"  # in positions as the log keeps them
Targets: TypeAlias = Mapping[
    str, Any
]  # `topics`: by what is read the topic and its id, None of one that is not there yet; `routers`
_LOGGER = logger_of(__name__)


def topic_ids(log: Log) -> dict[str, int]:
    """The ids of all topics by their names."""
    return {name: log.topic(name).id for name in log.topics()}


def with_targets(source: Source, positions: Mapping[str, Position], ids: Mapping[str, int]) -> dict[str, Position]:
    """Positions as the log keeps them: each with the topics that have what lies before it."""
    routers = _routers(source)
    found: dict[str, Position] = {}
    for split, position in positions.items():
        topics = source.targets(split, position)
        if topics is None:
            found[split] = position
            continue
        said = {what: [name, None if routers else ids.get(name)] for what, name in topics.items()}
        found[split] = {**position, TARGETS: {"topics": said, "routers": routers}}
    return found


def check_targets(
    source: Source, positions: Mapping[str, Position], before: Mapping[str, Targets], ids: Mapping[str, int]
) -> list[str]:
    """
    ConfigError if what follows a position would go into other topics than what lies before it.

    Return the splits whose topic was deleted, where `recreated.mode` says that what comes from now on is wanted.
    """
    found = {
        split: _deleted(source, position, split, before[split], ids) for split, position in positions.items() if split in before
    }
    for said in dict.fromkeys(said for said in found.values() if said):
        _LOGGER.warning("%s, and what was made again, since %s=%s", said, RECREATED_MODE, BEGIN)
    return [split for split, said in found.items() if said]


def _deleted(source: Source, position: Position, split: str, before: Targets, ids: Mapping[str, int]) -> str | None:
    """What is to be said of a topic that was deleted; None if it is there."""
    now = source.targets(split, position)
    if now is None:
        return None
    has_moved = before["routers"] != _routers(source)
    if has_moved and source.GOES_TOGETHER:
        raise ConfigError(
            _other(source, split, "the topics that transforms name", "others: a router was added, removed or changed")
        )
    for what, (name, topic_id) in before["topics"].items():
        if what in now and now[what] != name:
            if source.GOES_TOGETHER:
                raise ConfigError(_other(source, split, f"topic {name}", f"topic {now[what]}"))
            continue
        if what not in now or topic_id is None or ids.get(name) == topic_id:
            continue
        said = (
            f"connector {source.name}: topic {name}, which had the rows before the position, was deleted; a new one would have only "
            "the rows from now on"
        )
        if source.settings[RECREATED_MODE] != BEGIN:
            raise ConfigError(f"{said}. {_advice(source, split)}")
        return said
    return None


def _other(source: Source, split: str, before: str, now: str) -> str:
    return (
        f"connector {source.name}: its rows were written to {before}, and from now on would be written to {now}, without the former rows. "
        f"Expected the former settings. {_advice(source, split)}"
    )


def _advice(source: Source, split: str) -> str:
    if not source.GOES_TOGETHER:
        return f"To go on with a new one, without the former rows: {RECREATED_MODE}={BEGIN}, or streamkit connect offsets reset {source.name}"
    return (
        f"To read all again: streamkit connect offsets reset {source.name}; to go on without the former rows: streamkit connect offsets set "
        f"{source.name} {split} POSITION, with the position that streamkit connect offsets show {source.name} says"
    )


def _routers(source: Source) -> list[Mapping[str, str]]:
    """The settings of the transforms that name topics, in their order."""
    settings = source.settings
    found: list[Mapping[str, str]] = []
    for alias in settings["transforms"]:
        own = {
            key.removeprefix(f"{alias}."): str(value)
            for key, value in settings["transforms."].items()
            if key.startswith(f"{alias}.")
        }
        if "Router" in own.get("type", ""):
            predicate = own.pop("predicate", None)
            asked = {key: str(value) for key, value in settings["predicates."].items() if key.startswith(f"{predicate}.")}
            found.append({**own, "type": own["type"].rpartition(".")[2], **asked})
    return found
