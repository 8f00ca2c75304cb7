"""Which executor each task is to run on: evenly, and where its store is already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Executor:
    """An executor of the application: its id, its host as Spark names it, and how many tasks it runs at once."""

    id: str
    host: str
    cores: int


Owners = tuple[tuple[Executor | None, ...], ...]  # by kernel and task; None where Spark may choose


def no_owners(kernels: int, tasks: int) -> Owners:
    return ((None,) * tasks,) * kernels


def spread(owners: Owners, executors: Collection[Executor]) -> Owners:
    """
    The owners when there are these executors: tasks of a kernel in proportion to cores, and as few on another one as that allows.

    What does not divide evenly goes to those who own the task already, then to those who own least of the kernels before.
    """
    if not executors:
        return no_owners(len(owners), len(owners[0]))
    order = sorted(executors, key=lambda executor: (len(executor.id), executor.id))  # ids are numbers, as texts
    owned: Counter[Executor] = Counter()
    found = []
    for before in owners:
        share = _shares(before, order, owned)
        owned += share
        found.append(_taken(before, share))
    return tuple(found)


def _shares(before: tuple[Executor | None, ...], order: list[Executor], owned: Counter[Executor]) -> Counter[Executor]:
    """How many tasks of a kernel each executor gets: one after the other, to whoever is least busy with it."""
    held = Counter(owner for owner in before if owner is not None)
    share: Counter[Executor] = Counter()

    def busy(executor: Executor) -> tuple[float, bool, float]:
        tasks = share[executor]
        return (tasks + 1) / executor.cores, tasks >= held[executor], (owned[executor] + tasks) / executor.cores

    for _ in before:
        share[min(order, key=busy)] += 1
    return share


def _taken(before: tuple[Executor | None, ...], share: Counter[Executor]) -> tuple[Executor | None, ...]:
    """The owners of a kernel's tasks: those that it has, up to their shares, and for the others whoever has too few."""
    left = Counter(share)
    kept: list[Executor | None] = []
    for owner in before:
        stays = owner is not None and left[owner] > 0
        kept.append(owner if stays else None)
        if owner is not None and stays:
            left[owner] -= 1
    free = left.elements()
    return tuple(next(free) if owner is None else owner for owner in kept)
