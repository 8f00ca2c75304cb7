"""The newest records of a log, in the order in which an application takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.dsl.topology import Topology
from streamkit.engine.epoch.event_time import event_times
from streamkit.engine.epoch.order import partition_times
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.names import DELETED, PARTITION
from streamkit.plan.program import Input

if TYPE_CHECKING:
    from streamkit.log.log import Log


def newest_records(topology: Topology, log: Log, by_topic: Mapping[str, pa.Table], count: int) -> dict[str, pa.Table]:
    """
    The last rows of streams that the application of a topology would read, by partition and offset, that many in all.

    The rows of each topic are as `log.read` returns them, and stay in their order.
    """
    inputs = compile_with_settings(topology, log).inputs
    sources = {one.topic: one for one in inputs if one.kind == "stream" and one.topic in by_topic}
    keys = [_order_keys(source, by_topic[topic]) for topic, source in sources.items()]
    kept = np.sort(np.argsort(np.concatenate([np.zeros(0, np.int64), *keys]), kind="stable")[-count:])
    found, first = dict[str, pa.Table](), 0
    for topic, own in zip(sources, keys, strict=True):
        places = kept[(kept >= first) & (kept < first + len(own))] - first
        found[topic] = by_topic[topic].take(pa.array(places))
        first += len(own)
    return found


def _order_keys(source: Input, rows: pa.Table) -> Integers:
    """The time that orders each record: the latest event time that its partition has reached."""
    if DELETED not in rows.column_names:
        rows = rows.append_column(DELETED, pa.repeat(False, rows.num_rows))
    times = np.concatenate([np.zeros(0, np.int64), *(event_times(source, batch) for batch in rows.to_batches())])
    starts = np.flatnonzero(np.diff(rows[PARTITION].to_numpy(), prepend=-1))
    return np.concatenate([partition_times(one, NO_TIME, source.jump_ms) for one in np.split(times, starts[1:])])
