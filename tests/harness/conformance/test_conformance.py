"""
What Kafka Streams gives, step by step: the cases of its own tests, and random ones that were recorded.

Where StreamKit differs on purpose, an interpreter of the rules explains the difference (see `tests.harness.conformance.interpreter`).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.harness.conformance import functions
from tests.harness.conformance.__main__ import cases_in, main
from tests.harness.conformance.builder import Json
from tests.harness.conformance.kinds import deviation, difference
from tests.harness.conformance.recorded import cost, neighbours, options, recorded
from tests.harness.conformance.ways import Way, is_bounded
from tests.harness.conformance.ways import difference as difference_of_way
from tests.kit import store_calls as stores
from tests.kit.sampling import TAKES_ALL, chosen, covering

pytestmark = pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")  # cases append what they take away
DATA = Path(__file__).parent / "data"
CASES = list(cases_in(DATA / "cases"))
MADE = list(cases_in(DATA / "made.json"))
PARTS = 4


def name_of(case: Json) -> str:
    return str(case["name"])


def traits(case: Json) -> set[Any]:
    """What a listed case is about: the family it is of, options and neighbours of its operators, steps without key or value."""
    if is_of_store(case):
        return {(case["kind"], step["op"]) for step in case["steps"]}
    steps = {("step", *(name for name in ("key", "value") if step.get(name) is None)) for step in case["steps"]}
    return {name_of(case).partition("_")[0]} | options(case) | neighbours(case) | steps


def is_topology(case: Json) -> bool:
    return str(case.get("kind", "topology")) == "topology"


def is_of_store(case: Json) -> bool:
    return str(case.get("kind")) in stores.KINDS


def can_be_at_once(case: Json) -> bool:
    """Whether nothing in a case asks for an epoch of its own: a bound of a suppress, or the wall clock."""
    return not is_bounded(case) and not any("advance_wall_clock_ms" in step for step in case["steps"])


def in_one_epoch() -> list[Json]:
    """The listed cases that an ordinary run takes in one epoch, because others have all that they are about."""
    cases = [case for case in (*CASES, *MADE) if is_of_store(case) or (is_topology(case) and can_be_at_once(case))]
    names = {*map(name_of, covering(cases, traits, lambda case: len(case["steps"]) if is_of_store(case) else cost(case)))}
    return [case for case in cases if name_of(case) not in names]


AT_ONCE = in_one_epoch()
STEP_BY_STEP, MADE_STEP_BY_STEP = ([case for case in cases if TAKES_ALL or case not in AT_ONCE] for cases in (CASES, MADE))


@cache
def step_by_step() -> list[Json]:
    """The recorded cases that a run takes step by step: some that have every option of an operator that listed ones do not have."""
    listed = set[Any]().union(*(options(case) for case in (*STEP_BY_STEP, *MADE_STEP_BY_STEP) if is_topology(case)))
    return chosen(recorded(), lambda case: options(case) - listed, cost)


@cache
def at_once() -> list[Json]:
    """Those that it takes in one epoch: some that have every operator behind every other that it was recorded behind, but in listed ones."""
    listed = set[Any]().union(*map(neighbours, filter(is_topology, AT_ONCE)))
    cases = [case for case in recorded() if can_be_at_once(case)]
    return chosen(cases, lambda case: neighbours(case) - listed, lambda case: 20 + len(case["steps"]))


@pytest.mark.parametrize("case", STEP_BY_STEP, ids=name_of)
def test_every_record_gives_what_kafka_streams_gives(case: Json) -> None:
    """Each step of a case of Kafka Streams' own tests gives its records, or what a listed rule of StreamKit makes of them."""
    assert difference(case) is None


@pytest.mark.parametrize("case", AT_ONCE, ids=name_of)
def test_all_records_at_once_give_what_the_rules_say(case: Json) -> None:
    """All records of a case in one epoch give what the interpreter says, which gives what Kafka Streams gives, see its own tests."""
    if is_of_store(case):
        assert stores.difference(case, batching="all") is None
    else:
        assert difference_of_way(case, Way(seed=1, batching="all", tasks=2, is_together=True)) is None


@pytest.mark.parametrize("case", MADE_STEP_BY_STEP, ids=name_of)
def test_every_option_of_the_format_is_taken(case: Json) -> None:
    """So does each step of small cases of stores, keys and lengths of time that the others do not have, replayed on Kafka Streams 4.3.0."""
    assert difference(case) is None


