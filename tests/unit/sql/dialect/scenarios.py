"""
Scenarios of the ksql dialect in Markdown, which people can read: statements, the records that come, and the records that are written.

    ## A stream of sums

    ```sql
    CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
    CREATE STREAM O AS SELECT K, V + 1 AS W FROM S;
    ```

    | topic | time | key | value |
    | --- | --- | --- | --- |
    | s | 5 | 1 | {"V": 2} |
    | → O | 5 | 1 | {"W": 3} |

Keys and values are JSON; the value of a topic in DELIMITED is the line, as a text. An arrow stands before the topics that queries write. A time
is milliseconds, and `-` is any. A key of a window is an object with `key`, `start` and `end`. A value in backticks is bytes as they are.
A scenario whose statements are refused has a line `Error: …` with a part of the message in place of the table.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamkit as sk
from streamkit.dsl.topology import Topology
from streamkit.log.log import Log
from streamkit.sql.script.topology import topology_of
from streamkit.testing import TopologyTestDriver

SETTINGS = {"streamkit.sql.dialect": "ksql"}
HEAD = "SET 'streamkit.sql.dialect' = 'ksql';\n"
ANY_TIME = "-"


@dataclass(frozen=True)
class Record:
    """A record of a topic; `time` is None where it does not matter."""

    topic: str
    time: int | None
    key: Any
    value: Any


@dataclass
class Scenario:
    """Statements, with the records that come and those that are written; or a part of the message that refuses them."""

    title: str
    place: str
    statements: str = ""
    given: list[Record] = field(default_factory=list)
    wanted: list[Record] = field(default_factory=list)
    error: str = ""

    def __str__(self) -> str:
        return f"{self.place} {self.title}"


def scenarios_of(file: Path) -> list[Scenario]:
    """The scenarios of a file."""
    found: list[Scenario] = []
    is_code = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            found.append(Scenario(line[3:].strip(), f"{file.stem}:{number}"))
        elif line.startswith("```"):
            is_code = not is_code
        elif is_code:
            found[-1].statements += line + "\n"
        elif line.startswith("Error: "):
            found[-1].error = line.removeprefix("Error: ").strip()
        elif line.startswith("| ") and not line.startswith(("| topic", "| ---")):
            _add(found[-1], line, f"{file.name}:{number}")
    return found


def _add(scenario: Scenario, line: str, place: str) -> None:
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert len(cells) == 4, f"{place} has {len(cells)} cells"
    topic, time, key, value = cells
    record = Record(topic.removeprefix("→").strip(), None if time == ANY_TIME else int(time), _json(key), _json(value))
    (scenario.wanted if topic.startswith("→") else scenario.given).append(record)


def _json(text: str) -> Any:
    if text.startswith("`"):
        return text.strip("`").encode()
    return None if text == "" else json.loads(text)


def written_by_session(scenario: Scenario) -> list[Record]:
    """What the queries write, each run alone as a session stores it, one after the other."""
    log = sk.open_log(":memory:")
    with sk.SqlSession(log, settings=SETTINGS) as sql:
        sql.execute(scenario.statements)
        records = list(scenario.given)
        for query in sql.queries()["query"].to_pylist():
            records += _run(sql.topology(query), log, records)
    return records[len(scenario.given) :]


def written_by_file(scenario: Scenario) -> list[Record]:
    """What the statements write as one application."""
    return _run(topology_of(HEAD + scenario.statements, "scenario"), None, scenario.given)


def _run(app: Topology, log: Log | None, records: list[Record]) -> list[Record]:
    with TopologyTestDriver(app, log=log, batching="one") as driver:
        inputs = {one.topic for one in driver.program.inputs}
        for record in records:
            if record.topic in inputs:
                driver.pipe(record.topic, _row(driver, record), timestamp=record.time)
        given = {record.topic for record in records if record.topic in inputs}
        outputs = sorted({one.topic for one in driver.program.outputs} - given)
        return [_record(topic, row) for topic in outputs for row in driver.read(topic)]


def _row(driver: TopologyTestDriver, record: Record) -> dict[str, Any]:
    topic = driver.log.topic(record.topic)
    if topic.format is not None:
        return {"key": record.key, "value": record.value}
    key = dict.fromkeys(topic.key, record.key) if len(topic.key) == 1 else record.key or {}
    return {**key, **(record.value or {}), **({"_deleted": True} if record.value is None else {})}


def _record(topic: str, row: dict[str, Any]) -> Record:
    time = round(row["_timestamp"].timestamp() * 1000)
    if "value" in row and "key" in row:
        return Record(topic, time, row["key"], row["value"])
    return Record(topic, time, None, {name: value for name, value in row.items() if not name.startswith("_")})
