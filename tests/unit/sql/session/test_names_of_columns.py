"""
Columns may have any name that CREATE accepts: what statements do depends on no name.

Each script is executed twice, over columns with drawn names and over columns with plain ones, and both times gives the same values.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import SqlError
from tests.kit.sampling import seeds

OF_RECORDS = ("rowtime", "rowpartition", "rowoffset", "rowkey", "headers")
OF_WINDOWS = ("window_start", "window_end", "windowstart", "windowend")
OTHERS = ("key", "value", "count", "KSQL_COL_0", "argument0", "select", ".", "..", ".a", "a.", "a.b", "a b", " ", "ä", '"', "1")
PLAIN = ("k0", "a0", "b0", "f0")
FORMATS = ("NATIVE", "JSON", "AVRO", "DELIMITED", "PROTOBUF")
ROUNDS = 3  # of a seed
STATEMENTS = (
    "INSERT INTO s ({k}, {a}) VALUES ('x', 1), ('y', 2)",
    "INSERT INTO s ({b}, {a}, {k}) VALUES (5, 1, 'z')",
    "INSERT INTO s VALUES ('x', 7, 8)",
    "CREATE STREAM u AS SELECT * FROM s",
    "CREATE STREAM v AS SELECT {k}, {a} + 1 AS {b} FROM s WHERE {a} > 1",
    "CREATE TABLE t AS SELECT {a}, COUNT(*) AS {b} FROM s GROUP BY {a}",
    "CREATE TABLE w AS SELECT {k}, MAX({a}) AS {a} FROM s GROUP BY {k}",
)
QUERIES = (
    "SELECT * FROM s",
    "SELECT {b}, {a}, {k} FROM s",
    "SELECT s.{b} AS {k} FROM s WHERE s.{a} = 1",
    "SELECT {a}, COUNT(*) AS {k}, MAX({b}) AS {b} FROM s GROUP BY {a} ORDER BY {a}",
    "SELECT * FROM u",
    "SELECT * FROM v WHERE {b} > 2",
    "SELECT * FROM t ORDER BY {a}",
    "SELECT {b} FROM t WHERE {a} = 1",
    "SELECT * FROM w ORDER BY {k}",
    "SELECT {a} FROM w WHERE {k} = 'x'",
    "SELECT x.{a} AS {a}, w.{a} AS {b} FROM s x JOIN w ON x.{k} = w.{k} ORDER BY 1, 2",
)


def quoted(names: tuple[str, ...]) -> dict[str, str]:
    return {plain[0]: f"`{name.replace('`', '``')}`" for plain, name in zip(PLAIN, names, strict=False)}


def session(log: sk.Log, dialect: str) -> sk.SqlSession:
    return sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}, engine="local")


def declared(dialect: str, format: str) -> str:
    """The statement that declares the columns; a field of a struct is in formats that have structs."""
    fields = "" if format == "DELIMITED" else ", c STRUCT<{f}: INT>"
    return f"CREATE STREAM s ({{k}} STRING KEY, {{a}} INT, {{b}} INT{fields}) WITH (VALUE_FORMAT = '{format}', PARTITIONS = 1, RETENTION_MS = -1)"


def told(dialect: str, format: str, names: tuple[str, ...]) -> list[Any]:
    """What the queries give, by the plain names of the columns; SqlError if the source cannot be declared."""
    plain = {name: one[0] for one, name in zip(PLAIN, names, strict=False)}
    words = quoted(names)
    with sk.open_log(":memory:") as log, session(log, dialect) as sql:
        sql.execute(declared(dialect, format).format(**words))
        has_fields = format != "DELIMITED"
        for statement in STATEMENTS:
            statement = statement.replace("('x', 7, 8)", "('x', 7, 8, NULL)") if has_fields else statement
            sql.execute(statement.format(**words))
        if has_fields:
            struct = "STRUCT({f} := 3)" if dialect == "ksql" else f"named_struct('{names[3]}', 3)"
            sql.execute(f"INSERT INTO s ({{k}}, c) VALUES ('f', {struct})".format(**words))
        assert sql.catch_up(60)
        found: list[Any] = []
        for query in (*QUERIES, *(["SELECT c FROM s WHERE {k} = 'f'", "SELECT c FROM u WHERE {k} = 'f'"] if has_fields else [])):
            table = sql.query(query.format(**words))
            found.append([{plain.get(name, name): shown(value) for name, value in row.items()} for row in table.to_pylist()])
        described = sql.execute("DESCRIBE s; DESCRIBE t")
        found += [
            [row["type"].replace(words["f"], "f").replace(names[3], "f") for row in one.table.to_pylist()]
            for one in described
            if one.table is not None
        ]
        return found


def shown(value: Any) -> Any:
    """A value; of a struct those of its fields."""
    return list(value.values()) if isinstance(value, dict) else value


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("seed", seeds(4))
def test_a_name_means_its_column(seed: int, dialect: str) -> None:
    """Columns and fields that are called as those of records, windows, sources and words of SQL are columns and fields as all others."""
    chance = Random(f"{seed} {dialect}")
    done = 0
    while done < ROUNDS:
        drawn = [chance.choice(chance.choice([OF_RECORDS, OF_WINDOWS, OTHERS])) for _ in PLAIN]
        names = tuple(chance.choice([one, one, one.upper()]) for one in drawn)
        format = chance.choice(FORMATS)
        if len({name.lower() for name in names}) < len(names):
            continue
        try:
            with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": dialect}) as sql:
                sql.execute(declared(dialect, format).format(**quoted(names)))
        except SqlError:
            continue  # such as ROWTIME in the ksql dialect, and what Avro cannot call a field
        assert told(dialect, format, names) == told(dialect, format, PLAIN), (format, names)
        done += 1
