"""Waiting until persistent queries have read what there is."""

from __future__ import annotations

import logging
import math
import time

from streamkit.description.applications import is_running
from streamkit.log.catalog.sql_queries import RUNNING
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.execution.showing import in_short
from streamkit.sql.running.wanted_application import wanted_applications

LOOK_SECONDS = 0.5  # the longest wait for a commit
PATIENCE_SECONDS = 5.0  # in which a server that has just heard of a query begins it

_logger = logging.getLogger(__name__)


def wait_for_queries(log: Log, timeout_s: float | None = None, *, runs_none: bool = False) -> bool:
    """
    Wait until queries that are to run, and have not failed, have read all of their topics, and what is built has its place; whether in time.

    Who `runs_none` is told by a warning, once, if nobody runs any query for a while.
    """
    end = math.inf if timeout_s is None else time.monotonic() + timeout_s
    patient_until = time.monotonic() + PATIENCE_SECONDS if runs_none else math.inf
    while True:
        watch = log.catalog.watch()
        if _have_caught_up(log):
            _warn_of_failed(log)
            return True
        if time.monotonic() >= end:
            return False
        if time.monotonic() >= patient_until:
            patient_until = math.inf
            if waiting := waiting_for_nobody(log):
                server = "" if log.location == IN_MEMORY else f"start `streamkit sql serve --log {log.location}`, or "
                _logger.warning(
                    "catch_up() waits for %s, and nobody runs the queries of %s; %sopen the session as sk.SqlSession(log, engine='local')",
                    ", ".join(waiting), log.location, server,
                )  # fmt: skip
        watch.wait(max(0.0, min(LOOK_SECONDS, end - time.monotonic(), patient_until - time.monotonic())))


def waiting_for_nobody(log: Log) -> list[str]:
    """The queries that are to run, if none of them runs."""
    queries = [one for one in log.catalog.sql.objects().queries if one.wanted == RUNNING]
    wanted = wanted_applications(queries)
    runs = any(is_running(log, one) for one in log.catalog.applications.every() if one.name in wanted)
    return [] if runs else [one.id for one in queries]


def _warn_of_failed(log: Log) -> None:
    """Say which queries were not waited for because they have failed: their results lack records without an error."""
    for one in log.catalog.sql.objects().queries:
        if one.wanted == RUNNING and one.failure:
            _logger.warning(
                "catch_up() has not waited for %s, which has failed and is tried again: %s", one.id, in_short(one.failure)
            )


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
