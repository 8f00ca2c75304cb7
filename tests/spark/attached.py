"""A process that takes the JVM of the run for its own, as under spark-submit, where a JVM of its own would take ten seconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = "STREAMKIT_TEST_WORKER_"  # begins the names of variables of the Python processes that Spark starts


def way_to(session):
    """The environment variables of a process that calls `attach`."""
    parameters = session.sparkContext._gateway.gateway_parameters
    return {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    } | {ENVIRONMENT + name: value for name, value in session.sparkContext.environment.items()}


def attach():
    """Make an active session, with settings of its own, in the JVM that the environment names, whose Python processes serve it too."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm = gateway.jvm
    java_context = jvm.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))
    known = {name.removeprefix(ENVIRONMENT): value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
    context.environment.update(known)
    SparkSession(context, jvm.SparkSession.getDefaultSession().get().newSession())
