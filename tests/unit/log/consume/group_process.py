"""
A member of a group in a process of its own, which does what it is told.

    python -m tests.unit.log.consume.group_process LOG TOPIC OPTIONS [BUG]        OPTIONS: those of log.consumer, as JSON

Orders are lines on stdin (`poll`, `commit`, `close`), answers lines of JSON on stdout. `work` reads and commits until the end
of the input, and appends what it has processed to a file before it commits.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from streamkit.errors import FencedError
from streamkit.log.consume.consumer import Consumer
from streamkit.log.opening import open_log
from tests.kit.log_bugs import plant


def main(folder: str, topic: str, options: str, *bugs: str) -> None:
    for bug in bugs:
        plant(bug)
    with open_log(folder) as log, log.consumer(topic, **json.loads(options)) as consumer:
        for line in sys.stdin:
            order, *arguments = line.split()
            try:
                answer = ORDERS[order](consumer, *arguments)
            except FencedError as error:
                answer = {"error": type(error).__name__}
            answer["partitions"] = [partition for _, partition in consumer.assignment()]
            print(json.dumps(answer), flush=True)


def poll(consumer: Consumer) -> dict[str, object]:
    table = consumer.poll(0.2)
    return {"numbers": [] if table is None else table["n"].to_pylist()}


def commit(consumer: Consumer) -> dict[str, object]:
    return {"committed": sorted(consumer.commit().values())}


def work(consumer: Consumer, path: str, until: str) -> dict[str, object]:
    """Process rows until the file `until` is there; what a member that died had processed stays in its file."""
    with Path(path).open("a", encoding="ascii") as done:
        while not os.path.exists(until):
            table = consumer.poll(0.05)
            if table is not None:
                done.write("".join(f"{n}\n" for n in table["n"].to_pylist()))
                done.flush()
                try:
                    consumer.commit()
                except FencedError:
                    done.write("refused\n")
    return {}


ORDERS: dict[str, Callable[..., dict[str, object]]] = {"poll": poll, "commit": commit, "work": work}


if __name__ == "__main__":
    main(*sys.argv[1:])
