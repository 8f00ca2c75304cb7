"""
StreamKit: Kafka Streams for PySpark.

A topology is declared once, compiled into one Spark Structured Streaming query, and reads and writes a partitioned log;
everything an epoch does becomes visible in one transaction.

    import streamkit as sk
    from streamkit import functions as F

    app = sk.Topology("late-flights")
    app.stream("flights").filter(F.col("dep_delay") > 15).to("late_flights")
    sk.main(app)

Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit import errors, functions
    from streamkit.dsl.cogrouped import Cogrouped
    from streamkit.dsl.endpoint import connector, debezium, delta, files, http, kafka, postgres
    from streamkit.dsl.grouped import Grouped
    from streamkit.dsl.grouped_table import GroupedTable
    from streamkit.dsl.processor import Processor
    from streamkit.dsl.stream import Stream
    from streamkit.dsl.table import GlobalTable, Table
    from streamkit.dsl.topology import Topology
    from streamkit.dsl.until import time_limit, window_closes
    from streamkit.dsl.within import within
    from streamkit.engine.processors.context import ProcessorContext, Record, RecordMetadata
    from streamkit.engine.runs.compile import compile, explain
    from streamkit.errors import StreamKitError
    from streamkit.expressions.core.column import Column
    from streamkit.launch.main import main
    from streamkit.launch.run import run
    from streamkit.log.opening import open_log
    from streamkit.plan.on_error import dead_letter
    from streamkit.plan.program import Program
    from streamkit.plan.store_kinds.key_value_store import key_value_store
    from streamkit.plan.store_kinds.session_store import session_store
    from streamkit.plan.store_kinds.versioned_store import versioned_store
    from streamkit.plan.store_kinds.window_store import window_store
    from streamkit.plan.window_kinds.cumulative import cumulative
    from streamkit.plan.window_kinds.hopping import hopping
    from streamkit.plan.window_kinds.session import session
    from streamkit.plan.window_kinds.sliding import sliding
    from streamkit.plan.window_kinds.tumbling import tumbling
    from streamkit.schema import Schema
    from streamkit.sql.script.topology import load_sql
    from streamkit.sql.session import SqlSession
    from streamkit.testing.trace import trace

_HOMES = {
    "Cogrouped": "streamkit.dsl.cogrouped",
    "Column": "streamkit.expressions.core.column",
    "GlobalTable": "streamkit.dsl.table",
    "Grouped": "streamkit.dsl.grouped",
    "GroupedTable": "streamkit.dsl.grouped_table",
    "Processor": "streamkit.dsl.processor",
    "ProcessorContext": "streamkit.engine.processors.context",
    "Program": "streamkit.plan.program",
    "Record": "streamkit.engine.processors.context",
    "RecordMetadata": "streamkit.engine.processors.context",
    "Schema": "streamkit.schema",
    "SqlSession": "streamkit.sql.session",
    "Stream": "streamkit.dsl.stream",
    "StreamKitError": "streamkit.errors",
    "Table": "streamkit.dsl.table",
    "Topology": "streamkit.dsl.topology",
    "compile": "streamkit.engine.runs.compile",
    "connector": "streamkit.dsl.endpoint",
    "cumulative": "streamkit.plan.window_kinds.cumulative",
    "dead_letter": "streamkit.plan.on_error",
    "debezium": "streamkit.dsl.endpoint",
    "delta": "streamkit.dsl.endpoint",
    "errors": "",
    "explain": "streamkit.engine.runs.compile",
    "files": "streamkit.dsl.endpoint",
    "functions": "",
    "hopping": "streamkit.plan.window_kinds.hopping",
    "http": "streamkit.dsl.endpoint",
    "kafka": "streamkit.dsl.endpoint",
    "key_value_store": "streamkit.plan.store_kinds.key_value_store",
    "load_sql": "streamkit.sql.script.topology",
    "main": "streamkit.launch.main",
    "open_log": "streamkit.log.opening",
    "postgres": "streamkit.dsl.endpoint",
    "run": "streamkit.launch.run",
    "session": "streamkit.plan.window_kinds.session",
    "session_store": "streamkit.plan.store_kinds.session_store",
    "sliding": "streamkit.plan.window_kinds.sliding",
    "time_limit": "streamkit.dsl.until",
    "trace": "streamkit.testing.trace",
    "tumbling": "streamkit.plan.window_kinds.tumbling",
    "versioned_store": "streamkit.plan.store_kinds.versioned_store",
    "window_closes": "streamkit.dsl.until",
    "window_store": "streamkit.plan.store_kinds.window_store",
    "within": "streamkit.dsl.within",
}

__all__ = [
    "Cogrouped",
    "Column",
    "GlobalTable",
    "Grouped",
    "GroupedTable",
    "Processor",
    "ProcessorContext",
    "Program",
    "Record",
    "RecordMetadata",
    "Schema",
    "SqlSession",
    "Stream",
    "StreamKitError",
    "Table",
    "Topology",
    "compile",
    "connector",
    "cumulative",
    "dead_letter",
    "debezium",
    "delta",
    "errors",
    "explain",
    "files",
    "functions",
    "hopping",
    "http",
    "kafka",
    "key_value_store",
    "load_sql",
    "main",
    "open_log",
    "postgres",
    "run",
    "session",
    "session_store",
    "sliding",
    "time_limit",
    "trace",
    "tumbling",
    "versioned_store",
    "window_closes",
    "window_store",
    "within",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise _unknown(name)
    home = _HOMES[name]
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"streamkit.{name}")
    globals()[name] = value
    return value


def _unknown(name: str) -> AttributeError:
    """What to raise for a name that is not there; one that Python looks for by itself is of no interest to a user."""
    message = f"module 'streamkit' has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(message)
    homes = ("difflib", "streamkit.errors", "streamkit.plan.location", "streamkit.dsl.foreign_names")
    difflib, errors, location, foreign_names = map(importlib.import_module, homes)
    close, ours = difflib.get_close_matches(name, __all__, 3), foreign_names.FOREIGN_CLASSES.get(name)
    hint = f"did you mean {', '.join(close)}?" if close else f"it has {', '.join(__all__)}"
    hint = f"expected {ours}" if ours else hint
    unknown: AttributeError = errors.UnknownVerbError(f"{message}; {hint}", location.user_location())
    return unknown


def load_ipython_extension(shell: Any) -> None:
    """Let notebooks and IPython know `%sql` and `%%sql`: `%load_ext streamkit` calls it."""
    importlib.import_module("streamkit.notebook.magics").load_magics(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
