"""Whether the numbers of rows that the catalog has of stores are those of the stores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from streamkit.description.applications import read_program
from streamkit.engine.epoch import row_counting
from streamkit.engine.epoch.row_counting import SAMPLE, SAMPLED_ROWS, rows_of_stores
from streamkit.errors import StreamKitError
from streamkit.log.catalog.epochs import CONVERTED
from streamkit.log.log import Log
from streamkit.log.values.keys import key_groups


def check_row_counts(log: Log, application: str) -> int:
    """
    AssertionError unless the rows of all stores with a log are counted, and right; those that are sampled in the sample. How many are sampled.

    After a start that has written rows, or made stores, they are counted by the next epoch.
    """
    state = log.catalog.applications.get(application)
    (last,) = log.catalog.epochs.last(state.id, 1) or (None,)
    is_to_be_counted = last is None or last.generation < state.generation or CONVERTED in last.metrics
    unlogged = read_program(log.catalog.applications.program_of(application) or "").unlogged
    ids = {name: store.changelog_topic_id for name, store in state.stores.items()}
    counted, sampled = rows_of_stores(state.metrics, ids), 0
    for name, changelog_id in ids.items():
        try:
            view = log.store(application, name)
        except StreamKitError:  # nobody can look into it
            continue
        if name not in counted:
            assert is_to_be_counted or name in unlogged, f"the rows of {name} were not counted"
            continue
        expected = view.count()
        if (state.metrics.get(SAMPLED_ROWS) or {}).get(str(changelog_id)):
            rows, key = view.to_arrow(), view.store.key.names
            groups = key_groups([rows[column].combine_chunks() for column in key], state.key_groups)
            expected, sampled = SAMPLE * int(np.count_nonzero(groups % SAMPLE == 0)), sampled + 1
        assert counted[name] == expected, f"the store {name} has {expected} rows; {counted[name]} were counted"
    return sampled


@contextmanager
def sampled_early(seed: int) -> Iterator[None]:
    """In two of three runs stores are sampled when they have a few rows, and no longer when they have fewer."""
    chance = random.Random(f"row counts {seed}")
    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.7:
            patch.setattr(row_counting, "ALL_ROWS_MAX", chance.choice([0, 1, 5]))
            patch.setattr(row_counting, "ALL_ROWS_AGAIN", chance.choice([0, 1, 20]))
        yield
