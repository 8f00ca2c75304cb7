"""
Random changes that are fed straight into a suppress, judged by the rules of Kafka Streams' processor.

The model is a buffer in the order of moments, from which each change takes what is due, then what is too much.
"""

from __future__ import annotations

import json
import random
from itertools import chain
from typing import Any

import pytest

from streamkit.errors import SuppressionFullError
from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.__main__ import cases_in
from tests.harness.conformance.builder import BOUNDS
from tests.harness.conformance.running import bounded_as_a_whole
from tests.harness.conformance.suppressed import as_record, difference, expected, has_windows, topology
from tests.harness.conformance.test_conformance import DATA
from tests.kit.engine_run import moment
from tests.kit.sampling import first

Json = dict[str, Any]
STEPS = 18
SEEDS = range(30)


class Buffer:
    """Kafka Streams' buffer of changes: a key keeps the moment of its first change, and the newest value."""

    def __init__(self, suppress: Json) -> None:
        self.is_final = suppress["until"] == "window_closes"
        self.wait_ms = suppress["grace_ms"] if self.is_final else suppress["ms"]
        self.rows_max = suppress.get("buffer", {}).get("max_records")
        self.is_strict = suppress.get("buffer", {}).get("when_full") == "shut_down"
        self.observed_ms = -1
        self.since: dict[tuple[Any, ...], int] = {}
        self.newest: dict[tuple[Any, ...], Json] = {}

    def take(self, change: Json) -> list[Json] | None:
        """What a change lets go; None if the buffer is too full."""
        self.observed_ms = max(self.observed_ms, change["ts"])
        key = (change["key"], *change.get("window", ()))
        self.since.setdefault(key, change["window"][1] if self.is_final else change["ts"])
        self.newest[key] = change
        due = [one for one in self.oldest() if self.since[one] <= self.observed_ms - self.wait_ms]
        gone = [self.newest.pop(one) for one in due if self.since.pop(one) is not None]
        surplus = 0 if self.rows_max is None else max(len(self.since) - self.rows_max, 0)
        if surplus and self.is_strict:
            return None
        gone += [self.newest.pop(one) for one in self.oldest()[:surplus] if self.since.pop(one) is not None]
        return [one for one in gone if not (self.is_final and one["value"] is None)]

    def oldest(self) -> list[tuple[Any, ...]]:
        return sorted(self.since, key=lambda key: (self.since[key], key))


