"""What a split is beyond its name: a topic or a table that was deleted and made again has the name, and is another one."""

from __future__ import annotations

from collections.abc import Mapping

from streamkit.connectors.redaction import logger_of
from streamkit.connectors.source import BEGIN, RECREATED_MODE, Position, Source
from streamkit.errors import ConfigError

IDENTITY = "identity"  # in positions as the log keeps them
_LOGGER = logger_of(__name__)


def with_identities(positions: Mapping[str, Position], identities: Mapping[str, str]) -> dict[str, Position]:
    """Positions as the log keeps them: each with what it is a position of."""
    return {
        split: {**position, IDENTITY: identities[split]} if split in identities else position
        for split, position in positions.items()
    }


def without_identities(positions: Mapping[str, Position | None]) -> dict[str, Position | None]:
    """Positions as sources know them."""
    return {
        split: position and {name: value for name, value in position.items() if name != IDENTITY}
        for split, position in positions.items()
    }


def adopted(positions: Mapping[str, Position | None], identities: Mapping[str, str]) -> dict[str, Position]:
    """Positions that do not say yet what they are of, as those of earlier versions and those that `offsets set` has set; now they do."""
    silent = {split: position for split, position in positions.items() if position is not None and IDENTITY not in position}
    return {split: position for split, position in with_identities(silent, identities).items() if IDENTITY in position}


def checked(
    source: Source, positions: Mapping[str, Position | None], identities: Mapping[str, str]
) -> dict[str, Position | None]:
    """
    Positions, each of what its split is now; None, for the beginning, where `recreated.mode` says so of one that was made again.

    ConfigError otherwise, which says what was lost and how to go on.
    """
    found: dict[str, Position | None] = {}
    for split, position in positions.items():
        known = (position or {}).get(IDENTITY)
        if known is None or split not in identities or known == identities[split]:
            found[split] = position
            continue
        said = f"connector {source.name}: {source.name_of(split)} was deleted and made again: it was {known}, and is {identities[split]}"
        if source.settings[RECREATED_MODE] != BEGIN:
            raise ConfigError(
                f"{said}. Rows of the former one after the position {_shown(position)} that were not read are lost, and the new one "
                f"has not been read. To read it from its beginning: {RECREATED_MODE}={BEGIN}, or streamkit connect offsets reset {source.name}, "
                "which forgets all positions; delete the topic before if it must not have rows of the former one"
            )
        _LOGGER.warning("%s; it is read from its beginning, since %s=%s", said, RECREATED_MODE, BEGIN)
        source.made_again(split)
        found[split] = None
    return found


def _shown(position: Position | None) -> str:
    return str({name: value for name, value in (position or {}).items() if name != IDENTITY})
