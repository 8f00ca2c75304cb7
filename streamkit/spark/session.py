"""Sessions: what a Spark session needs to run epochs well, and what is missing in one that was handed in."""

from __future__ import annotations

import os
import sys
import warnings
import zipfile
from pathlib import Path

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streamkit.errors import SetupError
from streamkit.java import require_java

CHECKPOINT_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SET_BY_SPARK = {"spark.master": "local[*]", "spark.ui.showConsoleProgress": "true"}  # by its launcher, unless given
INTERPRETER = Path(__file__).resolve().parent / "interpreter"
LOCAL_FILES = "org.apache.hadoop.fs.RawLocalFileSystem"

AT_START = {
    "spark.hadoop.fs.file.impl": LOCAL_FILES,  # the default one forks 20 processes a batch for checkpoint files
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.locality.wait.process": "1s",  # for which a task waits for its executor, instead of 3 s, whose batch waits with it
}
SET_BY_ANOTHER = {"spark.locality.wait.process": "spark.locality.wait"}  # whoever sets the second means the first, too
AT_ANY_TIME = {
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
    # A kernel that runs again names another slab with the same content. Spark would fail the job; the commit compares contents.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


def get_or_create_session(name: str, spark_log: Path | None = None) -> SparkSession:
    """
    The active session, else a new one on all cores with StreamKit's settings; those of spark-submit or a file win.

    If this starts Spark's JVM, its messages go into the file `spark_log` if one is given, else to standard error.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes the python3 of the PATH
    if spark_log is not None and is_jvm_ours():
        _start_jvm(spark_log)
    builder = SparkSession.builder.appName(name)
    # What spark-submit, spark-defaults.conf or the environment sets, which only the JVM knows.
    SparkContext._ensure_initialized()
    given = {key for key, value in SparkConf().getAll() if SET_BY_SPARK.get(key) != value}
    if "spark.master" not in given:
        builder = builder.master("local[*,4]")  # four attempts a task
    for key, value in AT_START.items():
        if key not in given and SET_BY_ANOTHER.get(key) not in given:
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("STREAMKIT_SPARK_LOG_LEVEL", "ERROR"))
    return session


def is_jvm_ours() -> bool:
    """Whether this process still has to start Spark's JVM; under spark-submit, or after a first session, it runs already."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ


def _start_jvm(spark_log: Path) -> None:
    """Start Spark's JVM with its standard error in a file; SetupError with its last messages if it does not start."""
    spark_log.parent.mkdir(parents=True, exist_ok=True)
    if spark_log.exists():
        spark_log.replace(f"{spark_log}.before")  # an older run may still write to it
    with spark_log.open("wb") as file:
        try:
            gateway = launch_gateway(popen_kwargs={"stderr": file})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            said = spark_log.read_text(errors="replace").strip().splitlines()
            raise SetupError(
                f"Spark's JVM did not start: {said[-1] if said else error}; all its output is in {spark_log}"
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


def prepare_session(session: SparkSession) -> None:
    """Set what can be set on a running session, warn by name of what cannot, and let Spark's own processes find StreamKit."""
    activate(session)
    for key, value in AT_ANY_TIME.items():
        session.conf.set(key, value)
    if session.conf.get("spark.hadoop.fs.file.impl", None) != LOCAL_FILES:
        warnings.warn(
            f"the session lacks spark.hadoop.fs.file.impl={LOCAL_FILES}, which only a new session can have; epochs take some 60 ms longer",
            stacklevel=3,
        )
    _share_archive(session)
    if INTERPRETER.is_dir():  # Python with the pyspark that is compiled
        _lead_python_to(session, str(INTERPRETER))


def activate(session: SparkSession) -> None:
    """Make the session active in the calling thread, where Spark looks for the session's data sources."""
    SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def _share_archive(session: SparkSession) -> None:
    """Name our archive to the source's driver process, which Spark starts without the files of --py-files."""
    here = Path(__file__).resolve()
    archive = next((str(parent) for parent in here.parents if parent.is_file() and zipfile.is_zipfile(parent)), None)
    if archive is not None:
        shipped = Path(SparkFiles.getRootDirectory()) / Path(archive).name
        _lead_python_to(session, str(shipped if shipped.exists() else archive))


def _lead_python_to(session: SparkSession, path: str) -> None:
    environment = session.sparkContext.environment
    known = environment.get("PYTHONPATH", "")
    if path not in known.split(os.pathsep):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, known]))
