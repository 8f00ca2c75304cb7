"""A query that is run once over a table of a store has the same rows whether it names ROWTIME, ROWPARTITION and ROWOFFSET or not."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import streamkit as sk
from streamkit.log.consume.reader import read_placed
from streamkit.sql.pull import reading
from tests.kit.sampling import seeds

QUERIES = 12  # of a seed, over the same rows
STEP_MS = 1_000
TIMES = [1_600_000_000_000 + number * STEP_MS for number in range(60)]
WINDOWS = (
    "TUMBLING (SIZE 5 SECONDS, RETENTION {} SECONDS, GRACE PERIOD 0 SECONDS)",
    "HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS, RETENTION {} SECONDS, GRACE PERIOD 1 SECONDS)",
    "SESSION (1 SECONDS, RETENTION {} SECONDS, GRACE PERIOD 0 SECONDS)",
)
HAVING = ("", " HAVING COUNT(*) < 3", " HAVING COUNT(*) > 1", " HAVING SUM(V) <> 2", " HAVING MAX(V) IS NOT NULL")
RECORD_COLUMNS = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")


@pytest.fixture
def ksql(log):
    with sk.SqlSession(log, engine="local", settings={"streamkit.sql.dialect": "ksql"}) as session:
        session.execute("CREATE STREAM C (K STRING KEY, J INT, V INT) WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON', PARTITIONS=2)")
        yield session


@pytest.fixture
def insert(ksql):
    """Sends records of these keys, times and values, and waits until the tables have them."""

    def send(*records):
        texts = [f"INSERT INTO C (K, J, V, ROWTIME) VALUES ('{key}', 1, {value}, {time})" for key, time, value in records]
        ksql.execute("; ".join(texts))
        assert ksql.catch_up(60)

    return send


def counted(table, names):
    return Counter(tuple(repr(row[name]) for name in names) for row in table.to_pylist())


def with_records(chance, alias=""):
    """Some columns of the records, as items of SELECT."""
    chosen = chance.sample(RECORD_COLUMNS, chance.randint(1, 3))
    return "".join(f", {alias and alias + '.'}{name} AS {alias}_{name}" for name in chosen)


def asked(chance, names):
    """A query without columns of records, and the same one with some of them."""
    name, other = chance.choice(names), chance.choice(names)
    has_windows = name == "W"
    conditions = ["", "K = 'a'", "K IN ('a', '', 'z')", "N > 1", "S IS NULL", "K = 'b' AND N < 3"]
    conditions += [f"WINDOWSTART >= {TIMES[-20]}", f"K = 'a' AND WINDOWEND <= {TIMES[-3]}"] if has_windows else []
    where = chance.choice(conditions)
    items = "K, N, S" + (", WINDOWSTART AS WS" if has_windows else "")
    kind = chance.randrange(4)
    if kind == 0 and not has_windows and other != "W":
        items, rest = "a.K AS K, a.N AS N, b.S AS S", f" FROM {name} a JOIN {other} b ON a.K = b.K"
        return f"SELECT {items}{rest}", f"SELECT {items}{with_records(chance, 'a')}{with_records(chance, 'b')}{rest}"
    rest = f" FROM {name}{where and ' WHERE ' + where}"
    if kind == 1:
        return f"SELECT K, N FROM (SELECT {items}{rest}) z", f"SELECT K, N FROM (SELECT {items}{with_records(chance)}{rest}) z"
    if kind == 2:
        more = f"{where and where + ' AND '}(ROWTIME > 0 OR ROWOFFSET IS NULL)"
        return f"SELECT {items}{rest}", f"SELECT {items} FROM {name} WHERE {more}"
    return f"SELECT {items}{rest}", f"SELECT {items}{with_records(chance)}{rest}"


@pytest.mark.parametrize("seed", seeds(3))
def test_columns_of_records_leave_the_rows_as_they_are(seed, log, ksql, insert):
    """Windows with RETENTION, and tables with HAVING before and after OR REPLACE, by any key, in joins, in FROM, and as of a time."""
    chance = Random(seed)
    key_format, value_format = chance.choice(["JSON", "DELIMITED", "KAFKA"]), chance.choice(["JSON", "DELIMITED", "PROTOBUF"])
    made = f"WITH (KEY_FORMAT='{key_format}', VALUE_FORMAT='{value_format}') AS SELECT K, COUNT(*) AS N, SUM(V) AS S FROM C"
    window = chance.choice(WINDOWS).format(chance.choice([10, 20, 30]))
    before, after = chance.sample(HAVING, 2)
    ksql.execute(f"CREATE TABLE W {made} WINDOW {window} GROUP BY K{chance.choice(HAVING)}")
    ksql.execute(f"CREATE TABLE H {made} GROUP BY K{before}; CREATE TABLE G {made} GROUP BY K{chance.choice(HAVING)}")
    times = [chance.choice(TIMES[:20]), *sorted(chance.sample(TIMES, 12))]
    records = [(chance.choice(["a", "b", ""]), time, chance.choice([1, 2, "NULL"])) for time in times]
    for number in range(0, len(records), 7):
        insert(*records[number : number + 7])
    then = log.clock.now_ms()
    while log.clock.now_ms() <= then:
        pass
    ksql.execute(f"CREATE OR REPLACE TABLE H {made} GROUP BY K{after}")
    insert(
        *((chance.choice(["b", "c"]), TIMES[-1], 1) for _ in range(chance.randint(1, 3)))
    )  # with them the changed query has begun

    for _ in range(QUERIES):
        plain, beside = asked(chance, ["W", "W", "H", "G"])
        found, expected = ksql.query(beside), ksql.query(plain)
        assert counted(found, expected.column_names) == counted(expected, expected.column_names), (beside, window, before, after)
    for plain, beside in [("SELECT * FROM W", "SELECT *, ROWTIME FROM W"), ("SELECT * FROM G", "SELECT *, ROWOFFSET FROM G")]:
        found, expected = ksql.query(beside, as_of=then), ksql.query(plain, as_of=then)
        assert counted(found, expected.column_names) == counted(expected, expected.column_names)


def test_windows_behind_their_retention_stay_away(ksql, insert):
    """The topic has all windows, and the store those of the last 10 seconds; each has the columns of its own record."""
    made = "WITH (PARTITIONS=1) AS SELECT K, COUNT(*) AS N FROM C"
    ksql.execute(f"CREATE TABLE W {made} WINDOW {WINDOWS[0].format(10)} GROUP BY K")
    for times in (TIMES[:15:5], TIMES[15::5]):
        insert(*(("a", time, 1) for time in times))
    shown = [row["WS"] for row in ksql.query("SELECT WINDOWSTART AS WS FROM W").to_pylist()]
    found = ksql.query("SELECT WINDOWSTART AS WS, ROWTIME AS T, ROWOFFSET AS O FROM W WHERE ROWPARTITION >= 0").to_pylist()

    assert 0 < len(shown) < len(TIMES[::5])
    assert [row["WS"] for row in found] == [row["T"] for row in found] == shown
    assert [row["O"] for row in found] == [number for number, time in enumerate(TIMES[::5]) if time in shown]


def test_rows_that_having_has_left_in_the_topic_stay_away(ksql, insert):
    """A key that the former HAVING let through, and the new one does not, has no row, and one that the topic has no record of has no ROWTIME."""
    query = "TABLE H AS SELECT K, COUNT(*) AS N FROM C GROUP BY K HAVING COUNT(*) < {}"
    ksql.execute(f"CREATE {query.format(3)}")
    insert(("a", TIMES[0], 1), ("a", TIMES[1], 1), ("b", TIMES[2], 1), ("c", TIMES[3], 1))
    insert(*[("c", TIMES[4], 1)] * 2)
    ksql.execute(f"CREATE OR REPLACE {query.format(2)}")
    insert(("d", TIMES[5], 1), ("d", TIMES[5], 1))  # with them the changed query has begun
    assert ksql.query("SELECT *, ROWTIME FROM H").to_pylist() == [{"K": "b", "N": 1, "ROWTIME": TIMES[2]}]
    assert ksql.query("SELECT N, ROWOFFSET FROM H WHERE K = 'a'").to_pylist() == []

    ksql.execute(f"CREATE OR REPLACE {query.format(9)}")
    insert(("d", TIMES[6], 1))
    assert sorted(tuple(row.values()) for row in ksql.query("SELECT *, ROWTIME FROM H WHERE K <> 'a'").to_pylist()) == [
        ("b", 1, TIMES[2]),
        ("c", 3, None),
        ("d", 3, TIMES[6]),
    ]


@pytest.mark.parametrize("key", ["K", "K, J"])
def test_values_are_those_of_the_store(log, ksql, insert, key):
    """Null is null in Protobuf, and what others write to the topic changes no row; only their records are the newest of a key."""
    ksql.execute(f"CREATE TABLE P WITH (FORMAT='PROTOBUF') AS SELECT {key}, MIN(V) AS S FROM C GROUP BY {key}")
    insert(("a", TIMES[0], "NULL"), ("b", TIMES[1], 2))
    rows = [{"K": "a", "S": None, "T": TIMES[0]}, {"K": "b", "S": 2, "T": TIMES[1]}]
    assert sorted(ksql.query("SELECT K, S, ROWTIME AS T FROM P").to_pylist(), key=str) == rows

    sent = sorted(log.read("P").to_pylist(), key=lambda row: row["key"])
    with log.producer() as producer:
        producer.send("P", {"key": sent[0]["key"], "value": b"\xff\xff", "_timestamp": TIMES[5]})
        producer.send("P", {"key": b"\xff", "value": sent[0]["value"], "_timestamp": TIMES[5]})
        producer.send("P", {"key": sent[0]["key"], "value": sent[1]["value"], "_timestamp": TIMES[6]})
    found = ksql.query("SELECT K, S, ROWTIME AS T FROM P").to_pylist()
    assert sorted((row["K"], row["S"]) for row in found if row["S"]) == [("b", 2)]
    assert TIMES[6] in [row["T"] for row in found] and TIMES[5] not in [row["T"] for row in found]


def test_a_key_is_looked_up(ksql, insert, monkeypatch):
    """The store is not scanned, and the topic is read as far as it is new."""
    ksql.execute("CREATE TABLE G AS SELECT K, COUNT(*) AS N FROM C GROUP BY K")
    insert(*((f"k{number}", TIMES[number], 1) for number in range(5)))
    text = "SELECT N, ROWTIME AS T FROM G WHERE K = 'k3'"
    assert "look-up of 1 key in the store" in ksql.explain(text) and "with the records of the topic G" in ksql.explain(text)
    assert ksql.query(text).to_pylist() == [{"N": 1, "T": TIMES[3]}]
    frames = []

    def read(*given):
        frames.append(given)
        return read_placed(*given)

    monkeypatch.setattr(reading, "read_placed", read)
    assert ksql.query(text).to_pylist() == [{"N": 1, "T": TIMES[3]}] and not frames
    insert(("k3", TIMES[9], 1))
    assert ksql.query(text).to_pylist() == [{"N": 2, "T": TIMES[9]}] and len(frames) == 1


@pytest.mark.parametrize("commits", [1, 100])
def test_rows_and_their_records_are_of_one_moment(ksql, insert, monkeypatch, commits):
    """However often an epoch is committed while a query reads, a row that counts so many records has the place of just that result."""
    ksql.execute("CREATE TABLE G AS SELECT K, COUNT(*) AS N FROM C GROUP BY K")
    insert(("a", TIMES[0], 1))
    left, rows_of_store = [commits], reading._rows_of_store

    def later(*given):
        if left[0]:
            left[0] -= 1
            insert(("a", TIMES[0], 1))
        return rows_of_store(*given)

    monkeypatch.setattr(reading, "_rows_of_store", later)
    (row,) = ksql.query("SELECT N, ROWOFFSET AS O FROM G").to_pylist()
    assert row["N"] == row["O"] + 1
    assert left[0] == commits - min(commits, reading.ATTEMPTS + 1)
