"""What tasks hear of changelogs survives JSON, and what was written before is read."""

from __future__ import annotations

import json

from streamkit.log.slab.extent import Extent
from streamkit.log.storage.storage import MemoryStorage
from streamkit.plan.plain import from_plain, to_plain
from streamkit.state.changelog import CommittedChanges, PlanFile

EXTENT = Extent(7, 1, 0, 2, "slabs/a1/1/1-00.slab", 64, 128, -5, 6, 2)
CHANGES = CommittedChanges(
    3, "t3", {7: {0: 0, 1: 2}}, {7: {1: 0}}, (EXTENT,), {2: "t2", 3: "t3"}, ("plans/a1/1-00.plan",), {7: {1: 1}}, (2, "t2")
)


def test_changes_survive_json() -> None:
    """All fields come back, extents and offsets by number too."""
    assert from_plain(CommittedChanges, json.loads(json.dumps(to_plain(CHANGES)))) == CHANGES


def test_changes_and_plan_files_of_before_are_read() -> None:
    """The JSON of a StreamKit that did not know of the start of a generation, as it wrote it."""
    extents = '[[7, 1, 0, 2, "slabs/a1/1/1-00.slab", 64, 128, -5, 6, 2]]'
    old = json.loads(
        '{"epoch": 3, "token": "t3", "ends": {"7": {"0": 0, "1": 2}}, "starts": {"7": {"1": 0}}, "extents": ' + extents + ', "tokens": '
        '{"2": "t2", "3": "t3"}, "plan_files": ["plans/a1/1-00.plan"], "purged_below": {"7": {"1": 1}}}'
    )  # fmt: skip
    found = from_plain(CommittedChanges, old)
    assert (found.generation_start, found.extents, found.ends, found.tokens) == ((0, ""), (EXTENT,), CHANGES.ends, CHANGES.tokens)

    storage = MemoryStorage()
    written = '{"starts": {"7": {"1": 0}}, "extents": ' + extents + ', "tokens": {"2": "t2"}}'
    storage.create("plans/a1/1-00.plan", [written.encode()])
    plan = PlanFile.read(storage, "plans/a1/1-00.plan")
    assert plan == PlanFile({7: {1: 0}}, (EXTENT,), {2: "t2"})
    plan.write(storage, "plans/a1/1-01.plan")
    assert bytes(storage.map("plans/a1/1-01.plan")).decode() == written
