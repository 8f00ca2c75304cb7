"""
StreamKit's side: Nexmark's topologies without Spark, one after another in this process.

    python -m tests.bench.nexmark.run QUERIES EPOCH_RECORDS LOG...

Prints a line of JSON for each run: query, events (the folder's name), cpu (processor seconds of all threads).
Queries share the logs, since each has topics of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import streamkit as sk
from streamkit.log.opening import open_log

TASKS = 2


def main(queries: str, epoch_records: str, *logs: str) -> None:
    for query in queries.split(","):
        app = importlib.import_module(f"topologies.nexmark.{query}").app
        for folder in map(Path, logs):
            print(
                json.dumps({"query": query, "events": int(folder.name), "cpu": seconds(app, folder, int(epoch_records))}),
                flush=True,
            )


def seconds(app: sk.Topology, folder: Path, epoch_records: int) -> float:
    """Processor seconds of one run over all events, windows closed at the end."""
    with open_log(folder) as log:
        begun = time.process_time()
        sk.run(app, log=log, engine="local", tasks=TASKS, drain=True, max_records_per_epoch=epoch_records).wait()
        return time.process_time() - begun


if __name__ == "__main__":
    main(*sys.argv[1:])
