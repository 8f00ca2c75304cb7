"""
A log at work, for the tests of check, rebuild, salvage and backup.

    python -m tests.kit.busy_database FOLDER SEED        do all kinds of things to it until killed
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from streamkit.errors import StreamKitError, TopicExistsError
from streamkit.log.catalog.applications import StoreDeclaration
from streamkit.log.catalog.sql_changes import SqlChange
from streamkit.log.catalog.sql_queries import WANTED, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.log import Log
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import SettingValue
from streamkit.log.topic.topic import declare_topic
from streamkit.names import fresh_token
from tests.kit.program import Program

ROOT = Path(__file__).parents[2]
SCHEMA = "key string, value bigint"
DAY_MS = 86_400_000
COLUMNS_MAX = 6


def create_topics(log: Log) -> None:
    for name, partitions in (("plain", 3), ("other", 1)):
        log.create_topic(name, SCHEMA, "key", partitions=partitions)
    log.create_topic("changing", "key string, value int", "key", partitions=2)
    log.create_topic("passing", SCHEMA, partitions=1, config={"retention.ms": DAY_MS})
    compacted: dict[str, SettingValue] = {"cleanup.policy": "compact", "delete.retention.ms": 0}
    log.create_topic("newest", SCHEMA, "key", partitions=2, config=compacted)


@contextmanager
def busy_log(folder: Path, steps: int) -> Iterator[Log]:
    """A new log at which `steps` things were done, always the same."""
    with open_log(folder) as log:
        create_topics(log)
        work(log, random.Random(1), steps)
        yield log


def work(log: Log, chance: random.Random, steps: int, name: str = "worker") -> None:
    """Do `steps` things that change the catalog."""
    for step in range(steps):
        chance.choice(ACTS)(log, chance, name, step)


def work_through(log: Log, chance: random.Random, name: str = "worker") -> None:
    """Do everything that there is to do once, in any order."""
    acts = list(dict.fromkeys(ACTS))
    for step, act in enumerate(chance.sample(acts, len(acts))):
        act(log, chance, name, step)


def rows(chance: random.Random) -> list[dict[str, Any]]:
    return [{"key": f"k{chance.randrange(20)}", "value": chance.randrange(1000)} for _ in range(chance.randrange(1, 40))]


def append(log: Log, chance: random.Random, name: str, step: int) -> None:
    with log.producer() as producer, producer.transaction():
        producer.send_batch("plain", rows(chance))
        producer.send_batch("other", rows(chance))


def append_sequenced(log: Log, chance: random.Random, name: str, step: int) -> None:
    """The end of a topic grows with each batch, as a sequence has to."""
    topic = chance.choice(["plain", "other"])
    with log.producer(name) as producer:
        producer.send_batch(topic, rows(chance), sequence=sum(log.end_offsets(topic).values()))


def append_small(log: Log, chance: random.Random, name: str, step: int) -> None:
    """A file a row, for merges."""
    with log.producer() as producer:
        for row in rows(chance)[:9]:
            producer.send("plain", row)
            producer.flush()


def read_process_write(log: Log, chance: random.Random, name: str, step: int) -> None:
    """Rows and the positions of a group without members, in one transaction."""
    with log.producer(f"copier-{name}") as producer, producer.transaction():
        producer.send_batch("other", rows(chance))
        ends = log.end_offsets("plain")
        producer.send_offsets(
            f"copiers-{name}", {"plain": {partition: chance.randint(0, end) for partition, end in ends.items()}}
        )


def consume(log: Log, chance: random.Random, name: str, step: int) -> None:
    """A member of a group joins, commits and leaves; now and then the group is forgotten."""
    group = f"readers-{name}-{chance.randrange(2)}"
    with log.consumer(["plain", "changing"], group=group, max_poll_records=50) as consumer:
        if consumer.poll(0) is not None:
            consumer.commit()
    if chance.random() < 0.2:
        log.groups.delete(group)


def change_keys(log: Log, chance: random.Random, name: str, step: int) -> None:
    """Rows and deletions of few keys, and their compaction."""
    with log.producer() as producer:
        for row in rows(chance):
            if chance.random() < 0.2:
                producer.delete("newest", {"key": row["key"]})
            else:
                producer.send("newest", row)
    if chance.random() < 0.5:
        log.compact("newest")


def merge(log: Log, chance: random.Random, name: str, step: int) -> None:
    log.merge(chance.choice(["plain", "other", "passing", "changing", "newest"]))


def maintain(log: Log, chance: random.Random, name: str, step: int) -> None:
    """Old rows come and go by retention, with all else that a pass of maintenance does; now and then the trash is emptied at once."""
    now_ms = log.clock.now_ms()
    with log.producer() as producer:
        for row in rows(chance)[:4]:
            producer.send("passing", row, timestamp_ms=now_ms - chance.choice([0, 2 * DAY_MS, 2 * DAY_MS]))
            producer.flush()
    log.maintain()
    if chance.random() < 0.5:
        empty_trash(log.storage, log.catalog, now_ms + 1)


def delete_records(log: Log, chance: random.Random, name: str, step: int) -> None:
    topic = chance.choice(["plain", "other", "changing"])
    ends, partition = log.end_offsets(topic), chance.randrange(log.topic(topic).partitions)
    start = log.catalog.manifest.start_offsets(log.topic(topic).id)[partition]
    log.delete_records(topic, {partition: chance.randint(start, (start + ends[partition]) // 2)}, force=True)


def pin(log: Log, chance: random.Random, name: str, step: int) -> None:
    """Rows are kept for a reader that lets go of them, and for one that is gone without."""
    with log.pin("passing"):
        maintain(log, chance, name, step)
    log.pin("plain")._pulse.close()


def alter(log: Log, chance: random.Random, name: str, step: int) -> None:
    """Rows under one version of a schema, then another: wider types, new columns; settings; more partitions."""
    columns = log.topic("changing").schema
    number = len(columns.names)
    with log.producer() as producer:
        producer.send_batch(
            "changing", [{**row, **{name: chance.random() for name in columns.names[2:]}} for row in rows(chance)]
        )
    if columns["value"].type == "int":
        log.alter_topic("changing", schema=str(columns).replace("value int", "value bigint"))
    elif number < COLUMNS_MAX:
        log.alter_topic("changing", schema=f"{columns}, more_{number} double", config={"retention.ms": 1_000 * DAY_MS + number})
    else:
        log.alter_topic("passing", partitions=min(4, log.topic("passing").partitions + 1))


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
    log.catalog.applications.start(
        application, tasks=chance.randrange(1, 4), default_tasks=1, key_groups=8, program_hash=str(step),
        stores=[StoreDeclaration("counts", changelog)], program=f'{{"step": {step}}}',
    )  # fmt: skip
    if chance.random() < 0.3:
        log.catalog.applications.reset(application)


def run_script(log: Log, chance: random.Random, name: str, step: int) -> None:
    """A script of SQL: a table of a topic of its own with a type, and the query that fills it; now and then it all goes again."""
    found, table = log.catalog.sql.objects(), f"table-{name}"
    topic = declare_topic(table, SCHEMA, "key", None, 2, {"cleanup.policy": "compact"})
    source = StoredSource(
        table, "table", table, ({"name": "value", "type": "bigint", "role": ""},), ("key",), f"CREATE {step}", query="CTAS_1"
    )
    number = found.numbers + 1
    query = StoredQuery(
        f"CTAS_{number}", number, f"CREATE {step}", table, ("plain",), f"sql-{name}", wanted=chance.choice(WANTED)
    )
    change = SqlChange(
        fresh_token(), found.change, number, (replace(source, query=query.id),), (query,), (StoredType("money", "decimal(9,2)"),),
        dropped_queries=tuple(one.id for one in found.queries if one.sink == table), created_topics=(topic,),
    )  # fmt: skip
    if chance.random() < 0.3 and table in {one.name for one in found.sources}:
        change = replace(
            change, sources=(), queries=(), types=(), created_topics=(), dropped_sources=(table,), dropped_types=("money",),
            ended=(f"sql-{name}",), deleted_topics=(table,),
        )  # fmt: skip
    for path in log.catalog.sql.commit(change):
        log.storage.delete(path)


ACTS: list[Callable[[Log, random.Random, str, int], None]] = [
    *([append] * 3), *([append_sequenced] * 2), create_and_delete, start_application, append_small, read_process_write, consume,
    change_keys, change_keys, merge, maintain, delete_records, pin, alter, alter, run_script,
]  # fmt: skip


def tables_of(folder: Path | str) -> dict[str, list[Any]]:
    """All rows of a catalog but what a rebuild may change: the timeline, and how often the file was settled."""
    connection = apsw.Connection(str(Path(folder) / "catalog.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        found = {name: sorted(connection.execute(f"SELECT * FROM {name}")) for name in names}
        found["history"] = list(connection.execute("SELECT log_id, commits, token FROM history"))
        found["log"] = list(connection.execute("SELECT format, replication_factor, min_insync_replicas FROM log"))
        return found
    finally:
        connection.close()


def start_process(folder: Path | str, seed: int) -> Program:
    """A process at work on the log, once it has begun."""
    process = Program("tests.kit.busy_database", str(folder), str(seed))
    assert process.stdout.readline() == "ready\n"
    return process


def run(folder: str, seed: str) -> None:
    logging.disable(logging.WARNING)
    chance = random.Random(seed)
    with open_log(folder) as log:
        with suppress(TopicExistsError):  # another process has begun already, and altered one
            create_topics(log)
        print("ready", flush=True)
        for _ in range(1_000_000):
            try:
                work(log, chance, 1, f"worker-{seed}-{chance.randrange(1_000_000)}")
            except StreamKitError as error:
                print(error, flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