@pytest.mark.parametrize("part", range(PARTS))
def test_random_topologies_give_what_kafka_streams_gave(part: int) -> None:
    """So does each step of random topologies that Kafka Streams 4.3.0 has run."""
    cases = step_by_step()[part::PARTS]
    assert len(cases) > 3
    found = {case["name"]: difference(case) for case in cases}
    assert {name: text for name, text in found.items() if text is not None} == {}


@pytest.mark.parametrize("part", range(PARTS))
def test_recorded_topologies_give_the_same_at_once(part: int) -> None:
    """All records of such a topology in one epoch, in some tasks, give for each key what the rules say, which explain what Kafka Streams gave."""
    cases = at_once()[part::PARTS]
    assert len(cases) > 5
    ways = [Way(seed=number, batching="all", tasks=number % 3 + 1, is_together=number % 4 > 0) for number in range(len(cases))]
    found = {case["name"]: difference_of_way(case, way) for case, way in zip(cases, ways, strict=True)}
    assert {name: text for name, text in found.items() if text is not None} == {}


def test_functions_take_texts_as_java_does() -> None:
    """Lengths count units of 16 bits, and texts are equal in any case character by character, as Kafka Streams gave for such values."""
    assert [functions.value_function("len")("k", value) for value in ("", "é", "😀")] == [0, 1, 2]
    assert functions.value_function("len_plus_key")(1, "é😀") == 4
    pairs = [("i", "İ"), ("σ", "ς"), ("k", "\u212a"), ("ß", "SS"), ("", "x")]
    found = [functions.predicate(f"value_equals_ignore_case({one})")("k", other) for one, other in pairs]
    assert found == [True, True, True, False, False]


def test_a_session_without_a_value_is_deleted() -> None:
    """A case may put null into a session store, which deletes the session, as it does in a window store."""
    steps = [
        {"op": "put", "key": "é", "window": [1, 5], "value": -1},
        {"op": "put", "key": "é", "window": [1, 5], "value": None},
        {"op": "fetch", "key": "é", "expect": []},
    ]
    store = {"retention_ms": 10_000, "key": "string", "value": "long"}
    assert difference({"name": "made", "kind": "session_store", "store": store, "steps": steps}) is None


def test_windows_of_a_time_do_not_depend_on_the_times_before() -> None:
    """A case may ask for the windows of a time that lies years before the one of the step before."""
    year = 365 * 24 * 3_600_000
    steps = [{"ts": 50 * year + 7, "expect": [[50 * year, 50 * year + 12]]}, {"ts": 21, "expect": [[12, 24]]}]
    assert (50 * year) % 12 == 0
    assert (
        difference({"name": "made", "kind": "windows_for", "window": {"type": "tumbling", "size_ms": 12}, "steps": steps}) is None
    )


def test_no_case_is_left_out() -> None:
    """All cases of the folder are run, under a name each."""
    assert len({case["name"] for case in CASES}) == len(CASES) == 205
    assert {*map(name_of, (*STEP_BY_STEP, *MADE_STEP_BY_STEP, *AT_ONCE))} == {*map(name_of, (*CASES, *MADE))}


def test_a_deviation_is_explained_by_its_rule() -> None:
    """A final result that Kafka Streams loses is explained by the rule that keeps it, whatever the case is called."""
    (case,) = [case for case in CASES if case["name"] == "probe_tumbling_emit_final_jump_grace0_to_50"]
    assert "windows_are_kept" in deviation({**case, "name": "another"})


def test_the_runner_tells_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m tests.harness.conformance DIR` names a case whose records are others, counts, and fails."""
    cases = [case for case in CASES if case["name"] in ("kstream_filter", "kgroupedstream_count")]
    wrong = json.loads(json.dumps(cases[0]))
    wrong["name"] = "wrong"
    next(step for step in wrong["steps"] if step["expect"])["expect"][0]["value"] = "another"
    (tmp_path / "cases.json").write_text(json.dumps([*cases, wrong]), encoding="utf-8")
    status = main([str(tmp_path)])
    failing, count = capsys.readouterr().out.splitlines()
    assert failing.startswith("wrong: step ")
    assert count == "2 passed, 1 failed"
    assert status == 1
