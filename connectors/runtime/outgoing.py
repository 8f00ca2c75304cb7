"""What a sink gets of a topic behind its transforms: other columns, another key, perhaps another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from streamkit.connectors.sink import Sink
from streamkit.connectors.transforms.records import is_opaque, key_columns
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.slab.frame import LOG_TYPES
from streamkit.log.topic.topic import Topic
from streamkit.names import LOG_COLUMNS, PARTITION, ROW_NUMBER, TOPIC
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn

_OWN = (*LOG_COLUMNS, TOPIC, ROW_NUMBER)


def outgoing(sink: Sink, topic: Topic) -> Topic:
    """The topic as its rows leave the transforms: they run once without rows, for their columns."""
    if sink.chain is None:
        return topic
    found = sink.chain.run(topic.name, _without_rows(topic), topic.key)
    if len(found) != 1:
        raise ConfigError(
            f"connector {sink.name}: the transforms send rows of {topic.name} to {', '.join(sorted(found))}; a sink must write them all under one name"
        )
    ((name, rows),) = found.items()
    if name != topic.name and not sink.takes_other_names:
        raise ConfigError(
            f"connector {sink.name}: {type(sink).__name__} names what it writes by the topic; it cannot have routers"
        )
    key = key_columns(rows) or ()
    named = [field for field in rows.schema if field.name not in _OWN]
    parsed = Schema.parse(pa.schema(named))
    schema = Schema(tuple(SchemaColumn(one.name, one.type, one.name not in key) for one in parsed))
    is_bytes = topic.format is not None and is_opaque(rows)
    timestamp = topic.timestamp if topic.timestamp in schema.names else None
    return replace(
        topic, name=name, schema=schema, key=key, format=topic.format if is_bytes else None, timestamp=timestamp, partition_by=()
    )


def targets_of(sink: Sink, topics: Sequence[Topic]) -> Mapping[str, Topic]:
    """What a sink gets of each topic, by the topic's name; ConfigError where two that differ would have one name."""
    found: dict[str, Topic] = {}
    targets: dict[str, Topic] = {}
    for topic in topics:
        target = outgoing(sink, topic)
        known = targets[topic.name] = found.setdefault(target.name, target)
        if known.schema != target.schema or known.key != target.key:
            raise ConfigError(
                f"connector {sink.name}: the transforms give two topics the name {target.name}, with the columns {known.schema} and "
                f"{target.schema}; expected the same columns and the same key"
            )
    return targets


def transformed(sink: Sink, topic: Topic, target: Topic, rows: pa.Table) -> Mapping[str, pa.Table]:
    """Rows behind the transforms, with all columns of `target`; ConfigError where a router sends them elsewhere."""
    assert sink.chain is not None
    found = sink.chain.run(topic.name, rows, topic.key)
    others = sorted(name for name in found if name != target.name)
    if others:
        raise ConfigError(
            f"connector {sink.name}: a router sends rows of {topic.name} to {others[0]}, and others to {target.name}; a sink must "
            "write rows of one topic under one name, as RegexRouter without a predicate gives it"
        )
    return {name: _fitted(part, target) for name, part in found.items()}


def _without_rows(topic: Topic) -> pa.Table:
    fields = [*topic.schema.arrow, *(pa.field(name, LOG_TYPES[name]) for name in LOG_COLUMNS if name != PARTITION)]
    return pa.schema([*fields, pa.field(PARTITION, pa.int32()), pa.field(TOPIC, pa.string())]).empty_table()


def _fitted(rows: pa.Table, target: Topic) -> pa.Table:
    """The rows with the columns of the target in its order; what they lack is null."""
    own = rows.select([name for name in rows.column_names if name in _OWN])
    columns, names = [], []
    for column in target.schema:
        kind = column.arrow.type
        found = rows[column.name] if column.name in rows.column_names else pa.nulls(rows.num_rows, kind)
        try:
            columns.append(recast(found, kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"the column {column.name!r} is {found.type} behind the transforms; expected {kind}: {error}"
            ) from None
        names.append(column.name)
    fitted = pa.table([*columns, *own.columns], [*names, *own.column_names])
    if TOPIC not in own.column_names:
        return fitted
    return fitted.set_column(fitted.schema.get_field_index(TOPIC), TOPIC, pa.array([target.name] * rows.num_rows, pa.string()))
