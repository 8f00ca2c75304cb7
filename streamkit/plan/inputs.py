"""Pass `resolve_inputs`: finds the topic behind every source, and its schema and key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from streamkit.errors import StreamKitError, TopicNotFoundError, TopologyError
from streamkit.log.topic.formats import KEY, OPAQUE_SCHEMA
from streamkit.plan.decoding import decoded
from streamkit.plan.event_time import EventTime, event_time_of
from streamkit.plan.location import by_language
from streamkit.plan.node import Node
from streamkit.plan.operators.source import SourceNode
from streamkit.plan.program import Input
from streamkit.plan.refusal import Refuse, RefusedTopic, stop_at
from streamkit.plan.traits import STREAM, TABLE
from streamkit.plan.tree import walk
from streamkit.schema import Schema


class TopicDescription(Protocol):
    """What the compiler asks of a topic."""

    @property
    def schema(self) -> Schema: ...

    @property
    def key(self) -> tuple[str, ...]: ...


class KnownTopics(Protocol):
    """What the compiler asks of a log."""

    @property
    def location(self) -> str: ...

    def topics(self, internal: bool = False) -> Sequence[str]:
        """The names of the topics; those that belong to applications only if asked for."""
        ...

    def topic(self, name: str) -> TopicDescription:
        """The topic of that name."""
        ...

    def program_before(self, application: str) -> str:
        """The program of the newest start of an application, as JSON text; empty if it has never started."""
        ...


def known_topic(topics: KnownTopics, name: str) -> TopicDescription | None:
    """The topic of that name, None if there is none: in one look, because topics may be deleted and renamed between two."""
    try:
        return topics.topic(name)
    except TopicNotFoundError:
        return None


def planned_topics(topics: KnownTopics | None) -> tuple[str, ...]:
    """The names of topics that are not there, and that a start of the topology would create as it declares them."""
    return getattr(topics, "planned", ())


def resolve_inputs(roots: Iterable[Node], topics: KnownTopics | None, refuse: Refuse = stop_at) -> dict[Node, Input]:
    """
    The input behind every source, tables before streams and then by name: their places in the canonical order.

    TopicNotFoundError lists the topics there are; TopologyError says what a topic lacks. If `refuse` goes on behind such a topic, the
    source is taken at its word; the error comes when all have been looked at, if one does not say what it reads.
    """
    inputs = {source: _taken(source, topics, refuse) for source in sources_of(roots)}
    for found in inputs.values():
        if isinstance(found, StreamKitError):
            raise found
    return _in_order({source: found for source, found in inputs.items() if isinstance(found, Input)})


def _in_order(inputs: dict[SourceNode, Input]) -> dict[Node, Input]:
    _check_agree(inputs)
    return dict(sorted(inputs.items(), key=lambda item: (item[1].kind == STREAM, item[1].topic, item[1].kind)))


def sources_of(roots: Iterable[Node]) -> list[SourceNode]:
    """The sources from which a topology reads."""
    return [node for node in walk(roots) if isinstance(node, SourceNode)]


def is_declared(roots: Iterable[Node]) -> bool:
    """Whether every source says itself what its topic holds, so that no log is needed."""
    return all(source.schema is not None or source.decoding is not None for source in sources_of(roots))


def _taken(source: SourceNode, topics: KnownTopics | None, refuse: Refuse) -> Input | StreamKitError:
    """The input behind a source: by its topic, or by its own word if the topic is refused; the error if it gives none."""
    try:
        return _input(source, topics)
    except (TopicNotFoundError, TopologyError) as error:
        refuse(RefusedTopic(source.topic, True, error))
        refusal = error
    try:
        return _input(source, None)
    except TopologyError:
        return refusal


def _input(source: SourceNode, topics: KnownTopics | None) -> Input:
    schema, key = _described(source, topics)
    if source.relation != STREAM and not key:
        raise TopologyError(
            f"the topic {source.topic!r} has no key, and a table holds one row per key; expected a topic with key columns",
            source.at,
        )
    is_decoded = source.decoding is not None and topics is not None
    own = getattr(topics.topic(source.topic), "format", None) if is_decoded and topics is not None else None
    found = Input(
        source.topic, source.relation, schema, key, getattr(source, "bootstrap", False), getattr(source, "jump_ms", None), own
    )
    return found if source.timestamp is None else replace(found, event_time=_event_time(source, found))


def _event_time(source: SourceNode, found: Input) -> EventTime:
    """The column that has the event time of a source's records."""
    assert source.timestamp is not None
    how = source.decoding
    columns = None if how is None else decoded(how, found, source.at)
    return event_time_of(
        source.timestamp, source.topic, found.schema, columns, source.at, source.timestamp_format, source.since_1970
    )


