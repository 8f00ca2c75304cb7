"""The promises of the last resort (`test_salvage.py`) are broken by salvages that are wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamkit.log import salvage
from tests.unit.log import test_salvage as promises
from tests.unit.log.test_salvage import folder, log

pytestmark = pytest.mark.usefixtures("slabs_in_files")

__all__ = ["folder", "log"]


def bring_all_rows(patch):
    patch(salvage, "_again", lambda table: pa.array([False] * table.num_rows))


def believe_the_times_of_files(patch):
    patch(salvage, "_by_writer", lambda frames: sorted(frames, key=lambda frame: frame.modified_ns))


def go_by_offsets_alone(patch):
    """Only rows that say their offsets come, as if every slab were a merged one."""
    original = salvage._in_order
    patch(salvage, "_in_order", lambda frames: original([frame for frame in frames if frame.first_offset is not None]))


BUGS = {  # and which promise they break
    "merged rows come with the old ones": (bring_all_rows, promises.test_merged_rows_come_once),
    "the times of files are believed": (believe_the_times_of_files, promises.test_rows_of_a_writer_keep_their_order),
    "files that were never merged are left out": (
        go_by_offsets_alone, promises.test_rows_before_rewritten_ones_stay_before_them
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_salvage_is_caught(bug, log, monkeypatch):
    """A salvage that is wrong in one way brings other rows, or in another order."""
    plant, promise = BUGS[bug]
    plant(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        promise(log)
