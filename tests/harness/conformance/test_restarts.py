"""Restarts that change something: what each part of a topology holds then is what the rules say, or the start is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from streamkit.engine.epoch.stream_time import committed_times
from streamkit.engine.evolution import adoption, continuation, definition
from streamkit.engine.evolution.adoption import Adoption
from streamkit.engine.runs import rebuild
from streamkit.errors import StreamKitError
from streamkit.plan.operators.global_join import GlobalJoin
from streamkit.plan.operators.suppress import Suppress
from streamkit.plan.origin import Origin, Origins
from tests.harness.conformance.restarts import difference_of_restarts
from tests.kit.sampling import PARTS, seeds

RESTARTED = 3
QUICK_SEED = 3
SEEDS_MAX = 400
Patch = Callable[[Any, str, Any], None]


@pytest.mark.parametrize("part", PARTS)
def test_restarts_are_refused_or_right(part: int, record_property: Any) -> None:
    """Whatever comes, goes, comes back or changes at a start, each part holds what the rules say, or the start is refused."""
    differences = {seed: difference_of_restarts(seed) for seed in seeds(RESTARTED, QUICK_SEED)}
    record_property("tried", {"random restarts": len(differences)})
    assert {seed: text for seed, text in differences.items() if text is not None} == {}


@pytest.mark.parametrize("part", PARTS)
def test_rebuilds_are_refused_or_right(part: int, record_property: Any) -> None:
    """Whatever else a start changes, a part that is rebuilt holds what it would have if it had come at the beginning, and sends nothing again."""
    differences = {seed: difference_of_restarts(seed, rebuilds=True) for seed in seeds(RESTARTED, QUICK_SEED)}
    record_property("tried", {"random rebuilds": len(differences)})
    assert {seed: text for seed, text in differences.items() if text is not None} == {}


CHANGES = adoption._changes
REBUILD_BUGS: dict[str, Callable[[Patch], None]] = {
    "what a store held before stays in it": lambda patch: patch(
        adoption, "_changes", lambda storage, made, held, number: CHANGES(storage, made, (), number)
    ),
    "stream times stay those of before": lambda patch: patch(
        Adoption, "times", lambda self, own, topic_ids: committed_times(own, topic_ids)
    ),
    "nothing is read again": lambda patch: patch(rebuild, "_read_again", lambda *_: None),
}
REBUILD_KINDS = {
    "what a store held before stays in it": ("counted", "distinct", "windows"),
    "stream times stay those of before": ("finals",),
}
REBUILD_FIRST = {
    "what a store held before stays in it": 30,
    "stream times stay those of before": 214,
    "nothing is read again": 0,
}  # seeds in which they show


@pytest.mark.parametrize("bug", REBUILD_BUGS)
def test_a_wrong_rebuild_is_caught(bug: str) -> None:
    """A rebuild that is wrong in one way leaves something else in some part, which it gets right otherwise."""
    seeds = range(REBUILD_FIRST[bug], SEEDS_MAX)
    assert any(is_caught(REBUILD_BUGS[bug], seed, REBUILD_KINDS.get(bug, ()), rebuilds=True) for seed in seeds)


BUGS: dict[str, Callable[[Patch], None]] = {
    "tables that come later begin empty": lambda patch: patch(continuation, "young_keepers", lambda program, known: []),
    "it is not known which topics were made again": lambda patch: patch(continuation, "_gone", lambda *_: frozenset()),
    "what stands behind a new suppress begins empty": lambda patch: patch(
        Suppress, "traits", replace(Suppress.traits, holds_back=False)
    ),
    "global tables are no part of where rows come from": lambda patch: patch(
        GlobalJoin, "origin", lambda self, above, name: above[0]
    ),
    "the order of ways is no part of where rows come from": lambda patch: patch(
        Origins, "_ordered", lambda self, operator, above, name: operator.origin(sorted(above, key=lambda one: one.rows), name)
    ),
    "it is not compared where rows come from": lambda patch: patch(continuation, "has_steps", lambda program: False),
    "functions in aggregates of streams are known by their names": lambda patch: patch(
        definition, "Origin", lambda rows, with_code: Origin(rows, with_code=False)
    ),
    "the groups of further streams are not compared": lambda patch: patch(definition, "_other_keys", lambda *_: ()),
}

FIRST = {  # seeds in which they show
    "tables that come later begin empty": 7,
    "it is not known which topics were made again": 13,
    "what stands behind a new suppress begins empty": 6,
    "global tables are no part of where rows come from": 12,
    "the order of ways is no part of where rows come from": 3,
    "it is not compared where rows come from": 83,
    "functions in aggregates of streams are known by their names": 9,
    "the groups of further streams are not compared": 9,
}

OF_KINDS = {  # so that they are met soon
    "it is not known which topics were made again": ("grouped", "counted", "to_table"),
    "what stands behind a new suppress begins empty": ("suppressed", "counted"),
    "global tables are no part of where rows come from": ("met",),
    "the order of ways is no part of where rows come from": ("ways",),
    "functions in aggregates of streams are known by their names": ("argument", "argument windows", "by function"),
    "the groups of further streams are not compared": ("cogrouped",),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_restart_is_caught(bug: str) -> None:
    """A start that is wrong in one way leaves something else in some part, which it gets right otherwise."""
    assert any(is_caught(BUGS[bug], seed, OF_KINDS.get(bug, ())) for seed in range(FIRST[bug], SEEDS_MAX))


def is_caught(plant: Callable[[Patch], None], seed: int, kinds: Sequence[str], rebuilds: bool = False) -> bool:
    """Whether restarts that are right are wrong with the bug, or stop."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch.setattr)
        try:
            is_wrong = difference_of_restarts(seed, kinds, rebuilds) is not None
        except (StreamKitError, AssertionError):
            is_wrong = True
    return is_wrong and difference_of_restarts(seed, kinds, rebuilds) is None
