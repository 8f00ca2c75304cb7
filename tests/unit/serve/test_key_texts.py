"""What a listing prints of a key finds that very row: by HTTP and by the command line, whatever the types of its columns."""

from __future__ import annotations

import decimal
import json
import math
import random
import re
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import program
from streamkit.errors import ConfigError
from streamkit.schema import Schema
from tests.unit.serve.conftest import serving

MICROSECONDS = [0, -1, 1_769_860_800_000_000, 1_769_860_800_123_456, 7 * 10**17, -7 * 10**17, 253_402_300_800_000_000]
VALUES = {
    "boolean": [True, False],
    "tinyint": [-128, 0, 5],
    "int": [-5, 0, 2**31 - 1],
    "bigint": [-(2**63), -1, 2**53 + 1, 2**63 - 1],
    "float": [0.1, -1.5, math.nan, math.inf, 1e-40],
    "double": [0.1, 5e-324, 1e22, 1.7976931348623157e308, math.nan, math.inf, -math.inf, -0.0, 2.0],
    "decimal(38,10)": [decimal.Decimal(text) for text in ("0", "-0.0000000001", "1000", "9999999999999999999999999999.9999999999")],
    "string": ["", "a/b", '"', "'", '"null"', "null", "\\N", "-x", "--json", "--", "a b+c%20&d=e?f#g", "漢😀", "e\u0301", "\u202e", "\n\t", ",", "0"],
    "binary": [b"", b"\x00", b"a", b"\xff\xfe\x00", b"\xfb\xff\xbf", "é".encode()],
    "date": [0, 20_484, -719_529, 2_932_897, -1_000_000],
    "timestamp": MICROSECONDS,
    "timestamp_ntz": MICROSECONDS,
}  # fmt: skip
NAMES = ("limit", "null", "as_of")  # of columns, which are parameters, too
BEGIN_MS = 1_769_860_800_000
STORES = 8


def random_rows(chosen, schema, key):
    """Rows with random keys, with nulls in some columns of keys that have several, and with event times of a few hours."""
    has_nulls, rows = len(key) > 1, 12
    values = [
        [None if has_nulls and chosen.random() < 0.3 else chosen.choice(VALUES[schema[name].type]) for _ in range(rows)]
        for name in key
    ]
    columns = [as_column(one, schema[name].arrow.type) for one, name in zip(values, key, strict=True)]
    times = [(BEGIN_MS + chosen.randrange(6) * 1_800_000) * 1_000 for _ in range(rows)]
    found = pa.table(
        [*columns, pa.array(range(rows), pa.int64()), pa.array(times, pa.timestamp("us", "UTC"))],
        names=[*schema.names, "_timestamp"],
    )
    return found.filter(pa.array([any(value is not None for value in row) for row in zip(*values, strict=True)]))


def as_column(values, kind):
    """Values of a key column; those of dates and times are numbers, which may be too far for Python."""
    stored = pa.int32() if pa.types.is_date(kind) else pa.int64()
    return pa.array(values, stored).view(kind) if pa.types.is_temporal(kind) else pa.array(values, kind)


@pytest.fixture
def keyed(log):
    """The stores of tables, of windows and of sessions by random keys: of each name those of its key columns."""
    chosen, app, names = random.Random(3), sk.Topology("keys"), {}
    alone = list(VALUES)
    several = [[chosen.choice(alone) for _ in range(chosen.randrange(2, 4))] for _ in range(STORES)]
    for number, types in enumerate([*([one] for one in alone), *several]):
        key = NAMES[: len(types)]
        schema = Schema.parse(", ".join([*(f"`{name}` {type}" for name, type in zip(key, types, strict=True)), "v bigint"]))
        log.create_topic(f"t{number}", str(schema), key=list(key), partitions=2)
        with log.producer() as producer:
            producer.send_batch(f"t{number}", random_rows(chosen, schema, key))
        if number % 2:
            app.table(f"t{number}", store=f"s{number}", versioned="10 days" if number % 4 == 1 else None)
        else:
            kind = sk.tumbling if number % 4 else sk.session
            grouped = app.stream(f"t{number}").group_by(*key).windowed_by(kind("1 hour", grace="1 day", retention="400 days"))
            grouped.agg(n=F.count("*"), store=f"s{number}").to(f"out{number}")
        names[f"s{number}"] = key
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    return names


