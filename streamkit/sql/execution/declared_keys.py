"""Whether a stream or table finds the columns of its topic's keys where the other declarations have them."""

from __future__ import annotations

from streamkit.errors import StreamKitError
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.script.key_places import PlacedKey, misplaced_key, placed_key
from streamkit.sql.tree.span import TextSpan


def check_places(state: ScriptState, stored: StoredSource, span: TextSpan) -> None:
    """TopologyError for columns of a key that are in another order than another declaration of the topic has written them."""
    topic, others = state.definitions.find_topic(stored.topic), state.definitions.others(stored)
    if topic is None or topic.format is None or not others:
        return
    own = placed_key_of(state, stored)
    if own is not None and (
        reason := misplaced_key(own, [key for one in others if (key := placed_key_of(state, one)) is not None])
    ):
        raise state.error(f"{stored.name} cannot read keys of the topic {stored.topic}: {reason}", span)


def placed_key_of(state: ScriptState, source: StoredSource) -> PlacedKey | None:
    """The key of a stream or table; None if its columns have names, or its topic does not fit it any more."""
    try:
        decoding = state.reading.topic_rows(source).decoding
    except StreamKitError:
        return None
    if decoding is None or decoding.keys.has_registry:
        return None
    return placed_key(source.name, decoding.keys.name, [(one.name, one.type) for one in decoding.key])
