"""What Spark will make of a program, shown without running it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import Application
from streamkit.plan.program import Program
from streamkit.spark.job import Job
from streamkit.spark.session import activate, get_or_create_session
from streamkit.spark.spark_run import rows_for_sink
from streamkit.spark.task_placement import placement_on
from streamkit.spark.task_storage import StoragePlace


def explain_spark(program: Program, session: SparkSession | None = None, tasks: int | None = None) -> str:
    """Spark's physical plan of the one query, as text; the last kernel runs in its sink. `tasks` is the session's cores unless given."""
    chosen = session or get_or_create_session(program.application)
    activate(chosen)
    count = tasks or min(chosen.sparkContext.defaultParallelism, program.key_groups)
    application = Application(0, program.application, 0, count, program.key_groups, program.changelog_partitions, 1, (), {}, ())
    placement = placement_on(chosen, program.stages, count)
    rows = rows_for_sink(chosen, Job("", StoragePlace(), program, application, Anchor(), 1, count), placement)
    jvm = chosen.sparkContext._jvm
    assert jvm is not None, "a session without a JVM"
    text = jvm.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "simple")
    return str(text).strip()