def random_case(seed: int) -> Json:
    """Changes of few keys, windows of one length, of several or of none, some of them deletions, late, or of a window that has closed."""
    chance = random.Random(seed)
    suppress = random_suppress(chance)
    has_keys = suppress["until"] == "window_closes" or chance.random() < 0.5
    lengths = chance.choice([[10], [10], [0, 3, 10], [0], [1], [7, 40]])
    keys: list[Any] = chance.choice([["a", "b", "ab"], [1, 2, 30]])
    case: Json = {"name": f"random_{seed}", "kind": "suppress_processor", "suppress": suppress, "steps": []}
    buffer, now = Buffer(suppress), 20
    old: dict[str, Any] = {}
    for number in range(STEPS):
        now += chance.choice([0, 0, 1, 2, 5, 5, 30])
        time = max(now - chance.choice([0, 0, 0, 1, 9, 20]), 0)
        step: Json = {"key": chance.choice(keys)}
        if has_keys:
            length = chance.choice(lengths)
            start = max((time - chance.choice([0, 0, length, 2 * length])) // max(length, 1) * max(length, 1), 0)
            step["window"] = [start, start + length]
        identity = json.dumps(step)
        step |= {"value": None if chance.random() < 0.2 else number, "old": old.get(identity), "ts": time}
        old[identity] = step["value"]
        gone = buffer.take(step)
        step["expect"] = [{name: one[name] for name in one if name != "expect"} for one in gone or []]
        case["steps"].append(step if gone is not None else {**step, "expect_error": "buffer exceeded its max capacity"})
        if gone is None:
            break
    return case


def random_suppress(chance: random.Random) -> Json:
    full = chance.choice(["emit_early", "shut_down"])
    if chance.random() < 0.6:
        strict = {"buffer": {"max_records": chance.choice([3, 5, 9]), "when_full": "shut_down"}} if full == "shut_down" else {}
        return {
            "until": "window_closes",
            "grace_ms": chance.choice([0, 0, 1, 5, 12]),
            **(strict if chance.random() < 0.5 else {}),
        }
    buffer = {"buffer": {"max_records": chance.choice([0, 1, 2, 4]), "when_full": full}} if chance.random() < 0.5 else {}
    return {"until": "time_limit", "ms": chance.choice([0, 1, 10, 25]), **buffer}


@pytest.mark.parametrize("seed", first(3, SEEDS))
def test_each_change_gives_what_kafka_streams_gives(seed: int) -> None:
    """Each change lets go what Kafka Streams' processor would, of any windows, keys, graces and buffers, in its order."""
    assert difference(random_case(seed)) is None


@pytest.mark.parametrize("seed", first(2, SEEDS))
def test_it_depends_neither_on_the_cut_nor_on_the_tasks(seed: int) -> None:
    """Epochs of any length give the same records in the same order, several tasks those of each key; a bound that stops does so too."""
    case, chance = random_case(100 + seed), random.Random(seed)
    tasks = 1 if "buffer" in case["suppress"] else chance.choice([1, 2, 3, 7])
    wanted = [*expected(case)]
    records = [*chain.from_iterable(one for one in wanted if isinstance(one, list))]
    found = at_once(case, tasks, chance.choice([2, 5, 11, "all"]))
    if wanted[-1] == "full":
        assert found == "full"
    else:
        assert by_key(found, tasks) == by_key(records, tasks)


def at_once(case: Json, tasks: int, batching: Any) -> Any:
    """All that a case gives if the changes come together; "full" if that stops the application."""
    nodes = {"topology": {"nodes": [case["suppress"]]}}
    with bounded_as_a_whole(nodes), TopologyTestDriver(topology(case), tasks=tasks, batching=batching) as driver:
        try:
            driver.pipe("in", [as_row(step) for step in case["steps"]])
            return [as_record(row, has_windows(case)) for row in driver.read("out")]
        except SuppressionFullError:
            return "full"


def as_row(step: Json) -> Json:
    bounds = dict(zip(BOUNDS, map(moment, step.get("window", ())), strict=False))
    deletion = {"_deleted": True} if step["value"] is None else {}
    return {"k": step["key"], **bounds, "v": step["value"], "_timestamp": moment(step["ts"]), **deletion}


def by_key(records: list[Json], tasks: int) -> list[Json]:
    return records if tasks == 1 else sorted(records, key=lambda one: (str(one["key"]), str(one.get("window"))))


def test_random_cases_are_of_all_kinds() -> None:
    """Random cases give records, drop deletions, give a window twice, and stop, so that no rule goes untested."""
    cases = [random_case(seed) for seed in range(60)]
    final = [case for case in cases if case["suppress"]["until"] == "window_closes"]
    assert len(final) > 20
    assert any("expect_error" in case["steps"][-1] for case in cases)
    assert any(len(step["expect"]) > 2 for case in cases for step in case["steps"])
    given = [[json.dumps([one["key"], one["window"]]) for step in case["steps"] for one in step["expect"]] for case in final]
    assert any(len(keys) > len(set(keys)) for keys in given)


def test_a_wrong_expectation_is_found() -> None:
    """A case that expects another value, no old value where there is one, or no stop, differs."""
    (stops,) = [one for one in cases_in(DATA / "cases") if one["name"] == "suppressproc_shutdown_over_record_capacity"]
    assert "full" in str(difference({**stops, "steps": [{**step, "expect_error": None} for step in stops["steps"]][:1]}))
    steps: list[Json] = [{"key": "a", "value": value, "old": None, "ts": value, "expect": []} for value in (1, 2)]
    for step in steps:
        step["expect"] = [{name: step[name] for name in ("key", "value", "ts")}]
    case = {"name": "made", "kind": "suppress_processor", "suppress": {"until": "time_limit", "ms": 0}, "steps": steps}
    assert difference(case) is None
    wrong = json.loads(json.dumps(case))
    wrong["steps"][1]["expect"][0]["value"] = 3
    assert str(difference(wrong)).startswith("step 1: ")


def test_feeding_needs_one_kind_of_key() -> None:
    """A case whose changes have windows now and then is refused."""
    with pytest.raises(ValueError, match="expected all or none"):
        has_windows({"steps": [{"window": [0, 1]}, {}]})
