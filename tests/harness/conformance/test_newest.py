"""
The newest results of windows: what Kafka Streams gives, without what another record of the same epoch replaces, and in its order.

Kafka Streams deletes each session that a record merges before it gives the merged one. A reader of the topic that goes from record to
record must not meet a part of a session behind the session itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from streamkit.engine.folding import function_windows
from streamkit.engine.folding.result_places import places_of_newest
from streamkit.engine.folding.session import columns
from tests.harness.conformance.builder import Json
from tests.harness.conformance.generator import random_case_of_newest
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.running import Record
from tests.harness.conformance.test_random_topologies import stepwise_difference
from tests.harness.conformance.ways import Way, given
from tests.kit.sampling import PARTS, SEEDS, TAKES_ALL

QUICK_SEED, COUNT = 30, 4


def cases() -> list[Json]:
    """So many cases of the same seed; in torture a part of five thousand, of a fresh one."""
    seed = random.SystemRandom().randrange(1_000, 1_000_000) if TAKES_ALL else QUICK_SEED
    return [random_case_of_newest(seed, number) for number in range(SEEDS // len(PARTS) if TAKES_ALL else COUNT)]


@pytest.mark.parametrize("part", PARTS)
def test_each_step_gives_what_is_newest(part: int, record_property: Any) -> None:
    """The engine gives the newest results that the rules give, in the order of Kafka Streams."""
    tried = cases()
    record_property("tried", {"newest results of windows, step by step": len(tried)})
    found = {case["name"]: stepwise_difference(case) for case in tried}
    assert {name: text for name, text in found.items() if text is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_epochs_of_many_records_end_with_the_same_windows(part: int, record_property: Any) -> None:
    """However records are cut, the windows that are there are those of the rules, and no part of a session comes behind it."""
    tried = cases()
    record_property("tried", {"newest results of windows, in epochs": len(tried)})
    found = {case["name"]: difference_in_epochs(case, number) for number, case in enumerate(tried)}
    assert {name: text for name, text in found.items() if text is not None} == {}


def difference_in_epochs(case: Json, number: int) -> str | None:
    """How the windows that are there in the end differ, or which part of a session comes behind it in one epoch."""
    for batching in ("all", "random"):
        way = Way(seed=number, batching=batching, tasks=number % 3 + 1, is_together=number % 2 > 0)
        records, steps = given(case, way)
        wanted = there([record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step])
        if there(records) != wanted:
            return f"{batching}: expected {wanted}, found {there(records)}"
        if batching == "all" and is_session(case) and (behind := part_behind(records)) is not None:
            return f"the deletion {behind} comes behind the session"
    return None


def is_session(case: Json) -> bool:
    return any(node.get("type") == "session" for node in case["topology"]["nodes"])


def there(records: Sequence[Record]) -> dict[str, Json]:
    """The newest record of each key and window that is no deletion."""
    newest = {json.dumps([record["key"], record["window"]]): record for record in records}
    return {place: record for place, record in newest.items() if record["value"] is not None}


def part_behind(records: Sequence[Record]) -> Record | None:
    """A deletion that comes behind a session of its key which holds it."""
    held: list[Record] = []
    for record in records:
        start, end = record["window"]
        if record["value"] is not None:
            held.append(record)
        elif any(one["key"] == record["key"] and one["window"][0] <= start and end <= one["window"][1] for one in held):
            return record
    return None


def plant_no_order(patch: pytest.MonkeyPatch) -> None:
    """All results stand at one place, deletions at the next one."""
    patch_places(patch, lambda windows, is_deleted: (np.zeros_like(windows), ~is_deleted))


def plant_deletions_last(patch: pytest.MonkeyPatch) -> None:
    """Deletions come behind other results that end with them."""
    patch_places(patch, lambda windows, is_deleted: (windows, ~is_deleted))


def patch_places(patch: pytest.MonkeyPatch, wrong: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    def places(operator: Any, windows: Any, keys: Any, context: Any, is_deleted: Any = None) -> Any:
        windows, is_deleted = (windows, None) if is_deleted is None else wrong(windows, is_deleted)
        return places_of_newest(operator, windows, keys, context, is_deleted)

    for room in (columns, function_windows):
        patch.setattr(room, "places_of_newest", places)


BUGS = {  # and the number of a case in which it shows
    "deletions come behind all others": (plant_no_order, 8),
    "deletions come behind what ends with them": (plant_deletions_last, 8),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_order_is_caught(bug: str) -> None:
    """Where deletions come behind a merged session, some random case differs that is right otherwise."""
    plant, first = BUGS[bug]
    assert any(is_caught(plant, random_case_of_newest(QUICK_SEED, number)) for number in range(first, first + 100))


def is_caught(plant: Callable[[pytest.MonkeyPatch], None], case: Json) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        is_wrong = stepwise_difference(case) is not None
    return is_wrong and stepwise_difference(case) is None
