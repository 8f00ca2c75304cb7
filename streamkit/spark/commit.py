"""The commit as Spark's sink calls it, in a driver-side process."""

from __future__ import annotations

import json
from collections.abc import Sequence

from streamkit.engine.epoch.report import TaskReport
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.epoch_heartbeat import forget_epoch
from streamkit.plan.plain import from_plain
from streamkit.spark.job import decode_job
from streamkit.spark.job_log import job_log


def commit_reports(job: str, texts: Sequence[str]) -> None:
    """Commit the epoch that the tasks' reports name; empty ones are of tasks that heard no plan."""
    decoded = decode_job(job)
    reports = [from_plain(TaskReport, json.loads(text)) for text in texts if text]
    with job_log(decoded) as log:
        commit_epoch(log.catalog, log.storage, decoded.program, reports)
        forget_epoch(log.heartbeats, decoded.application)
