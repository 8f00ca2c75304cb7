"""
Random topologies over random records: the engine gives what a plain interpreter of the rules gives, in whatever way it runs.

A case that fails is named by seed and number: `random_case(seed, number)` makes it again. Full counts take fresh seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamkit.engine import advance, joining, reader, windows
from streamkit.engine.changes import REMOVED, REPLACED
from streamkit.engine.operators import materialize, regroup, session_aggregate
from streamkit.engine.rows import deletions_of
from tests.conformance.builder import Json
from tests.conformance.generator import random_case
from tests.conformance.interpreter import explained
from tests.conformance.interpreter.rules import Rules
from tests.conformance.interpreter.run import results
from tests.conformance.kinds import found_steps
from tests.conformance.ways import Way, difference, is_bounded, random_way
from tests.crash.processes import IS_TORTURE

PARTS = 10 if IS_TORTURE else 1
STEPWISE = 200 if IS_TORTURE else 10
IN_ANY_WAY = 400 if IS_TORTURE else 15
QUICK_SEED = 12
Patch = Callable[[Any, str, Any], None]


@pytest.mark.parametrize("part", range(PARTS))
def test_each_step_gives_what_the_rules_say(part: int, record_property: Any) -> None:
    """Each record gives at once what an interpreter gives that shares no operator with the engine."""
    cases = list(any_cases(STEPWISE))
    differences = {case["name"]: stepwise_difference(case) for case in cases}
    record_property("tried", {"random topologies, step by step": len(cases)})
    assert {name: text for name, text in differences.items() if text is not None} == {}


@pytest.mark.parametrize("part", range(PARTS))
def test_no_way_of_running_changes_a_result(part: int, record_property: Any) -> None:
    """Tasks, epochs, partitions, arrivals, crashes and restarts change neither what comes for a key nor its order."""
    pairs = [(case, random_way(number)) for number, case in enumerate(any_cases(IN_ANY_WAY)) if not is_bounded(case)]
    differences = {(case["name"], way): difference(case, way) for case, way in pairs}
    record_property("tried", dict(Counter(f"random topologies, {kind_of(way)}" for _, way in pairs)))
    assert {place: text for place, text in differences.items() if text is not None} == {}


def any_cases(count: int) -> Iterator[Json]:
    """Cases of a fresh seed, of the same one in the ordinary suite."""
    seed = random.SystemRandom().randrange(1_000, 1_000_000) if IS_TORTURE else QUICK_SEED
    return (random_case(seed, number) for number in range(count))


def stepwise_difference(case: Json) -> str | None:
    """The first step of which the engine gives something else than the interpreter."""
    expected = results(case, Rules.streamkit())
    steps = [{**step, "expect": records} for step, records in zip(case["steps"], expected, strict=False)]
    has_failed = isinstance(expected[-1], dict)
    steps = [*steps[:-1], {**steps[-1], "expect": []}] if has_failed else steps
    return explained.difference(case, expected, found_steps({**case, "steps": steps}))


def kind_of(way: Way) -> str:
    if way.crashes or way.restarts:
        return "with crashes and restarts"
    return "as records arrive" if way.is_late else "in one epoch" if way.batching == "all" else "in many epochs"


def close_late(patch: Patch) -> None:
    original = windows.stream_times
    patch(windows, "stream_times", lambda *arguments: original(*arguments) - 1)


def report_late(patch: Patch) -> None:
    original = advance.closed_at
    patch(advance, "closed_at", lambda window, times: original(window, np.asarray(times) - 1))


def keep_deleted_rows(patch: Patch) -> None:
    original = materialize._record
    patch(
        materialize,
        "_record",
        lambda store, newest, context: original(store, newest.filter(pa.array(~deletions_of(newest))), context),
    )


def look_up_the_newest(patch: Patch) -> None:
    original = joining.place_ranks

    def place_ranks(*batches: pa.RecordBatch) -> Any:
        left, *others = original(*batches)
        return np.full_like(left, np.iinfo(np.int32).max) if others else left, *others

    patch(joining, "place_ranks", place_ranks)


def tell_every_loss(patch: Patch) -> None:
    original = regroup._change

    def change(*arguments: Any) -> pa.Array:
        found = original(*arguments).to_numpy()
        return pa.array(np.where(found == REPLACED, REMOVED, found))

    patch(regroup, "_change", change)


def shorten_the_gap(patch: Patch) -> None:
    original = session_aggregate.merged_sessions
    patch(
        session_aggregate,
        "merged_sessions",
        lambda rows, stored, gap_ms, *rest, **options: original(rows, stored, gap_ms - 1, *rest, **options),
    )


def forget_order_keys(patch: Patch) -> None:
    original = reader.order_keys
    patch(reader, "order_keys", lambda timestamps, floor: original(timestamps, np.iinfo(np.int64).min))


BUGS: dict[str, Callable[[Patch], None]] = {
    "a window takes records for a millisecond longer": close_late,
    "final results come a millisecond late": report_late,
    "a deletion leaves the row in its table": keep_deleted_rows,
    "a record meets the newest row of a table, not that of its place": look_up_the_newest,
    "what a group loses has a result of its own": tell_every_loss,
    "records that are a gap apart are in two sessions": shorten_the_gap,
    "order keys forget what was committed": forget_order_keys,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_operator_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is wrong in one way gives something else for one of a few hundred random cases."""
    BUGS[bug](monkeypatch.setattr)
    cases = (random_case(QUICK_SEED, number) for number in range(400))
    assert any(difference(case, random_way(number)) for number, case in enumerate(cases) if not is_bounded(case))
