"""`streamkit init`: from a file of records to a topic, a topology that runs, and its test."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streamkit.cli.produce import SUFFIXES
from streamkit.cli.terminal.choice import choice_option
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json
from streamkit.connectors.files.guess import Guess, guess
from streamkit.connectors.files.record_file import Format
from streamkit.data_type import field_name
from streamkit.errors import ConfigError, TopicExistsError
from streamkit.log.opening import open_log

SAMPLE_ROWS = 10_000
TEST_ROWS = 3
_IMPORTS = {"dt.date": "import datetime as dt", "Decimal(": "from decimal import Decimal"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV with a line of names, JSON lines, or Parquet.")],
    form: Annotated[Format | None, choice_option("--format", Format, "How the records lie in it; else its suffix says.")] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="The topic to create; else called as the file.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMNS", help="The key's columns, with commas between; else guessed.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="COLUMN", help="The column of the event time; else guessed.")
    ] = None,
    folder: Annotated[str, typer.Option("--folder", metavar="DIR", help="Where the files go.")] = ".",
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="How many records to guess from, and to load.")
    ] = SAMPLE_ROWS,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Make a topic, a topology that runs and its test from a file.

    The schema is guessed from the first records, which are loaded. Nothing that is there is changed: a topic or file of the same name
    is an error. The topology counts the records of each group, per hour if they have times; it is meant to be changed.
    """
    path = Path(file)
    name = topic or _name_of(path.stem)
    found = guess(path, form or _form_of(path), rows, tuple(part.strip() for part in key.split(",")) if key else (), timestamp)
    example = _Example(name, found)
    files = {Path(folder, f"{example.module}.py"): example.topology(), Path(folder, f"test_{example.module}.py"): example.test()}
    for target in files:
        if target.exists():
            raise ConfigError(f"there is a file {str(target)!r} already; expected another --folder or --topic")
    with open_log(log) as opened:
        if name in opened.topics():
            raise TopicExistsError(f"there is a topic {name!r} already, which is left as it is; expected another --topic")
        opened.create_topic(name, schema=found.schema, key=list(found.key), timestamp=found.timestamp)
        with opened.producer() as producer:
            producer.send_batch(name, found.sample)
    for target, text in files.items():
        target.write_text(text, encoding="utf-8")
    if as_json:
        columns = {column.name: column.type for column in found.schema}
        facts = {"topic": name, "records": found.sample.num_rows, "key": list(found.key), "timestamp": found.timestamp}
        show_json({**facts, "schema": columns, "files": [str(target) for target in files]})
    else:
        _show(name, found, files)


def _show(name: str, found: Guess, files: dict[Path, str]) -> None:
    of_key = f"key {', '.join(found.key)}" if found.key else "no key"
    of_time = f"event time {found.timestamp}" if found.timestamp else "event time of arrival"
    module, test = files
    typer.echo(f"topic {name}: {counted(found.sample.num_rows, 'record')} loaded, {of_key}, {of_time}")
    typer.echo(f"  {found.schema}")
    typer.echo(f"{module}  run it:  streamkit run {module} --local --drain")
    typer.echo(f"{test}  test it: python -m pytest {test}")


def _form_of(path: Path) -> Format:
    found = SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise ConfigError(f"{str(path)!r} does not say how its records lie in it; expected --format csv, json or parquet")
    return found


def _name_of(stem: str) -> str:
    """A topic's name from that of a file."""
    return _NOT_IN_NAMES.sub("_", stem).strip("_").lower() or "records"


@dataclass(frozen=True)
class _Example:
    """The topology and the test of a topic, as text."""

    topic: str
    guess: Guess

    @property
    def module(self) -> str:
        """The name of the Python file, which can be imported."""
        name = _NOT_IN_NAMES.sub("_", self.topic)
        return f"{name}_counts" if not name[:1].isdigit() else f"counts_of_{name}"

    @property
    def variable(self) -> str:
        name = _NOT_IN_NAMES.sub("_", self.topic).lower()
        return name if name.isidentifier() else "records"

    @property
    def group(self) -> str:
        """What the records are counted by."""
        return self.guess.group or (self.guess.key or self.guess.schema.names)[0]

    def topology(self) -> str:
        window = '\n    .windowed_by(sk.tumbling("1 hour", grace="10 minutes"))' if self.guess.timestamp else ""
        mean = (
            f",\n        mean_{_NOT_IN_NAMES.sub('_', self.guess.measure)}=F.avg({_literal(self.guess.measure)})"
            if self.guess.measure
            else ""
        )
        per = "per value and hour" if window else "per value"
        return f'''"""How many records of the topic {self.topic} there are of each {self.group}, {per}."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

SCHEMA = {self._schema()}

app = sk.Topology({_literal(f"{self.topic}-counts")})
{self.variable} = app.stream({_literal(self.topic)}, schema=SCHEMA, key={_literal(list(self.guess.key))})
counts = (
    {self.variable}.group_by({_literal(self.group)}){window}
    .agg(
        records=F.count("*"){mean},
        store="counts",
    )
)
counts.to({_literal(f"{self.topic}_counts")})

if __name__ == "__main__":
    sk.main(app)
'''

    def test(self) -> str:
        rows = self.guess.sample.slice(0, TEST_ROWS).to_pylist()
        timestamp = f', "timestamp": {_literal(self.guess.timestamp)}' if self.guess.timestamp else ""
        listed = "\n".join(f"    {_literal(row)}," for row in rows)
        modules = [text for name, text in _IMPORTS.items() if name in listed]
        imports = "".join(f"{text}\n" for text in modules) + ("\n" if modules else "")
        return f'''"""The topology in {self.module}.py, driven row by row, without Spark."""

{imports}from streamkit.testing import TopologyTestDriver

from {self.module} import SCHEMA, app

ROWS = [
{listed}
]


def test_every_record_is_counted():
    """The counts of all groups add up to the records that were piped; records without a group are left out."""
    topic = {{"schema": SCHEMA, "key": {_literal(list(self.guess.key))}{timestamp}}}
    with TopologyTestDriver(app, topics={{{_literal(self.topic)}: topic}}) as driver:
        driver.pipe({_literal(self.topic)}, ROWS)
        counts = driver.store("counts").to_arrow()
        assert sum(counts["records"].to_pylist()) == sum(row[{_literal(self.group)}] is not None for row in ROWS)
'''

    def _schema(self) -> str:
        """The schema as a text of Python, a column a line."""
        lines = (f"    {field_name(column.name)} {column.type}" for column in self.guess.schema)
        return '"""\n' + ",\n".join(lines) + '\n"""'


def _literal(value: object) -> str:
    """A value as Python is written by hand: texts in double quotes, times in UTC."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.timezone.utc)
        fields = [moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond]
        while len(fields) > 3 and not fields[-1]:
            fields.pop()
        return f"dt.datetime({', '.join(map(str, fields))}, tzinfo=dt.timezone.utc)"
    if isinstance(value, dt.date):
        return f"dt.date({value.year}, {value.month}, {value.day})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