def _described(source: SourceNode, topics: KnownTopics | None) -> tuple[Schema, tuple[str, ...]]:
    if topics is None and source.decoding is not None:
        return OPAQUE_SCHEMA, (KEY,)
    if topics is None:
        if source.schema is None:
            raise TopologyError(
                f"the columns of the topic {source.topic!r} are unknown without a log; expected a log, or schema= and key=",
                source.at,
            )
        return source.schema, source.key or ()
    topic = known_topic(topics, source.topic)
    if topic is None:
        raise TopicNotFoundError(
            f"the topic {source.topic!r} does not exist; {_there_are(source.topic, topics)} Create it with log.create_topic(…), or correct "
            "the name" + (f"\n  at {source.at}" if source.at else "")
        )
    _check_declared(source, topic)
    return topic.schema, tuple(topic.key)


def _there_are(missing: str, topics: KnownTopics) -> str:
    """The topics that there are, and which of them may be meant."""
    planned = planned_topics(topics)
    existing = sorted(set(topics.topics()) - set(planned))
    made = f"; the topology makes {', '.join(sorted(planned))}" if planned else ""
    if not existing and not made:
        return f"the log {topics.location} has no topics at all."
    close = difflib.get_close_matches(missing, [*existing, *planned], 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    there = f"there are: {', '.join(existing)}" if existing else "the log has no topics yet"
    return f"{there}{made}{hint}"


def _check_declared(source: SourceNode, topic: TopicDescription) -> None:
    if source.decoding is not None:
        if _types(topic.schema) != _types(OPAQUE_SCHEMA):
            raise TopologyError(
                f"value_format={source.decoding.value.name!r} reads bytes, and the topic {source.topic!r} has columns: {topic.schema}; "
                "expected no value_format, or a topic with a format",
                source.at,
            )
        return
    declared = source.schema
    if declared is not None and _types(declared) != _types(topic.schema):
        said = by_language(source.at, "schema= says", "the statement declares")
        raise TopologyError(
            f"the topic {source.topic!r} does not hold what {said}\n  declared: {declared}\n  the topic: {topic.schema}",
            source.at,
        )
    if source.key is not None and source.key != tuple(topic.key):
        raise TopologyError(f"the key of {source.topic!r} is {list(topic.key)}, not {list(source.key)} as declared", source.at)


def _spoken(found: Input) -> str:
    return "the log" if found.event_time is None else f"the column {str(found.event_time)!r}"


def _types(schema: Schema) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in schema]


def _check_agree(inputs: dict[SourceNode, Input]) -> None:
    """Without a log one topic may be declared twice; both must say the same, and one table reads it one way."""
    seen: dict[tuple[str, str], tuple[SourceNode, Input]] = {}
    streams = {(one.topic, one.kind) for one in inputs.values() if one.kind == STREAM}
    for source, found in inputs.items():
        first, known = seen.setdefault((found.topic, found.kind), (source, found))
        if known != found:
            raise TopologyError(
                f"the topic {found.topic!r} is read in two different ways, the first at {first.at}; expected one", source.at
            )
        if found.jump_ms is not None and any(one.topic == found.topic and one.kind == TABLE for one in inputs.values()):
            raise TopologyError(
                f"stream({found.topic!r}, max_jump=…) bounds jumps of the topic's stream time, and the topic is read as a table, too, which "
                "does not; expected no max_jump, or another topic",
                source.at,
            )
        ordered = [one for one in inputs.values() if one.topic == found.topic and one.kind in (STREAM, TABLE)]
        if any(one.event_time != found.event_time for one in ordered) and found.kind in (STREAM, TABLE):
            raise TopologyError(
                f"the topic {found.topic!r} is read as a stream and as a table, with event times of {_spoken(ordered[0])} and of "
                f"{_spoken(ordered[1])}: its records have one order; expected the same timestamp= of both",
                source.at,
            )
        if found.bootstrap and (found.topic, STREAM) in streams:
            raise TopologyError(
                f"table({found.topic!r}, bootstrap=True) is read before all streams, and the topic is read as a stream, too, which goes side "
                "by side with the table; expected no bootstrap, or another topic",
                source.at,
            )
