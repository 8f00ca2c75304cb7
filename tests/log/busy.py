"""
A log at work, for the tests of check, rebuild and backup.

    python -m tests.log.busy FOLDER SEED        append, create, delete and start until killed
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from streamkit.errors import StreamKitError
from streamkit.log.applications import StoreDeclaration
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.topic import declare_topic

ROOT = Path(__file__).parents[2]
SCHEMA = "key string, value bigint"


def create_topics(log: Log) -> None:
    for name, partitions in (("plain", 3), ("other", 1)):
        log.create_topic(name, SCHEMA, "key", partitions=partitions)


def work(log: Log, chance: random.Random, steps: int, name: str = "worker") -> None:
    """Do `steps` things that change the catalog."""
    acts = [append, append, append, append_sequenced, append_sequenced, create_and_delete, start_application]
    for step in range(steps):
        chance.choice(acts)(log, chance, name, step)


def rows(chance: random.Random) -> list[dict[str, Any]]:
    return [{"key": f"k{chance.randrange(20)}", "value": chance.randrange(1000)} for _ in range(chance.randrange(1, 40))]


def append(log: Log, chance: random.Random, name: str, step: int) -> None:
    with log.producer() as producer, producer.transaction():
        producer.send_batch("plain", rows(chance))
        producer.send_batch("other", rows(chance))


def append_sequenced(log: Log, chance: random.Random, name: str, step: int) -> None:
    with log.producer(name) as producer:
        producer.send_batch(chance.choice(["plain", "other"]), rows(chance), sequence=step)


def create_and_delete(log: Log, chance: random.Random, name: str, step: int) -> None:
    topic = f"passing-{chance.randrange(1 << 60)}"
    log.create_topic(topic, SCHEMA, "key", partitions=2)
    with log.producer() as producer:
        producer.send_batch(topic, rows(chance))
    log.alter_topic(topic, schema=f"{SCHEMA}, more double", partitions=3, config={"retention.ms": 1_000_000})
    with log.producer() as producer:
        producer.send_batch(topic, [{**row, "more": 0.5} for row in rows(chance)])
    if chance.random() < 0.7:
        log.delete_topic(topic)


def start_application(log: Log, chance: random.Random, name: str, step: int) -> None:
    application = f"app-{name}"
    changelog = declare_topic(
        f"{application}-counts-changelog", "key binary, value binary", "key", None, 4, {"cleanup.policy": "compact"}
    )
    log.catalog.start_application(
        application, tasks=chance.randrange(1, 4), default_tasks=1, key_groups=8, program_hash=str(step),
        stores=[StoreDeclaration("counts", changelog)], program="{}",
    )  # fmt: skip
    if chance.random() < 0.3:
        log.catalog.reset_application(application)


def tables_of(folder: Path | str) -> dict[str, list[Any]]:
    """All rows of a catalog but what a rebuild may change: the timeline, and how often the file was settled."""
    connection = apsw.Connection(str(Path(folder) / "catalog.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        found = {name: sorted(connection.execute(f"SELECT * FROM {name}")) for name in names}
        found["history"] = list(connection.execute("SELECT log_id, commits, token FROM history"))
        found["log"] = list(connection.execute("SELECT format FROM log"))
        return found
    finally:
        connection.close()


def start_process(folder: Path | str, seed: int) -> subprocess.Popen[str]:
    """A process at work on the log, once it has begun."""
    command = [sys.executable, "-m", "tests.log.busy", str(folder), str(seed)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def run(folder: str, seed: str) -> None:
    chance = random.Random(seed)
    with open_log(folder) as log:
        create_topics(log)
        print("ready", flush=True)
        for _ in range(1_000_000):
            try:
                work(log, chance, 1, f"worker-{seed}-{chance.randrange(1_000_000)}")
            except StreamKitError as error:
                print(error, flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
