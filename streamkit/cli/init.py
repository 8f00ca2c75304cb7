"""`streamkit init`: from a file of records to a topic, a topology that runs, and its test."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer

from streamkit.cli.record_file_name import delimiter_of_name, form_of_name
from streamkit.cli.terminal.choice import choice_option
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.record_input import DelimiterOption, EncodingOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json
from streamkit.connectors.files.guess import Guess, guess
from streamkit.connectors.files.open_file import compression_of
from streamkit.connectors.files.record_file import FileFormat
from streamkit.data_type import field_name
from streamkit.errors import ConfigError, StreamKitError, TopicExistsError
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.topic.settings import RETENTION_MS, SETTINGS, TIMESTAMP_AFTER_MAX_MS
from streamkit.plan.duration import duration_text

SAMPLE_ROWS = 10_000
TEST_ROWS = 3
_HOUR_MS = 3_600_000
_DISORDER_MS_MAX = 99 * 365 * 24 * _HOUR_MS  # a grace is below a hundred years
_PYTHON_ENDS_MS = 253_402_300_800_000  # the year 10000
_ANY_TIME_MS = (1 << 63) - 1
_BOUNDS = ("window_start", "window_end")
_GRACES = {"10 minutes": _HOUR_MS // 6, "1 hour": _HOUR_MS, "1 day": 24 * _HOUR_MS, "7 days": 168 * _HOUR_MS}
_IMPORTS = {"dt.date": "import datetime as dt", "Decimal(": "from decimal import Decimal"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV with a line of names, JSON, or Parquet; plain, .gz or .zst.")],
    form: Annotated[
        FileFormat | None, choice_option("--format", FileFormat, "The format of the file; by its suffix unless given.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="The topic to create; else it gets the file's name.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMNS", help="The key's columns, with commas between; else guessed.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", metavar="COLUMN", help="The column of the event time; else guessed.")
    ] = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = "utf-8",
    folder: Annotated[str, typer.Option("--folder", metavar="DIR", help="The folder of the files.")] = ".",
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="How many records to guess from, and to load.")
    ] = SAMPLE_ROWS,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Make a topic, a topology that runs and its test from a file.

    The schema is guessed from the first records, which are loaded. Nothing that is there is changed: a topic or file of the same
    name is an error. The topology counts the records of each group, per hour if they have times; it is meant to be changed.
    """
    path = Path(file)
    plain = path.with_suffix("") if compression_of(path) != "none" else path
    name = topic or (_NOT_IN_NAMES.sub("_", plain.stem).strip("_").lower() or "records")
    keys = tuple(part.strip() for part in key.split(",")) if key else ()
    found = guess(path, form or form_of_name(file), rows, keys, timestamp, delimiter_of_name(file, delimiter), encoding)
    example = _Example(name, found)
    files = {Path(folder, f"{example.module}.py"): example.topology(), Path(folder, f"test_{example.module}.py"): example.test()}
    for target in files:
        if target.exists():
            raise ConfigError(f"there is a file {str(target)!r} already; expected another --folder or --topic")
    with open_log(log) as opened:
        if name in opened.topics():
            raise TopicExistsError(f"there is a topic {name!r} already, which is left as it is; expected another --topic")
        config = _load(opened, name, found)
    for target, text in files.items():
        target.write_text(text, encoding="utf-8")
    if as_json:
        columns = {column.name: column.type for column in found.schema}
        facts: dict[str, Any] = {
            "topic": name,
            "records": found.sample.num_rows,
            "key": list(found.key),
            "timestamp": found.timestamp,
        }
        facts |= {setting.replace(".", "_"): value for setting, value in config.items()}
        show_json({**facts, "doubts": list(found.doubts), "schema": columns, "files": [str(target) for target in files]})
    else:
        _show(name, found, files, config, log)


def _load(log: Log, name: str, found: Guess) -> dict[str, int]:
    """Create the topic with the records, or nothing; returns the settings that it needs for them."""
    config = _config(found, log.clock.now_ms())
    log.create_topic(name, schema=found.schema, key=list(found.key), timestamp=found.timestamp, config=config)
    try:
        with log.producer() as producer:
            producer.send_batch(name, found.sample)
    except StreamKitError:
        log.delete_topic(name)  # else the next try would find it, without records
        raise
    return config


def _config(found: Guess, now_ms: int) -> dict[str, int]:
    """Settings of the topic without which it would not take some of the rows, or the next maintenance would delete them."""
    config = {}
    if found.oldest_ms is not None and found.oldest_ms < now_ms - int(SETTINGS[RETENTION_MS].default):
        config[RETENTION_MS] = -1
    if found.newest_ms is not None and found.newest_ms > now_ms + int(SETTINGS[TIMESTAMP_AFTER_MAX_MS].default):
        config[TIMESTAMP_AFTER_MAX_MS] = _ANY_TIME_MS
    return config


