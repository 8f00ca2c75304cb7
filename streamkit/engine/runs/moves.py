"""How often tasks of an application have changed the executor that they run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

EXECUTORS = "executors"  # the metric of an epoch: where each task ran, by kernel and task


def moves(epochs: Iterable[Mapping[str, Any]]) -> int:
    """
    How many tasks ran on another executor than in the epoch before, over epochs with their metrics, oldest first.

    Epochs that ran in one process tell no executors, and do not count; another number of tasks begins from there.
    """
    told: Iterable[list[str]] = (epoch[EXECUTORS] for epoch in epochs if EXECUTORS in epoch)
    return sum(
        executor != former
        for before, after in pairwise(told)
        if len(before) == len(after)
        for former, executor in zip(before, after, strict=True)
    )
