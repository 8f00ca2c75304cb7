"""Random topologies whose runs are drained in between give what one run gives, which is what the interpreter gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamkit.engine.runs.planner import Planner
from streamkit.errors import StreamKitError
from tests.harness.conformance.builder import Json
from tests.harness.conformance.drained import difference_of_days, meet_others
from tests.harness.conformance.test_random_topologies import any_cases, found_in
from tests.harness.conformance.ways import Way, is_bounded, random_way
from tests.kit.sampling import PARTS, SEEDS, TAKES_ALL

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")
CASES = SEEDS // len(PARTS) if TAKES_ALL else 2


@pytest.mark.parametrize("part", PARTS)
def test_a_daily_job_gives_what_one_run_gives(part: int, record_property: Any) -> None:
    """A run that is drained after each day gives every result of one run over all days, key by key in its order."""
    pairs = list(days(CASES))
    differences = {f"{case['name']}, {way}": difference_of_days(case, way) for case, way in pairs}
    record_property("tried", dict(Counter("random topologies, drained in between" for _ in pairs)))
    assert found_in(differences) == {}


def test_an_input_that_a_drain_moves_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a drain moved the inputs by the sum of all waits, some case would lose records of the next day as late."""
    original = Planner.closing_end

    def moving(planner: Planner, before: Any) -> Any:
        end, wait_ms = original(planner, before), sum(one.longest_wait_ms for one in planner.program.operators)
        if end is None:
            return None
        moved = {name: time + wait_ms * 100 for name, time in end.times.items() if name.startswith("input/")}
        return replace(end, times={**end.times, **moved})

    monkeypatch.setattr(Planner, "closing_end", moving)
    assert any(is_different(case, way) for case, way in days(60))


def test_results_that_wait_and_meet_other_topics_are_told() -> None:
    """Such as final results that are joined with a table, or with those of another topic; with those of their own they are the same."""
    counts = [
        [
            {"id": f"g{topic}", "op": "group_by_key", "in": topic},
            {"id": f"w{topic}", "op": "window", "in": f"g{topic}", "emit": "on_close"},
        ]
        for topic in "st"
    ]
    stream, other, table = ({"id": name, "op": "stream", "topic": name} for name in "stu")
    final = [stream, *counts[0]]
    join = {"id": "j", "op": "join", "kind": "stream_table", "type": "inner", "left": "ws"}
    assert not meet_others({"nodes": final})
    assert not meet_others({"nodes": [*final, {**join, "right": "s"}]})
    assert meet_others({"nodes": [*final, table, {**join, "right": "u"}]})
    assert meet_others({"nodes": [*final, other, *counts[1], {**join, "kind": "table_table", "type": "outer", "right": "wt"}]})


def is_different(case: Json, way: Way) -> bool:
    try:
        return difference_of_days(case, way) is not None
    except (StreamKitError, AssertionError):
        return True


def days(count: int) -> Iterator[tuple[Json, Way]]:
    """
    Cases and ways that keep the order of the days.

    No update is held back for a time, which the first record of a day replaces, and no result that waits meets another topic.
    """
    for number, case in enumerate(any_cases(count, own=True)):
        is_limited = any(node.get("until") == "time_limit" for node in case["topology"]["nodes"])
        if not is_bounded(case) and not is_limited and not meet_others(case["topology"]):
            yield case, replace(random_way(number), is_shuffled=False, is_late=False)
