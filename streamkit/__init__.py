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
    from streamkit.dsl.column import Column
    from streamkit.dsl.grouped import Grouped
    from streamkit.dsl.stream import Stream
    from streamkit.dsl.table import GlobalTable, Table
    from streamkit.dsl.topology import Topology
    from streamkit.dsl.until import time_limit, window_closes
    from streamkit.dsl.windows import hopping, tumbling
    from streamkit.engine.compile import compile, explain
    from streamkit.errors import StreamKitError
    from streamkit.launch.main import main
    from streamkit.launch.run import run
    from streamkit.log.opening import open_log
    from streamkit.plan.program import Program
    from streamkit.schema import Schema

_HOMES = {
    "Column": "streamkit.dsl.column",
    "GlobalTable": "streamkit.dsl.table",
    "Grouped": "streamkit.dsl.grouped",
    "Program": "streamkit.plan.program",
    "Schema": "streamkit.schema",
    "Stream": "streamkit.dsl.stream",
    "StreamKitError": "streamkit.errors",
    "Table": "streamkit.dsl.table",
    "Topology": "streamkit.dsl.topology",
    "compile": "streamkit.engine.compile",
    "errors": "",
    "explain": "streamkit.engine.compile",
    "functions": "",
    "hopping": "streamkit.dsl.windows",
    "main": "streamkit.launch.main",
    "open_log": "streamkit.log.opening",
    "run": "streamkit.launch.run",
    "time_limit": "streamkit.dsl.until",
    "tumbling": "streamkit.dsl.windows",
    "window_closes": "streamkit.dsl.until",
}

__all__ = [
    "Column",
    "GlobalTable",
    "Grouped",
    "Program",
    "Schema",
    "Stream",
    "StreamKitError",
    "Table",
    "Topology",
    "compile",
    "errors",
    "explain",
    "functions",
    "hopping",
    "main",
    "open_log",
    "run",
    "time_limit",
    "tumbling",
    "window_closes",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'streamkit' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"streamkit.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