def read(text):
    """JSON whose numbers stay as they are printed; true and false, too."""
    return json.loads(re.sub(r"(?<=: )(true|false)(?=[,}])", r'"\1"', text), parse_int=str, parse_float=str)


@pytest.fixture
def scanned(log):
    """What `streamkit store` prints as JSON; its options stand in front of a key."""

    def asked(verb, store, options=(), key=()):
        arguments = ["store", verb, "keys", store, "--json", *options, *key]
        result = CliRunner().invoke(program, arguments, env={"STREAMKIT_LOG": log.location}, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return read(result.output)

    return asked


@pytest.fixture
def asked(api):
    """What the server answers of a store, and below its address."""

    def got(store, below="", **parameters):
        answer = api.get(f"/api/v1/applications/keys/stores/{store}{below}", params=parameters)
        assert answer.status_code == 200, answer.text
        return read(answer.text)

    return got


def test_what_is_printed_of_a_key_finds_its_row(keyed, scanned, asked):
    """The texts of each row's key, as they are listed, look up that row, and its history; pages of any size have all rows once."""
    for store, key in keyed.items():
        rows = asked(store, "/rows", limit=1000)["rows"]
        assert len(rows) > 1 and scanned("scan", store) == rows
        assert pages_of(partial(asked, store, "/rows"), 3) == rows
        for row in rows:
            texts = [row[name] for name in key if row[name] is not None]
            nulls = [name for name in key if row[name] is None]
            parameters = {**{f"key.{name}": row[name] for name in key if row[name] is not None}, "null": nulls}
            window = {"window": row["window_start"]} if "window_start" in row else {}
            options = [f"--null={name}" for name in nulls]
            behind = ["--", *texts] if any(map(is_dashed, texts)) else texts

            assert asked(store, **parameters, **window)["rows"] == [row]
            assert scanned("get", store, [*options, *(f"--window={start}" for start in window.values())], behind) == [row]
            changes = asked(store, "/history", **parameters)["changes"]
            assert row in [{name: change[name] for name in row} for change in changes]
            assert scanned("history", store, options, behind) == changes


def test_what_is_printed_of_a_key_is_a_bound(keyed, scanned, asked):
    """The text of the first key column, or null, is a prefix; it is where a range of keys begins, as the start of a window is of windows."""
    for store, (first, *_) in keyed.items():
        rows = asked(store, "/rows", limit=1000)["rows"]
        for row in rows:
            name, value = ("null", first) if row[first] is None else ("prefix", row[first])
            own = [one for one in rows if one[first] == row[first]]
            assert asked(store, "/rows", **{name: value})["rows"] == own
            assert scanned("scan", store, [f"--{name}={value}"]) == own
            bound, column = (row["window_start"], "window_start") if "window_start" in row else (row[first], first)
            if bound is None:
                continue
            behind = rows[[one[column] for one in rows].index(bound) :]
            if "window_end" in row:  # sessions are in the order of their ends
                behind = [one for one in rows if one[column] >= bound]
            assert asked(store, "/rows", start=bound)["rows"] == behind
            assert scanned("scan", store, [f"--from={bound}"]) == behind
            before = [one for one in rows if one not in behind]
            assert asked(store, "/rows", end=bound)["rows"] == before
            assert scanned("scan", store, [f"--before={bound}"]) == before


def is_dashed(text):
    """Whether a text looks like an option to the command line: it begins with a minus, and is no number."""
    return text.startswith("-") and not re.match(r"-(\d|Infinity)", text)


def pages_of(asked, limit):
    """All rows, so many at a time."""
    found, page = [], asked(limit=limit)
    while page["cursor"] is not None:
        found += page["rows"]
        page = asked(limit=limit, cursor=page["cursor"])
    return [*found, *page["rows"]]


def test_producers_read_and_print_the_same_texts(log, keyed, asked, printed):
    """What a listing prints of a key is what `consume` prints of its records, and what Kafka's REST and `produce` read of it."""
    with serving(log, allows_changes=True) as client:
        for number, (store, key) in enumerate(keyed.items()):
            listed = client.get(f"/api/v1/applications/keys/stores/{store}/rows").json()["rows"]
            sent = [
                {"key": {"type": "JSON", "data": {name: row[name] for name in key}}, "value": {"type": "JSON", "data": {"v": 1}}}
                for row in listed
            ]
            for record in sent:
                answer = client.post(f"/v3/clusters/any/topics/t{number}/records", json=record)
                assert answer.status_code == 200, answer.text
            texts = {tuple(row[name] for name in key) for row in asked(store, "/rows", limit=1000)["rows"]}
            lines = [read(line) for line in printed("consume", f"t{number}").splitlines()]
            assert {tuple("0.0" if line[name] == "-0.0" else line[name] for name in key) for line in lines} == texts
            printed("produce", f"t{number}", str(written(log, number, printed("consume", f"t{number}"))))
            again = [read(line) for line in printed("consume", f"t{number}").splitlines()]
            columns = (*key, "v")
            assert sorted(repr([line[name] for name in columns]) for line in again) == sorted(
                2 * [repr([line[name] for name in columns]) for line in lines]
            )


def written(log, number, lines):
    """A file of JSON lines."""
    path = Path(log.root) / f"lines{number}.jsonl"
    path.write_text(lines)
    return path


def test_what_is_no_key(keyed, refused, scanned):
    """A text that its key column cannot have, and null in a wrong place, are errors that say what was expected."""
    base = "/api/v1/applications/keys/stores/"
    for store, parameters, message in (
        ("s8", {"key.limit": "é"}, "the key column limit is binary; found 'é'; expected base 64, as bytes are printed"),
        ("s8", {"key.limit": "AA"}, "expected base 64, as bytes are printed"),
        ("s8", {"null": "x"}, "found the parameter 'x', which is no key column"),
        ("s3", {"x": "1", "key.x": "2"}, "the key column 'x' is given twice, as x and as key.x"),
        (
            "s8",
            {"key.limit": "AA==", "null": "limit"},
            "found limit, limit null; the store 's8' has the key limit; expected a value for each",
        ),
        ("s8", {"null": ["limit", "limit"]}, "found limit null, limit null"),
        ("s3", {"key.limit": "99999999999999999999"}, "the key column limit is bigint; found '99999999999999999999'"),
        (
            "s13/rows",
            {"null": "null"},
            "found null for null; expected the first of the key columns, with nothing left out: limit, null",
        ),
        (
            "s13/rows",
            {"null": ["limit", "limit"]},
            "found null for limit more than once; expected each key column that is null once",
        ),
        ("s13/rows", {"null": "limit", "prefix": ["0", "0", "0"]}, "found 4 values of a key; expected "),
    ):
        status, said = refused(f"{base}{store}", **parameters)
        assert status == 400 and message in said
    with pytest.raises(ConfigError, match="found 2 values of a key; expected 1: limit"):
        scanned("get", "s3", ["--null=limit"], ["1"])
    twice = [f"--null={name}" for name in (*keyed["s13"], *keyed["s13"])]
    for verb, options in (("get", twice), ("history", twice), ("scan", twice[-1:] + twice[:1] + twice[-1:])):
        with pytest.raises(ConfigError, match=r"found null for .* more than once; expected each key column that is null once"):
            scanned(verb, "s13", options, [])
    with pytest.raises(ConfigError, match="has no row of the key limit null"):
        scanned("get", "s13", twice[: len(keyed["s13"])], [])
    for verb in ("get", "history"):
        with pytest.raises(ConfigError, match="found 0 values of a key; expected 1: limit"):
            scanned(verb, "s3", [], [])
    status, said = refused(f"{base}s13", null=keyed["s13"])
    assert (status, said) == (404, f"the store 's13' has no row of the key {', '.join(f'{name} null' for name in keyed['s13'])}")
