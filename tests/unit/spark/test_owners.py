"""Promises of the spread of tasks over executors: even, in proportion to cores, and as few moves as that allows."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from streamkit.spark.owners import Executor, no_owners, spread

A, B, C, D = (Executor(str(number), f"host{number}", 1) for number in range(4))


def counts(owners):
    """By kernel, how many tasks each executor has."""
    return [Counter(kernel) for kernel in owners]


def moved(before, after):
    """How many tasks have left an executor that they had."""
    return sum(
        old is not None and new != old
        for old_kernel, new_kernel in zip(before, after, strict=True)
        for old, new in zip(old_kernel, new_kernel, strict=True)
    )


def test_tasks_are_spread_evenly():
    """Each executor has as many tasks of each kernel as the others."""
    assert counts(spread(no_owners(2, 4), [A, B])) == [{A: 2, B: 2}, {A: 2, B: 2}]
    assert counts(spread(no_owners(1, 6), [C, A, B])) == [{A: 2, B: 2, C: 2}]


def test_what_does_not_divide_goes_to_others_in_each_kernel():
    """Where one executor has one task more in a kernel, another one has it in the next: all have as many stores."""
    owners = spread(no_owners(3, 4), [A, B, C])

    assert counts(owners) == [{A: 2, B: 1, C: 1}, {A: 1, B: 2, C: 1}, {A: 1, B: 1, C: 2}]
    assert counts(spread(no_owners(2, 1), [A, B])) == [{A: 1}, {B: 1}]


def test_nothing_moves_while_executors_stay():
    """The same executors, told in another order, have the same tasks."""
    owners = spread(no_owners(2, 5), [A, B, C])

    assert spread(owners, [C, A, B]) == owners


def test_an_executor_dies():
    """Its tasks go to the others, evenly; no other task moves."""
    before = spread(no_owners(2, 6), [A, B, C])
    after = spread(before, [A, C])

    assert counts(after) == [{A: 3, C: 3}] * 2
    assert all(new == old for kernels in zip(before, after, strict=True) for old, new in zip(*kernels, strict=True) if old != B)


def test_an_executor_joins():
    """It gets its share, and no more tasks move than that."""
    before = spread(no_owners(2, 6), [A, B])
    after = spread(before, [A, B, C])

    assert counts(after) == [{A: 2, B: 2, C: 2}] * 2
    assert moved(before, after) == 4
    assert {new for kernels in zip(before, after, strict=True) for old, new in zip(*kernels, strict=True) if old != new} == {C}


def test_an_executor_is_replaced():
    """A successor that comes at once has the tasks of the one that died, and nothing else moves."""
    before = spread(no_owners(2, 5), [A, B])
    after = spread(before, [A, C])

    assert moved(before, after) == counts(before)[0][B] + counts(before)[1][B]


def test_more_executors_than_tasks():
    """Each task has an executor of its own; one that is there no more is replaced by one that is idle."""
    before = spread(no_owners(1, 2), [A, B, C, D])
    after = spread(before, [B, C, D])

    assert before == ((A, B),)
    assert after == ((C, B),)
    assert spread(after, [A, B, C, D]) == after


def test_no_executor():
    """Nobody has a task before the first one comes, nor when the last one has gone."""
    owners = spread(no_owners(2, 3), [])

    assert owners == no_owners(2, 3)
    assert spread(spread(owners, [A]), []) == owners


def test_cores():
    """An executor that runs three times as many tasks at once has three times as many."""
    large = Executor("10", "host", 3)

    assert counts(spread(no_owners(2, 8), [large, A])) == [{large: 6, A: 2}] * 2


@pytest.mark.parametrize("seed", range(20))
def test_executors_come_and_go(seed):
    """After any changes all tasks have live owners, shares of a kernel differ by one at most, and only the least number moved."""
    random = Random(seed)
    kernels, tasks = random.randint(1, 3), random.randint(1, 9)
    known = [Executor(str(number), "host", 1) for number in range(12)]
    owners = no_owners(kernels, tasks)
    for _ in range(30):
        alive = random.sample(known, random.randint(1, 6))
        before, owners = owners, spread(owners, alive)
        for kernel, (old, new) in enumerate(zip(before, owners, strict=True)):
            shares = [counts(owners)[kernel][executor] for executor in alive]
            assert sum(shares) == tasks and max(shares) - min(shares) <= 1
            fitting = sorted((Counter(old)[executor] for executor in alive), reverse=True)
            large, least = tasks % len(alive), tasks // len(alive)  # so many have one more than the least
            stay = sum(min(held, least + (at < large)) for at, held in enumerate(fitting))
            assert sum(one == other for one, other in zip(old, new, strict=True)) == stay
