"""The steps of a connector, made from its settings: from bytes to columns, the transforms, from columns to bytes."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.connectors.runtime.pipeline import Step
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.log.log import Log


def steps_of_source(source: Source, log: Log) -> Sequence[Step]:
    """What happens to rows between a poll and the topic."""
    return ()


def steps_of_sink(sink: Sink, log: Log) -> Sequence[Step]:
    """What happens to rows between the topic and a put."""
    return ()
