"""Aggregates that go by the order of records: one result by every way in which a query is run, over any partitions."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

import streamkit as sk
from streamkit.errors import TopologyError
from streamkit.sql.session import SqlSession
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import seeds

CALLS = {
    "spark": (
        "first(n) AS a, last(n) AS b, first(n, true) AS c, last(n, true) AS d, collect_list(n) AS e, collect_set(n) AS f, shown(n) AS g"
    ),
    "ksql": (
        "EARLIEST_BY_OFFSET(N, FALSE) AS A, LATEST_BY_OFFSET(N, FALSE) AS B, EARLIEST_BY_OFFSET(N) AS C, LATEST_BY_OFFSET(N) AS D, "
        "COLLECT_LIST(N) AS E, COLLECT_SET(N) AS F, SHOWN(N) AS G"
    ),
}
OF_LISTS = {
    "spark": "collect_list(n) AS e, collect_set(n) AS f, first(n) AS a, last(n, true) AS d, shown(n) AS g",
    "ksql": "COLLECT_LIST(N) AS E, COLLECT_SET(N) AS F, SHOWN(N) AS G",
}
TIMES = {"spark": "_timestamp", "ksql": "ROWTIME"}
SOURCES = (  # a stream, and queries in FROM that have its records in their order
    "c {where}",
    "(SELECT k, n, grp FROM c {where}) z",
    "(SELECT grp, n FROM (SELECT * FROM c) y {where}) z WHERE grp <> 'none'",
)
MIDDLE = {"spark": "TIMESTAMP '1970-01-01 00:00:20'", "ksql": "20000"}


def records(chance):
    """Records out of order, some with equal times; n is null in some."""
    return [
        (
            chance.choice("abc"),
            chance.choice("xy"),
            None if chance.random() < 0.2 else chance.randrange(6),
            chance.randrange(40) * 1000,
        )
        for _ in range(chance.randrange(1, 25))
    ]


def by_hand(values, dialect):
    """What the aggregates of all these values are, in their order."""
    known = [value for value in values if value is not None]
    kept = known if dialect == "spark" else values
    return {
        "a": values[0], "b": values[-1], "c": known[0] if known else None, "d": known[-1] if known else None,
        "e": kept, "f": list(dict.fromkeys(kept)), "g": repr(known),
    }  # fmt: skip


def grouped(rows, key, value, dialect):
    groups: dict[str, list[int | None]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row[value])
    return {name: by_hand(values, dialect) for name, values in groups.items()}


def by_group(table):
    """The aggregates of a result by the group, which is the first column."""
    return {next(iter(row.values())): aggregates_of(row) for row in table.to_pylist()}


def aggregates_of(row):
    """What `by_hand` has of a row, under names in small letters."""
    return {name.lower(): value for name, value in row.items() if name.lower() in "abcdefg"}


def opened(log, dialect):
    session = SqlSession(log, settings={"streamkit.sql.dialect": dialect})
    session.register("shown", repr, "string", is_aggregate=True)
    return session


def declare(sql, partitions, has_times):
    timed = ", TIMESTAMP='at'" if has_times else ""
    if sql.settings.script.meaning.name == "ksql":
        timed = timed.upper()
    sql.execute(
        f"CREATE STREAM c (k STRING KEY, grp STRING, n INT, at BIGINT) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON', PARTITIONS={partitions}, "
        f"RETENTION_MS=-1{timed})"
    )


def insert(sql, dialect, rows, has_times):
    """The records, with their times in the column or beside it; then the topic has other ones that say nothing."""
    values = [f"('{k}', '{grp}', {'NULL' if n is None else n}, {at}, {1000 if has_times else at})" for k, grp, n, at in rows]
    sql.execute(f"INSERT INTO c (k, grp, n, at, {TIMES[dialect]}) VALUES {', '.join(values)}")


def run(sql, log):
    for id in sql.queries()["query"].to_pylist():
        sk.run(sql.topology(id), log=log, engine="local", tasks=1, trigger="available_now").wait()


def pushed(sql, query, count):
    """The newest row of each group of a query that goes on, when it has so many records in all."""
    sql.execute("SET 'auto.offset.reset' = 'earliest'")
    newest, counts = {}, {}
    with sql.subscribe(f"{query} EMIT CHANGES") as found:
        for batch in found:
            for row in batch.to_pylist():
                group, number, *_ = row.values()
                newest[group], counts[group] = aggregates_of(row), number
            if sum(counts.values()) == count:
                break
    return newest


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("seed", seeds(3))
def test_groups_by_the_key(seed, dialect):
    """The records of a key lie in one partition, so a group has them as they came: by every way, over one partition and four, in any cut."""
    chance = random.Random(seed)
    rows, has_times = records(chance), chance.random() < 0.5
    expected = grouped(rows, 0, 2, dialect)
    query = f"SELECT k, COUNT(*) AS records, {CALLS[dialect]} FROM c GROUP BY k"
    for partitions in (1, 4):
        with sk.open_log(":memory:") as log, opened(log, dialect) as sql:
            declare(sql, partitions, has_times)
            sql.execute(f"CREATE TABLE t WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON') AS {query}")
            pieces = sorted({0, len(rows), *(chance.randrange(len(rows)) for _ in range(3))})
            for begin, end in itertools.pairwise(pieces):
                insert(sql, dialect, rows[begin:end], has_times)
                run(sql, log)
            assert by_group(sql.query("SELECT * FROM t")) == expected
            assert by_group(sql.query(query)) == expected
            assert pushed(sql, query, len(rows)) == expected
            assert driven(sql.topology("CTAS_T_1"), log, chance.choice(["each", "all"])) == expected


def driven(topology, log, batching):
    """What a query gives in the test driver, of the records of a log at their places."""
    with TopologyTestDriver(topology, batching=batching) as driver:
        driver.pipe("c", log.read("c"))
        newest = {row["key"]: row["value"] for row in driver.read("t", "key", "value")}
    return {name: aggregates_of(row) for name, row in newest.items()}


def in_order(log, has_times):
    """The records of a topic in canonical order: by the largest time so far of their partition, then by partition and offset."""
    found: list[tuple[Any, ...]] = []
    reached: dict[int, int] = {}
    for row in log.read("c").to_pylist():
        value = {name.lower(): one for name, one in json.loads(row["value"]).items()}
        time = value["at"] if has_times else int(row["_timestamp"].timestamp() * 1000)
        partition = row["_partition"]
        reached[partition] = max(reached.get(partition, time), time)
        found.append((reached[partition], partition, row["_offset"], value))
    return [value for *_, value in sorted(found, key=lambda one: one[:3])]


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", seeds(3))
def test_groups_of_several_partitions(seed, source, dialect):
    """
    A group that has records of several partitions has them in canonical order, by every way in which a query finds them there.

    A condition takes records out, and the order of the others stays, also behind queries in FROM.
    """
    chance = random.Random(seed)
    rows, has_times = records(chance), chance.random() < 0.5
    where = chance.choice(
        ["", "WHERE k <> 'a'", "WHERE at < 20000", f"WHERE {TIMES[dialect]} < {MIDDLE[dialect]}", "WHERE n > 2"]
    )
    query = f"SELECT grp, COUNT(*) AS records, {OF_LISTS[dialect]} FROM {source.format(where=where)} GROUP BY grp"
    with sk.open_log(":memory:") as log, opened(log, dialect) as sql:
        declare(sql, chance.choice([1, 4]), has_times)
        for begin in range(0, len(rows), 7):
            insert(sql, dialect, rows[begin : begin + 7], has_times)
        kept = [one for one in in_order(log, has_times) if is_kept(one, where)]
        expected = {name: {column: all[column] for column in all if f" AS {column}" in query.lower().replace(" as ", " AS ")}
                    for name, all in grouped(kept, "grp", "n", dialect).items()}  # fmt: skip
        sql.execute(f"CREATE TABLE t WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON') AS {query}")
        run(sql, log)
        assert by_group(sql.query("SELECT * FROM t")) == expected
        assert by_group(sql.query(query)) == expected
        assert driven(sql.topology("CTAS_T_1"), log, "all") == expected
        if kept:
            assert pushed(sql, query, len(kept)) == expected


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_records_behind_queries_in_from_are_at_their_places(log, dialect):
    """What each record has beside its columns, and aggregates by it, are there behind queries in FROM as in a query that goes on."""
    time, offset = (TIMES[dialect], "ROWOFFSET") if dialect == "ksql" else ("_timestamp", "_offset")
    first, last = ("EARLIEST_BY_OFFSET(n)", "LATEST_BY_OFFSET(n)") if dialect == "ksql" else ("first(n)", "last(n)")
    rows = records(random.Random(7)) + records(random.Random(8))
    nested = f"(SELECT k, n, grp FROM (SELECT * FROM c WHERE k <> 'a') y WHERE {offset} <> 1) z WHERE {time} > {MIDDLE[dialect]}"
    queries = {
        f"CREATE STREAM o1 AS SELECT k, n, z.{time} AS at, {offset} AS place FROM {nested}": "SELECT k, n, at, place FROM o1",
        f"CREATE TABLE o2 AS SELECT grp, {first} AS f, {last} AS l, COUNT(*) AS m FROM {nested} GROUP BY grp": "SELECT grp, f, l, m FROM o2",
    }
    with opened(log, dialect) as sql:
        declare(sql, 4, has_times=False)
        insert(sql, dialect, rows, has_times=False)
        for statement, asked in queries.items():
            sql.execute(statement)
            run(sql, log)
            found = sql.query(asked).to_pylist()
            assert found
            once = sql.query(statement.partition(" AS ")[2]).to_pylist()
            assert sorted(map(str, (row.values() for row in once))) == sorted(map(str, (row.values() for row in found)))


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT DISTINCT grp, n FROM c) z",
        "(SELECT grp, n FROM c ORDER BY n) z",
        "(SELECT a.grp, a.n FROM c a JOIN c b ON a.k = b.k) z",
        "(SELECT grp, count(*) AS n FROM c GROUP BY grp) z",
        "c AS z JOIN c b ON z.k = b.k",
    ],
)
def test_rows_without_an_order_are_refused_at_the_call(sql, source):
    """The reason is true of the query, and carets lie below the call."""
    declare(sql, 1, has_times=False)
    text = f"SELECT count(*) AS m,\n  size(collect_list(z.n)) AS e\nFROM {source} GROUP BY z.grp"
    with pytest.raises(TopologyError, match="collect_list goes by the order of records, and these rows have none") as refused:
        sql.query(text)
    assert str(refused.value).endswith(f"\n      size(collect_list(z.n)) AS e\n           {'^' * len('collect_list(z.n)')}")


def is_kept(row, where):
    if where.startswith("WHERE k"):
        return row["k"] != "a"
    if where == "WHERE n > 2":
        return row["n"] is not None and row["n"] > 2
    return not where or row["at"] < 20_000


@pytest.mark.parametrize("has_times", [False, True])
@pytest.mark.parametrize("where", ["_timestamp < TIMESTAMP '1970-01-01 00:00:20'", "_offset > 0", "n < 3", "at < 20000"])
def test_records_that_are_left_out_keep_the_others_in_their_places(log, sql, has_times, where):
    """What a condition leaves out, in frames that need not be read too, has moved the time of its partition: what follows it stays behind."""
    declare(sql, 4, has_times)
    insert(sql, "spark", [(key, "x", 0, 0) for key in "abcdefgh"], has_times)
    partitions = {row["key"].decode(): row["_partition"] for row in log.read("c").to_pylist()}
    other = next(key for key in "bcdefgh" if partitions[key] != partitions["a"])
    for row in [("a", "y", 5, 30_000), ("a", "y", 2, 5_000), (other, "y", 1, 10_000)]:
        insert(sql, "spark", [row], has_times)
    (found,) = sql.query(f"SELECT collect_list(n) AS e, last(n) AS b FROM c WHERE grp = 'y' AND {where}").to_pylist()
    assert found == {"e": [1, 5, 2] if where == "_offset > 0" else [1, 2], "b": 2}
