"""What an epoch adds to the numbers of rows in stores, as its `RowCounting` says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.row_counting import SAMPLE, SAMPLED_ROWS, STORE_ROWS
from streamkit.state.key import FIRST_TIME
from streamkit.state.layout import layout_of

if TYPE_CHECKING:
    from streamkit.engine.stage.context import Context


def count_begun(context: Context, stage: int) -> None:
    """Count the committed rows of the stores of a stage whose counts begin; the first task takes back what was known of them."""
    plan = context.plan
    for name, (rows, in_sample) in plan.counting.begun.items():
        store = context.store(name)
        if store.stage != stage:
            continue
        metric, groups = STORE_ROWS, [*context.groups]
        if name in plan.counting.sampled:
            metric, groups = SAMPLED_ROWS, [group for group in groups if group % SAMPLE == 0]
        changelog_id = str(plan.application.stores[name].changelog_id)
        ranges = layout_of(store).ranges(context.store_number(name), groups)
        context.counts[metric, changelog_id] += context.committed_state().count(ranges)
        if context.origin == 0:
            begun = Counter({STORE_ROWS: -rows, SAMPLED_ROWS: -in_sample})
            begun[SAMPLED_ROWS] += metric == SAMPLED_ROWS
            for total, added in begun.items():
                context.counts[total, changelog_id] += added


def count_changes(
    context: Context, name: str, keys: pa.BinaryArray, key_groups: Integers, values: pa.BinaryArray, was_stored: Mask | None
) -> None:
    """
    Count how many rows the changes of a store add.

    `was_stored` says of which keys it has rows; None if the operator did not look. Lists of windows are no rows.
    """
    if name in context.program.unlogged:
        return
    metric, wanted = STORE_ROWS, np.ones(len(keys), bool)
    if name in context.plan.counting.sampled:
        metric, wanted = SAMPLED_ROWS, key_groups % SAMPLE == 0
    if layout_of(context.store(name)).has_lists:
        wanted = wanted & ~_are_lists(keys)
    if was_stored is None:
        asked = keys if wanted.all() else keys.filter(pa.array(wanted))
        before = len(asked) - context.committed_state().get(asked).null_count
    else:
        before = int(np.count_nonzero(was_stored & wanted))
    after = int(np.count_nonzero(wanted & values.is_valid().to_numpy(zero_copy_only=False)))
    context.count(metric, str(context.plan.application.stores[name].changelog_id), after - before)


def _are_lists(keys: pa.BinaryArray) -> Mask:
    """Which keys have the first of all times before their columns."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys)]
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    are_lists: Mask = ~data[offsets[:, None] + FIRST_TIME].any(axis=1)
    return are_lists
