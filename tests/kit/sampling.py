"""
What an ordinary run takes of what torture takes whole: the first seeds, few cases that have every trait,
few combinations that have every pair.

The choice depends on nothing but the cases, so a run that fails is repeated by running it again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

from hypothesis import settings

Case = TypeVar("Case")
TAKES_ALL = bool(os.environ.get("STREAMKIT_TORTURE"))
EXAMPLES_MIN = 8  # of an ordinary run
SEEDS = 5_000  # of a generator, in torture
PARTS = range(25 if TAKES_ALL else 1)  # tests that share them


def examples(count: int, share: int = 5) -> settings:
    """So many examples that hypothesis makes up; in an ordinary run a fifth of them, or another share, others each time."""
    return settings(max_examples=count if TAKES_ALL else max(-(-count // share), min(count, EXAMPLES_MIN)), deadline=None)


def first(count: int, cases: Sequence[Case]) -> Sequence[Case]:
    """The first so many cases; all in torture."""
    return cases if TAKES_ALL else cases[:count]


def seeds(few: int, begin: int = 0) -> range:
    """So many seeds from `begin` on; in torture a part of five thousand, others each time."""
    if not TAKES_ALL:
        return range(begin, begin + few)
    begin = random.SystemRandom().randrange(1_000, 1_000_000_000)
    return range(begin, begin + SEEDS // len(PARTS))


def chosen(
    cases: Sequence[Case], traits_of: Callable[[Case], set[Hashable]], cost_of: Callable[[Case], float] = lambda _: 1
) -> list[Case]:
    """Few cases that have all traits that any has, in their order, the cheap ones rather than the dear; all cases in torture."""
    return [*cases] if TAKES_ALL else covering(cases, traits_of, cost_of)


def combined(*lists: Sequence[Any], together: int = 2) -> list[tuple[Any, ...]]:
    """
    Combinations that have each value of each list with each value of each other one; all combinations in torture.

    `together` is how many values are met with each other: with 1 each value is met, whatever it is met with.
    """
    places = [*product(*(range(len(values)) for values in lists))]
    found = chosen(places, lambda place: {*combinations(enumerate(place), together)})
    return [tuple(values[number] for values, number in zip(lists, place, strict=True)) for place in found]


def in_turn(*lists: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each value of each list: as many combinations as the longest has values, the shorter ones again and again; in torture all."""
    if TAKES_ALL:
        return [*product(*lists)]
    return [tuple(values[number % len(values)] for values in lists) for number in range(max(map(len, lists)))]


def covering(
    cases: Sequence[Case], traits_of: Callable[[Case], set[Hashable]], cost_of: Callable[[Case], float] = lambda _: 1
) -> list[Case]:
    """Few cases that have all traits that any has: the next one has the most that none before had, for what it costs."""
    costs = [cost_of(case) for case in cases]
    traits = [traits_of(case) for case in cases]
    missing = set[Hashable]().union(*traits)
    found = []
    while missing:
        best = max(range(len(cases)), key=lambda number: len(missing & traits[number]) / costs[number])
        missing -= traits[best]
        found.append(best)
    return [cases[number] for number in sorted(found)]
