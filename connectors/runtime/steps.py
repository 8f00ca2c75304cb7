"""The steps of a connector, made from its settings: from bytes to columns, the transforms, from columns to bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from streamkit.connectors.files.record_lines import json_text, plain
from streamkit.connectors.runtime.converters import decoder_of_sink, decoder_of_source, encoder_of_sink, topic_of_sink
from streamkit.connectors.runtime.outgoing import outgoing, transformed
from streamkit.connectors.runtime.pipeline import Step
from streamkit.connectors.runtime.sound_texts import SOUND_TEXTS
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.log.values.python_values import python_values
from streamkit.names import DELETED


def steps_of_source(source: Source, log: Log) -> Sequence[Step]:
    """What happens to rows between a poll and the topic."""
    decoder = decoder_of_source(source, log) if source.IS_RAW else None
    decoding = () if decoder is None else (Step("VALUE_CONVERTER", decoder.run),)
    return (*decoding, SOUND_TEXTS, *transform_steps(source, log))


def steps_of_sink(sink: Sink, topic: Topic, log: Log) -> Sequence[Step]:
    """What happens to rows between the topic and a put."""
    declared = topic_of_sink(sink, topic, sink.IS_RAW)
    target = outgoing(sink, declared)
    decoder = decoder_of_sink(sink, topic, sink.IS_RAW)
    steps = [] if decoder is None else [Step("VALUE_CONVERTER", decoder.run), SOUND_TEXTS]
    if sink.chain is not None:
        steps.append(Step("TRANSFORMATION", lambda _, rows: transformed(sink, declared, target, rows)))
    if sink.IS_RAW and target.format is None:
        encoder = encoder_of_sink(sink, target)
        steps.append(Step("VALUE_CONVERTER", partial(_encoded, target) if encoder is None else encoder.run))
    return steps


def transform_steps(source: Source, log: Log) -> Sequence[Step]:
    """The transforms of a source; the key columns of a topic that is not there yet are those that the source has for it."""
    chain = source.chain
    if chain is None:
        return ()
    known = {} if chain.makes_keys else {name: log.topic(name).key for name in log.topics()}

    def run(name: str, rows: pa.Table) -> Mapping[str, pa.Table]:
        return chain.run(name, rows, source.key_of(name) or known.get(name, ()))

    return (Step("TRANSFORMATION", run),)


def _encoded(topic: Topic, name: str, rows: pa.Table) -> dict[str, pa.Table]:
    """Rows as bytes: the value is JSON of all columns, the key the text of its column, or JSON of its columns."""
    deleted = rows[DELETED].to_pylist()
    records = _records(rows, topic.schema.names)
    values = [None if is_deleted else json_text(record).encode() for record, is_deleted in zip(records, deleted, strict=True)]
    keys = [_key(record) for record in _records(rows, topic.key)] if topic.key else [None] * rows.num_rows
    kept = rows.drop_columns(list(topic.schema.names))
    return {name: kept.append_column(KEY, pa.array(keys, pa.binary())).append_column(VALUE, pa.array(values, pa.binary()))}


def _records(rows: pa.Table, names: Sequence[str]) -> list[dict[str, object]]:
    columns = [python_values(rows[name]) for name in names]
    return [dict(zip(names, record, strict=True)) for record in zip(*columns, strict=True)]


def _key(record: dict[str, object]) -> bytes:
    return str(plain(next(iter(record.values())))).encode() if len(record) == 1 else json_text(record).encode()
