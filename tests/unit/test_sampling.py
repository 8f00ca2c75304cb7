"""Promises of the choice of cases that an ordinary run takes."""

from __future__ import annotations

from itertools import product

import pytest

from tests.kit import sampling
from tests.kit.sampling import chosen, combined, examples, first, in_turn

HOW, TASKS, CUTS = "abc", (1, 2, 3, 7), (True, False)


@pytest.fixture(autouse=True)
def _ordinary(monkeypatch):
    monkeypatch.setattr(sampling, "TAKES_ALL", False)


def test_the_first_are_taken():
    """An ordinary run takes the first so many."""
    assert first(2, range(5)) == range(2)


def test_few_examples_are_taken(monkeypatch):
    """An ordinary run takes a fifth of the examples, and eight if there are as many; torture takes all."""
    assert [examples(count).max_examples for count in (100, 20, 2)] == [20, 8, 2]
    monkeypatch.setattr(sampling, "TAKES_ALL", True)
    assert examples(100).max_examples == 100


def test_every_trait_is_met():
    """Few cases have every trait of all cases, in their order."""
    assert chosen(["a", "ab", "cd", "b", "de"], lambda case: {*case}) == ["ab", "cd", "de"]


def test_what_is_cheap_is_taken():
    """Of cases that have the same, few are taken that cost little."""
    assert chosen(["abcd", "ab", "cd"], lambda case: {*case}, lambda case: len(case) ** 2) == ["ab", "cd"]


def test_every_pair_is_met():
    """Each value of a list is met with each of every other list, in few combinations."""
    found = combined(HOW, TASKS, CUTS)

    assert {row[:2] for row in found} == {*product(HOW, TASKS)}
    assert {row[1:] for row in found} == {*product(TASKS, CUTS)}
    assert {row[::2] for row in found} == {*product(HOW, CUTS)}
    assert len(found) == 12


def test_every_value_is_met():
    """With one value together, each value of each list is met, in as many combinations as the longest list has."""
    found = combined(HOW, TASKS, CUTS, together=1)

    assert [{*values} for values in zip(*found, strict=True)] == [{*HOW}, {*TASKS}, {*CUTS}]
    assert len(found) == 4


def test_values_take_turns(monkeypatch):
    """As many combinations as the longest list has; a shorter one begins again, so that each of its values is met about as often."""
    assert in_turn(HOW, TASKS, CUTS) == [("a", 1, True), ("b", 2, False), ("c", 3, True), ("a", 7, False)]
    monkeypatch.setattr(sampling, "TAKES_ALL", True)
    assert in_turn(HOW, CUTS) == [*product(HOW, CUTS)]


def test_torture_takes_all(monkeypatch):
    """Under torture nothing is left out."""
    monkeypatch.setattr(sampling, "TAKES_ALL", True)

    assert combined(HOW, TASKS, CUTS) == [*product(HOW, TASKS, CUTS)]
    assert first(1, range(3)) == range(3)
    assert chosen(["a", "ab"], lambda case: {*case}) == ["a", "ab"]
