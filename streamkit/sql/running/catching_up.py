"""Waiting until persistent queries have read what there is."""

from __future__ import annotations

import math
import time

from streamkit.log.catalog.sql_queries import RUNNING
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.running.wanted_application import wanted_applications

LOOK_SECONDS = 0.5  # the longest wait for a commit


def wait_for_queries(log: Log, timeout_s: float | None = None) -> bool:
    """Wait until queries that are to run, and have not failed, have read all of their topics, and what is built has its place; whether in time."""
    end = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while True:
        watch = log.catalog.watch()
        if _have_caught_up(log):
            return True
        if time.monotonic() >= end:
            return False
        watch.wait(max(0.0, min(LOOK_SECONDS, end - time.monotonic())))


def _have_caught_up(log: Log) -> bool:
    """Whether nothing waits for a query, as of one moment: between two looks at the catalog's commits there was none."""
    before = log.catalog.standing()
    queries = [one for one in log.catalog.sql.objects().queries if one.wanted == RUNNING and not one.failure]
    if any(built_beside(one) is not None for one in queries):  # its results are not yet those of its query
        return False
    states = {one.name: one for one in log.catalog.applications.every()}
    for name in wanted_applications(queries):
        state = states.get(name)
        if state is None or state.is_ended or any(one.lag for one in input_partitions(log, state)):
            return False
    return log.catalog.standing() == before
