"""
Where the results of an aggregation stand in the canonical order, by emission and whatever the windows.

A result of a row stands at the place of the row, `latest` at the end of the epoch, `final` just before the record that closed its window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.place import at_epoch_end, extended_by_turn, in_front, paths_of, place_columns
from streamkit.engine.stage.advance import final_place
from streamkit.engine.stage.context import Context
from streamkit.names import PATH
from streamkit.plan.operator import Operator


def places_of_rows(operator: Operator, rows: pa.RecordBatch, causes: Integers, context: Context) -> dict[str, pa.Array]:
    """The places of results that rows caused, some of them several: in the order of `causes`, which are the numbers of the rows."""
    first_of_row = np.maximum.accumulate(np.where(np.diff(causes, prepend=-1) != 0, np.arange(len(causes)), 0))
    at = rows.take(pa.array(causes)).select(list(place_columns(rows)))
    number = context.turn(operator.id).owns
    return {**place_columns(at), PATH: extended_by_turn(at, number, np.arange(len(causes)) - first_of_row)}


def places_of_newest(
    operator: Operator,
    windows: Integers | None,
    keys: Sequence[pa.Array],
    context: Context,
    is_deleted: Mask | None = None,
) -> dict[str, pa.Array]:
    """The places of the newest results of an epoch: at its end, in the order of their windows, of one window deletions first, and keys."""
    return at_epoch_end(context.plan.end.order, context.number(operator.id), paths_of(None, windows, keys, is_deleted))


def places_of_final(
    operator: Operator, due: Integers, windows: Integers, keys: Sequence[pa.Array], context: Context
) -> dict[str, pa.Array]:
    """The places of final results that were due at these moments, those of one moment in the order of their windows and keys."""
    paths = in_front(paths_of(context.turn(operator.id).own, windows, keys))
    return {**final_place(operator, due, context.advances()), PATH: paths}
