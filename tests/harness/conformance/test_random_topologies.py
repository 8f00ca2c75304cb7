"""
Random topologies over random records: the engine gives what a plain interpreter of the rules gives, in whatever way it runs.

A case that fails is named by seed and number: `random_case(seed, number)` makes it again. Full counts take fresh seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamkit.engine.epoch import frame_times
from streamkit.engine.folding import joining, windows
from streamkit.engine.folding.changes import REMOVED, REPLACED
from streamkit.engine.folding.session import columns as sessions_of_columns
from streamkit.engine.folding.session.merged_sessions import merged_sessions
from streamkit.engine.operators import late, materialize, regroup
from streamkit.engine.rows.place import place_ranks
from streamkit.engine.rows.rows import deletions_of
from streamkit.engine.stage.advance import stream_times
from streamkit.errors import StreamKitError
from streamkit.names import TIMESTAMP
from streamkit.plan.windows import Windowing
from tests.harness.conformance.builder import Json
from tests.harness.conformance.changed_topology import difference_of_change, difference_of_rebuild, difference_of_succession
from tests.harness.conformance.generator import random_case
from tests.harness.conformance.interpreter import explained
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.kinds import found_steps
from tests.harness.conformance.ways import Way, asking_for_old_values, difference, is_bounded, random_way
from tests.kit.sampling import PARTS, SEEDS, TAKES_ALL

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")  # cases append what they take away
STEPWISE, IN_ANY_WAY, CHANGED = 4, 4, 3
QUICK_SEED = 30
Patch = Callable[[Any, str, Any], None]


@pytest.mark.parametrize("part", PARTS)
def test_each_step_gives_what_the_rules_say(part: int, record_property: Any) -> None:
    """Each record gives at once what an interpreter gives that shares no operator with the engine."""
    cases = list(any_cases(STEPWISE))
    differences = {case["name"]: stepwise_difference(case) for case in cases}
    record_property("tried", {"random topologies, step by step": len(cases)})
    assert found_in(differences) == {}


@pytest.mark.parametrize("part", PARTS)
def test_no_way_of_running_changes_a_result(part: int, record_property: Any) -> None:
    """Tasks, epochs, partitions, arrivals, crashes and restarts change neither what comes for a key nor its order."""
    pairs = [(case, random_way(number)) for number, case in enumerate(any_cases(IN_ANY_WAY, own=True)) if not is_bounded(case)]
    differences = {f"{case['name']}, {way}": difference(case, way) for case, way in pairs}
    record_property("tried", dict(Counter(f"random topologies, {kind_of(way)}" for _, way in pairs)))
    assert found_in(differences) == {}


@pytest.mark.parametrize("part", PARTS)
def test_a_changed_topology_goes_on_from_its_state(part: int, record_property: Any) -> None:
    """A start with one more operator gives of the others what they would have given, and of the new one what comes from then on."""
    cases = [case for case in any_cases(CHANGED, own=True) if not is_bounded(case)]
    differences = {case["name"]: difference_of_change(case, number) for number, case in enumerate(cases)}
    record_property("tried", {"random topologies, changed": len(cases)})
    assert found_in(differences) == {}


@pytest.mark.parametrize("part", PARTS)
def test_a_rebuilt_operator_is_as_if_it_had_always_been_there(part: int, record_property: Any) -> None:
    """One more operator that is rebuilt gives what it would give if it had always been there, and nothing again; so do all others."""
    cases = [case for case in any_cases(CHANGED, own=True) if not is_bounded(case)]
    differences = {case["name"]: difference_of_rebuild(case, number) for number, case in enumerate(cases)}
    record_property("tried", {"random topologies, rebuilt": len(cases)})
    assert found_in(differences) == {}


@pytest.mark.parametrize("part", PARTS)
def test_a_second_version_gives_what_the_first_would(part: int, record_property: Any) -> None:
    """Two versions of a topology, of which the second takes the first over at any record, give together what one gives."""
    cases = [case for case in any_cases(CHANGED, own=True) if not is_bounded(case)]
    differences = {case["name"]: difference_of_succession(case, number) for number, case in enumerate(cases)}
    record_property("tried", {"random topologies, taken over": len(cases)})
    assert found_in(differences) == {}


def any_cases(count: int, own: bool = False) -> Iterator[Json]:
    """So many cases of the same seed; in torture a part of five thousand, of a fresh one."""
    seed = random.SystemRandom().randrange(1_000, 1_000_000) if TAKES_ALL else QUICK_SEED
    return (random_case(seed, number, own) for number in range(SEEDS // len(PARTS) if TAKES_ALL else count))


def found_in(differences: Mapping[str, str | None]) -> dict[str, str]:
    """Those that there are."""
    return {name: text for name, text in differences.items() if text is not None}


def stepwise_difference(case: Json) -> str | None:
    """The first step of which the engine gives something else than the interpreter."""
    case = asking_for_old_values(case)
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
    patch(windows, "stream_times", lambda *arguments: stream_times(*arguments) - 1)


def report_late(patch: Patch) -> None:
    original = Windowing.closed
    patch(Windowing, "closed", lambda window, times: original(window, np.asarray(times) - 1))
    patch(Windowing, "first_open", lambda window, times: (original(window, times) + 1) * window.advance_ms)


def keep_deleted_rows(patch: Patch) -> None:
    original = materialize._record
    patch(
        materialize,
        "_record",
        lambda store, newest, context: original(store, newest.filter(pa.array(~deletions_of(newest))), context),
    )


def look_up_the_newest(patch: Patch) -> None:
    def ranks(*batches: pa.RecordBatch) -> Any:
        left, *others = place_ranks(*batches)
        return np.full_like(left, np.iinfo(np.int32).max) if others else left, *others

    patch(joining, "place_ranks", ranks)


def tell_every_loss(patch: Patch) -> None:
    original = regroup._change

    def change(*arguments: Any) -> pa.Array:
        found = original(*arguments).to_numpy()
        return pa.array(np.where(found == REPLACED, REMOVED, found))

    patch(regroup, "_change", change)


def shorten_the_gap(patch: Patch) -> None:
    patch(
        sessions_of_columns,
        "merged_sessions",
        lambda rows, stored, window, **options: merged_sessions(
            rows, stored, replace(window, size_ms=window.size_ms - 1), **options
        ),
    )


def take_all_as_late(patch: Patch) -> None:
    patch(late, "stream_times", lambda *arguments: stream_times(*arguments) + 1)


def forget_what_is_left(patch: Patch) -> None:
    for place in (joining, materialize):
        patch(place, "row_times", lambda rows: rows[TIMESTAMP])


def cut_by_written_times(patch: Patch) -> None:
    patch(frame_times, "event_times", lambda source, batch: batch[TIMESTAMP].view(pa.int64()).to_numpy())


BUGS: dict[str, tuple[Callable[[Patch], None], int]] = {  # and the number of a case in which it shows
    "a window takes records for a millisecond longer": (close_late, 300),
    "final results come a millisecond late": (report_late, 47),
    "a deletion leaves the row in its table": (keep_deleted_rows, 17),
    "a record meets the newest row of a table, not that of its place": (look_up_the_newest, 13),
    "a row that lost its partner has the time of that loss": (forget_what_is_left, 841),
    "what a group loses has a result of its own": (tell_every_loss, 7),
    "records that are a gap apart are in two sessions": (shorten_the_gap, 109),
    "a record that is in time goes to the late ones": (take_all_as_late, 173),
    "an epoch is cut by the times under which records were written, not by those of a column": (cut_by_written_times, 10),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_operator_is_caught(bug: str) -> None:
    """An engine that is wrong in one way gives something else for some random case, which it gets right otherwise."""
    plant, first = BUGS[bug]
    assert any(is_caught(plant, number) for number in range(first, first + 300))


def is_caught(plant: Callable[[Patch], None], number: int) -> bool:
    """Whether a case that is right is wrong with the bug, or stops."""
    case, way = random_case(QUICK_SEED, number, own=True), random_way(number)
    if is_bounded(case):
        return False
    with pytest.MonkeyPatch.context() as patch:
        plant(patch.setattr)
        try:
            is_wrong = difference(case, way) is not None
        except StreamKitError:
            is_wrong = True
    return is_wrong and difference(case, way) is None