def _show(name: str, found: Guess, files: dict[Path, str], config: dict[str, int], log: str | None) -> None:
    of_key = f"key {', '.join(found.key)}" if found.key else "no key"
    of_time = f"event time {found.timestamp}" if found.timestamp else "event time of arrival"
    module, test = files
    typer.echo(f"topic {name}: {counted(found.sample.num_rows, 'record')} loaded, {of_key}, {of_time}")
    typer.echo(f"  {found.schema}")
    for doubt in found.doubts:
        typer.echo(f"  {doubt}")
    if RETENTION_MS in config:
        kept = duration_text(int(SETTINGS[RETENTION_MS].default))
        typer.echo(
            f"  {RETENTION_MS}=-1: it keeps rows of any age, because some here are older than {kept}, which topics keep otherwise"
        )
    if TIMESTAMP_AFTER_MAX_MS in config:
        ahead = duration_text(int(SETTINGS[TIMESTAMP_AFTER_MAX_MS].default))
        typer.echo(
            f"  {TIMESTAMP_AFTER_MAX_MS}={_ANY_TIME_MS}: it accepts rows with any future time, because some here are further in the future than {ahead}"
        )
    place = "" if log is None else f" --log {shlex.quote(log)}"
    typer.echo(f"{module}  run it:  streamkit run {module} --local --drain{place}")
    typer.echo(f"{test}  test it: python {test}, or pytest {test}")


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
        return "records" if not name.isidentifier() or iskeyword(name) or name in ("app", "sk") else name

    @property
    def group(self) -> str | None:
        """The column to count by, if there is one that the result can have."""
        name = self.guess.group
        return None if name is not None and self.is_windowed and name.lower() in _BOUNDS else name

    @property
    def is_windowed(self) -> bool:
        """Whether the records have times, and such that a window can wait for all of them, and end in a year that Python has."""
        newest_ms = self.guess.newest_ms
        return newest_ms is not None and newest_ms < _PYTHON_ENDS_MS - _HOUR_MS and self.guess.disorder_ms < _DISORDER_MS_MAX

    @property
    def by(self) -> str:
        """The column of the result that tells the groups apart."""
        return self.group or _free(("topic", "of_topic", "counted_topic"), self.guess.schema.names)

    @property
    def counted(self) -> str:
        """The column of the result with the number of records."""
        return _free(("records", "how_many"), [self.by])

    @property
    def mean(self) -> str | None:
        """The column of the result with a mean."""
        if not self.guess.measure:
            return None
        name = f"mean_{_NOT_IN_NAMES.sub('_', self.guess.measure)}"
        return _free((name, f"{name}_of_all"), [self.by, self.counted])

    @property
    def grace(self) -> str:
        """How long a window waits for late records: long enough for the order of the rows in the file."""
        return next(
            (text for text, length_ms in _GRACES.items() if length_ms >= self.guess.disorder_ms),
            f"{-(-self.guess.disorder_ms // (24 * _HOUR_MS))} days",
        )

    def topology(self) -> str:
        window = f'\n    .windowed_by(sk.tumbling("1 hour", grace="{self.grace}"))' if self.is_windowed else ""
        mean = f",\n        {self.mean}=F.avg({_literal(self.guess.measure)})" if self.mean else ""
        group = _literal(self.group) if self.group else f"{self.by}=F.lit({_literal(self.topic)})"
        what = f"of each {self.group}" if self.group else "in all"
        per = ", per hour" if window else ""
        return f'''"""How many records of the topic {self.topic} there are {what}{per}."""

from __future__ import annotations

import streamkit as sk
from streamkit import functions as F

SCHEMA = {self._schema()}

app = sk.Topology({_literal(f"{self.topic}-counts")})
{self.variable} = app.stream({_literal(self.topic)}, schema=SCHEMA, key={_literal(list(self.guess.key))})
counts = (
    {self.variable}.group_by({group}){window}
    .agg(
        {self.counted}=F.count("*"){mean},
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
        key = f"row[{_literal(self.by)}]"
        key = f'({key}, row["window_start"])' if self.is_windowed else key
        expected = f"sum(row[{_literal(self.group)}] is not None for row in ROWS)" if self.group else "len(ROWS)"
        left_out = "; records without a group are left out" if self.group else ""
        return f'''"""The topology in {self.module}.py, driven row by row, without Spark."""

{imports}from streamkit.testing import TopologyTestDriver

from {self.module} import SCHEMA, app

ROWS = [
{listed}
]


def test_every_record_is_counted():
    """The newest counts of all groups add up to the records that were piped{left_out}."""
    topic = {{"schema": SCHEMA, "key": {_literal(list(self.guess.key))}{timestamp}}}
    with TopologyTestDriver(app, topics={{{_literal(self.topic)}: topic}}) as driver:
        driver.pipe({_literal(self.topic)}, ROWS)
        newest = {{{key}: row[{_literal(self.counted)}] for row in driver.read({_literal(f"{self.topic}_counts")})}}
    assert sum(newest.values()) == {expected}


if __name__ == "__main__":
    test_every_record_is_counted()
    print("ok")
'''

    def _schema(self) -> str:
        """The schema as a text of Python, a column a line."""
        lines = (f"    {field_name(column.name)} {column.type}" for column in self.guess.schema)
        return '"""\n' + ",\n".join(lines) + '\n"""'


def _free(names: Sequence[str], taken: Sequence[str]) -> str:
    """The first of some names that no other column has, whatever its case."""
    others = {name.lower() for name in taken}
    return next((name for name in names if name.lower() not in others), f"{names[0]}_{len(others)}_more")


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
