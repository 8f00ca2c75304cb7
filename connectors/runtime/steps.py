"""The steps of a connector, made from its settings: from bytes to columns, the transforms, from columns to bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from streamkit.connectors.runtime.converters import (
    check_formats,
    decoder_of_sink,
    decoder_of_source,
    encoder_of_sink,
    topic_of_sink,
)
from streamkit.connectors.runtime.outgoing import outgoing, transformed
from streamkit.connectors.runtime.pipeline import PipelineStep
from streamkit.connectors.runtime.sound_texts import SOUND_TEXTS
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.connectors.transforms.records import key_columns
from streamkit.log.log import Log
from streamkit.log.topic.topic import Topic


def steps_of_source(source: Source, log: Log) -> Sequence[PipelineStep]:
    """What happens to rows between a poll and the topic."""
    check_formats(source)
    decoder = decoder_of_source(source, log) if source.IS_RAW else None
    decoding = () if decoder is None else (PipelineStep("VALUE_CONVERTER", decoder.run),)
    return (*decoding, SOUND_TEXTS, *transform_steps(source, log))


def steps_of_sink(sink: Sink, topic: Topic, log: Log) -> Sequence[PipelineStep]:
    """What happens to rows between the topic and a put."""
    check_formats(sink)
    declared = topic_of_sink(sink, topic, sink.IS_RAW)
    target = outgoing(sink, declared)
    decoder = decoder_of_sink(sink, topic, sink.IS_RAW)
    steps = [] if decoder is None else [PipelineStep("VALUE_CONVERTER", decoder.run), SOUND_TEXTS]
    if sink.chain is not None:
        steps.append(PipelineStep("TRANSFORMATION", lambda _, rows: transformed(sink, declared, target, rows)))
    if sink.IS_RAW and target.format is None:
        steps.append(PipelineStep("VALUE_CONVERTER", encoder_of_sink(sink, target).run))
    return steps


def transform_steps(source: Source, log: Log) -> Sequence[PipelineStep]:
    """The transforms of a source; the key columns of a topic that is not there yet are those that the source has for it."""
    chain = source.chain
    if chain is None:
        return ()
    known = {} if chain.makes_keys else {name: log.topic(name).key for name in log.topics()}

    def run(name: str, rows: pa.Table) -> Mapping[str, pa.Table]:
        said = key_columns(rows)
        return chain.run(name, rows, source.key_of(name) or known.get(name, ()) if said is None else said)

    return (PipelineStep("TRANSFORMATION", run),)
