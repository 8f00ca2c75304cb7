"""
The format of an application's state: how its aggregates are kept.

    1    totals without a carry (`streamkit.expressions.aggregates.earlier`); no epoch says so
    2    as `streamkit.expressions.aggregates` has them; every epoch says so, in its metrics

The start of an application converts state of format 1, before the first epoch that runs by this version.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.expressions.aggregates import state_columns
from streamkit.expressions.aggregates.earlier import converted, earlier_columns
from streamkit.log.catalog.applications import ApplicationState
from streamkit.plan.expression import TypedAggregate
from streamkit.state.row import decode_rows

METRIC = "state_format"  # in the metrics of an epoch
STATE_FORMAT = "2"  # text, for of what is no number the newest counts


def is_earlier(application: ApplicationState) -> bool:
    """Whether the application's state was last written in the format before."""
    return application.epoch > 0 and application.metrics.get(METRIC) != STATE_FORMAT


def decode_states(
    values: pa.BinaryArray, aggregates: Sequence[TypedAggregate], is_earlier: bool
) -> tuple[pa.Array, list[pa.Array]]:
    """The largest event time of each stored group, and the state columns of all aggregates, one after the other, as they are now."""
    columns_of = earlier_columns if is_earlier else state_columns
    timestamps, *states = decode_rows(values, ["bigint", *(column.type for one in aggregates for column in columns_of(one))])
    return timestamps, converted(aggregates, states) if is_earlier else states
