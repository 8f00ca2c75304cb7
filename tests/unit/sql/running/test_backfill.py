"""WITH (BACKFILL = true): a changed query is built beside the one there is, of all records, and takes its place at once."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.input_lag import input_partitions
from streamkit.log.opening import open_log
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.running import keeper as keeping
from streamkit.sql.running.swapping import swap_when_ready
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until
from tests.unit.sql.running.conftest import CLICKS, TOTALS

SOME = "INSERT INTO clicks VALUES ('ann', 'a', 1), ('bob', 'b', 2), ('ann', 'b', 3)"
CHANGED = (
    "CREATE OR REPLACE TABLE totals WITH (BACKFILL = true) AS SELECT page, count(*) AS c, sum(n) AS s FROM clicks GROUP BY page"
)


def is_swapped(log):
    (query,) = log.catalog.sql.objects().queries
    return query.version == 2 and query.text == CHANGED


def has_read_all(log):
    """Whether both applications, the one there is and the one that is built beside it, have read what there is."""
    states = log.catalog.applications.every()
    return len(states) == 2 and not any(one.lag for state in states for one in input_partitions(log, state))


def test_results_of_all_records(log, sql, rows, runner):
    """The new query may have another key; its results are of all records, under the name of the table, and go on."""
    told: list[object] = []
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    before = runner()
    assert sql.catch_up(60)
    before.close()
    (result,) = sql.execute(CHANGED)
    assert "is built beside it as sql-CTAS_TOTALS_1-2, from the beginning of its topics" in result.message
    assert rows("SELECT * FROM totals") == [("ann", 2), ("bob", 1)]
    assert [name for name in log.topics() if "totals" in name] == ["totals", "totals-2"]
    runner(told)
    wait_until(lambda: is_swapped(log))
    sql.execute("INSERT INTO clicks VALUES ('eve', 'b', 10)")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("a", 1, 1), ("b", 3, 15)]
    assert sorted(set(map(tuple, (row.values() for row in log.read("totals").select(["page", "c", "s"]).to_pylist())))) == [
        ("a", 1, 1), ("b", 2, 5), ("b", 3, 15),
    ]  # fmt: skip
    assert log.topics() == ["clicks", "totals"]
    assert [one.name for one in log.catalog.applications.every()] == ["sql-CTAS_TOTALS_1-2"]
    assert "CTAS_TOTALS_1, version 1: RUNNING, what is built beside it" in map(str, told)
    assert str(told[-1]) == "CTAS_TOTALS_1, version 2: RUNNING"
    assert log.fsck(deep=True).is_clean


def test_who_catches_up_waits_for_the_swap(log, sql, rows, runner):
    """Behind `catch_up` the table has the results of what was built, and nobody has to ask the catalog."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    assert sql.catch_up(60)
    sql.execute(CHANGED)
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("a", 1, 1), ("b", 2, 5)]


def test_a_changed_window_names_the_way_of_sql_first(sql, runner):
    """A change that the state of a query refuses is told with what SQL can do, and then what a start says."""
    runner()
    windowed = "TABLE per AS SELECT who, count(*) AS c FROM clicks WINDOW SESSION ({}) GROUP BY who"
    sql.execute(f"{CLICKS}; CREATE {windowed.format('30 MINUTES')}; {SOME}")
    assert sql.catch_up(60)
    with pytest.raises(
        SqlError, match=r"so, since what it keeps would not fit; WITH \(BACKFILL = true\) behind its name .*DROP"
    ) as caught:
        sql.execute(f"CREATE OR REPLACE {windowed.format('10 MINUTES')}")
    message = caught.value.faults[0].message
    assert message.index("BACKFILL") < message.index("drop_store")
    sql.execute(f"CREATE OR REPLACE {windowed.format('10 MINUTES')}".replace(" AS SELECT", " WITH (BACKFILL = true) AS SELECT"))
    assert sql.catch_up(60)


def test_a_change_that_is_refused_otherwise(log, sql, rows, runner):
    """A change that a start would refuse is possible so, and the next change keeps the state of what was built."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    assert sql.catch_up(60)
    with pytest.raises(SqlError, match="the key of totals is who; found page"):
        sql.execute(CHANGED.replace("WITH (BACKFILL = true) ", ""))
    sql.execute(CHANGED)
    wait_until(lambda: is_swapped(log))
    sql.execute(
        "CREATE OR REPLACE TABLE totals AS SELECT page, count(*) AS c, sum(n) AS s, max(n) AS m FROM clicks GROUP BY page"
    )
    sql.execute("INSERT INTO clicks VALUES ('eve', 'b', 10)")
    assert sql.catch_up(60)

    assert rows("SELECT page, c, s FROM totals") == [("a", 1, 1), ("b", 3, 15)]


def test_records_that_come_meanwhile(log, sql, rows, runner):
    """While it is built the former query goes on, and nothing is lost or doubled, however records come."""
    runner()
    sql.execute(f"{CLICKS}; CREATE STREAM large AS SELECT who, n FROM clicks WHERE n > 2; {SOME}")
    sql.execute("CREATE OR REPLACE STREAM large WITH (BACKFILL = true) AS SELECT who, n, page FROM clicks WHERE n > 1")
    for number in range(10, 30):
        sql.execute(f"INSERT INTO clicks VALUES ('x', 'p', {number})")
    wait_until(lambda: log.topics() == ["clicks", "large"])
    sql.execute("INSERT INTO clicks VALUES ('x', 'p', 30)")
    assert sql.catch_up(60)

    assert rows("SELECT n FROM large") == [(n,) for n in (2, 3, *range(10, 31))]


@pytest.mark.parametrize(
    "statement",
    [
        "TERMINATE ALL",
        "DROP TABLE totals",
        "CREATE OR REPLACE TABLE totals AS SELECT who, count(n) AS c FROM clicks GROUP BY who",
    ],
)
def test_what_is_built_goes_with_the_query(log, sql, statement):
    """Whoever ends the query, or changes it again, ends what is built beside it, too, with its topic."""
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; {CHANGED}")
    sql.execute(statement)

    assert log.topics() == ["clicks", "totals"]
    assert not any("built" in query.settings for query in log.catalog.sql.objects().queries)


def test_pause_means_both(log, sql, runner, rows):
    """A paused query is not swapped; both go on when it is resumed."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; PAUSE ALL; {CHANGED}")
    assert "built beside it" in str(sql.execute("DESCRIBE totals EXTENDED")[0].table.to_pylist())
    assert log.topics() == ["clicks", "totals", "totals-2"]
    sql.execute("RESUME ALL")
    wait_until(lambda: log.topics() == ["clicks", "totals"])
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("a", 1, 1), ("b", 2, 5)]


@pytest.mark.parametrize("name", ["other", "results"])
def test_another_name_of_the_topic_is_not_swapped_either(log, sql, name):
    """A query that reads the topic by another declaration, or by its own name, is refused as well, and none begins while a changed one is built."""
    sql.execute(
        f"{CLICKS}; CREATE TABLE totals WITH (KAFKA_TOPIC = 'results') AS SELECT who, count(*) AS c FROM clicks GROUP BY who"
    )
    sql.execute("CREATE TABLE other WITH (KAFKA_TOPIC = 'results'); SET 'streamkit.sql.dialect' = 'spark'")
    more = f"CREATE TABLE more AS SELECT who, c + 1 AS d FROM {name}"
    changed = CHANGED.replace("true)", "true, KAFKA_TOPIC = 'results')")
    sql.execute(more)
    with pytest.raises(SqlError, match=f"CTAS_MORE_2 read {name}, whose records would be others all at once"):
        sql.execute(changed)
    sql.execute("TERMINATE CTAS_MORE_2; DROP TABLE more")
    sql.execute(changed)
    with pytest.raises(SqlError, match=f"{name} gets all its records again"):
        sql.execute(more)


@pytest.mark.parametrize("format", ["DELIMITED", "PROTOBUF", "AVRO", "JSON"])
def test_another_declaration_keeps_the_places_of_its_columns(log, sql, runner, format):
    """What is built has its columns in the places in which another declaration of the topic reads them, unless the format has names."""
    sql.execute("SET 'streamkit.sql.dialect' = 'ksql'")
    made = f"(k STRING KEY, v INT, n INT) WITH (KAFKA_TOPIC = '{{}}', VALUE_FORMAT = '{format}', PARTITIONS = 1)"
    sql.execute(f"CREATE STREAM s {made.format('s')}; CREATE STREAM r WITH (PARTITIONS = 1) AS SELECT k, v, n FROM s")
    sql.execute(f"CREATE STREAM d {made.format('R')}; INSERT INTO s (k, v, n) VALUES ('a', 1, 2)")
    runner()
    assert sql.catch_up(60)
    changed = "CREATE OR REPLACE STREAM r WITH (BACKFILL = true) AS SELECT k, n, v FROM s"
    if format in ("DELIMITED", "PROTOBUF"):
        with pytest.raises(
            SqlError, match=r"D has V INTEGER, N INTEGER, and would have N INTEGER, V INTEGER.*DROP STREAM D before"
        ):
            sql.execute(changed)
        return
    sql.execute(changed)
    wait_until(lambda: log.catalog.sql.objects().queries[0].version == 2)
    sql.execute("INSERT INTO s (k, v, n) VALUES ('b', 3, 4)")
    assert sql.catch_up(60)
    assert sql.execute("SELECT * FROM d")[0].table.to_pylist() == [{"K": "a", "V": 1, "N": 2}, {"K": "b", "V": 3, "N": 4}]


def test_what_is_refused(log, sql):
    """A query that others read is not swapped under them, and BACKFILL is true or false."""
    sql.execute(f"{CLICKS}; {TOTALS}; CREATE TABLE more AS SELECT who, c + 1 AS d FROM totals")
    with pytest.raises(SqlError, match="CTAS_MORE_2 read totals, whose records would be others all at once"):
        sql.execute(CHANGED)
    with pytest.raises(SqlError, match="BACKFILL is 'maybe'; expected true or false"):
        sql.execute(CHANGED.replace("true", "'maybe'"))
    sql.execute("CREATE OR REPLACE TABLE fresh WITH (BACKFILL = true) AS SELECT page, count(*) AS c FROM clicks GROUP BY page")
    assert log.topics() == ["clicks", "fresh", "more", "totals"]


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("name", ["fresh", "IF NOT EXISTS fresh", "IF NOT EXISTS totals"])
def test_backfill_belongs_to_or_replace(log, sql, name, value):
    """Elsewhere it is refused, as the page of its properties says, whether there is such a table or not."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    kept = log.catalog.sql.objects()

    with pytest.raises(
        SqlError, match=r"BACKFILL is about a changed query.*expected CREATE OR REPLACE TABLE \w+, or no BACKFILL"
    ):
        sql.execute(f"CREATE TABLE {name} WITH (BACKFILL = {value}) AS SELECT page, count(*) AS c FROM clicks GROUP BY page")
    assert log.catalog.sql.objects() == kept and log.topics() == ["clicks", "totals"]


@pytest.mark.parametrize("topic", ["another", "clicks", "TOTALS"])
def test_the_topic_stays(log, sql, topic):
    """A changed query fills the same topic, with BACKFILL as without; what names another one leaves nothing behind."""
    sql.execute(f"{CLICKS}; {TOTALS}")
    kept = log.catalog.sql.objects()
    for changed in (CHANGED, CHANGED.replace("BACKFILL = true", "BACKFILL = false")):
        changed = changed.replace("BACKFILL", f"KAFKA_TOPIC = '{topic}', BACKFILL")
        with pytest.raises(SqlError, match=f"totals is the topic totals; found {topic}: expected the same"):
            sql.execute(changed)
        assert log.catalog.sql.objects() == kept and log.topics() == ["clicks", "totals"]


def test_the_topic_may_be_named(log, sql, runner, rows):
    """The one that the table has already is no other topic, while the changed query is built and behind it."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; {CHANGED.replace('BACKFILL', 'KAFKA_TOPIC = {!r}, BACKFILL'.format('totals'))}")
    wait_until(lambda: log.topics() == ["clicks", "totals"])
    assert sql.catch_up(60)
    sql.execute("INSERT INTO clicks VALUES ('eve', 'b', 100)")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("a", 1, 1), ("b", 3, 105)]


def test_the_answer_says_whether_anything_is_built(sql):
    """A paused query waits for RESUME, and so does what is built beside it; another one goes on as it is."""
    (*_, answer) = sql.execute(f"{CLICKS}; {TOTALS}; {CHANGED}")
    assert answer.message.startswith(
        "Query CTAS_TOTALS_1 stays as it is, and the changed one is built beside it as sql-CTAS_TOTALS_1-2"
    )
    (*_, answer) = sql.execute(f"PAUSE ALL; {CHANGED}")
    assert answer.message.startswith(
        "Query CTAS_TOTALS_1 is paused, and the changed one too: RESUME CTAS_TOTALS_1 lets both run."
    )


def test_one_that_writes_too(sql):
    """The message about other queries of the stream counts them."""
    made = "STREAM large AS SELECT who, n FROM clicks WHERE n > 1"
    sql.execute(f"{CLICKS}; CREATE {made}; INSERT INTO large SELECT who, n FROM clicks")
    with pytest.raises(SqlError, match="INSERTQUERY_2 writes to large too"):
        sql.execute(f"CREATE OR REPLACE {made}")
    sql.execute("INSERT INTO large SELECT who, n + 1 AS n FROM clicks")
    with pytest.raises(SqlError, match="INSERTQUERY_2, INSERTQUERY_3 write to large too"):
        sql.execute(f"CREATE OR REPLACE {made}")


@pytest.mark.parametrize(
    "reader",
    [
        "CREATE TABLE more AS SELECT page, c + 1 AS d FROM totals",
        "CREATE TABLE more WITH (APPLICATION = 'own') AS SELECT page, c + 1 AS d FROM TOTALS",
        "CREATE OR REPLACE STREAM joined AS SELECT k.who AS who, t.c AS c FROM clicks k JOIN totals t ON k.who = t.who",
    ],
)
def test_no_query_begins_to_read_what_is_replaced_soon(log, sql, rows, runner, reader):
    """Its results would be made of the records of both topics, so it is refused until the new topic has its place; then it reads that."""
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; CREATE STREAM joined AS SELECT who, n AS c FROM clicks; {CHANGED}")
    with pytest.raises(SqlError, match="totals gets all its records again when sql-CTAS_TOTALS_1-3"):
        sql.execute(reader)
    with pytest.raises(SqlError, match="gets all its records again when sql-CTAS_TOTALS_1-3"):
        sql.execute("CREATE STREAM more AS SELECT who, c FROM joined; INSERT INTO joined SELECT who, c FROM totals")
    assert "more" not in log.topics()
    runner()
    assert sql.catch_up(60)
    sql.execute("CREATE TABLE more AS SELECT page, c + 1 AS d FROM totals")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM more") == [("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("second", "CREATE STREAM second WITH (KAFKA_TOPIC = 'results') AS SELECT who, n FROM others"),
        ("second", "CREATE OR REPLACE STREAM second WITH (KAFKA_TOPIC = 'results') AS SELECT who, n FROM others"),
        ("second", "CREATE STREAM second WITH (KAFKA_TOPIC = 'results', APPLICATION = 'own') AS SELECT who, n FROM others"),
        ("second", "CREATE TABLE second WITH (KAFKA_TOPIC = 'results') AS SELECT who, max(n) AS n FROM others GROUP BY who"),
        ("large", "INSERT INTO large SELECT who, n FROM others"),
        ("declared", "INSERT INTO declared SELECT who, n FROM others"),
        ("results", "INSERT INTO results SELECT who, n FROM others"),
    ],
)
def test_no_query_begins_to_write_what_is_replaced_soon(log, sql, rows, runner, name, writer):
    """What it writes would go with the former topic, so it is refused at its name by whatever statement, until the new topic has its place."""
    sql.execute(f"{CLICKS}; CREATE STREAM others (who STRING KEY, n INT); {SOME}")
    sql.execute("CREATE STREAM large WITH (KAFKA_TOPIC = 'results') AS SELECT who, n FROM clicks WHERE n > 2")
    sql.execute("CREATE STREAM declared WITH (KAFKA_TOPIC = 'results')")
    sql.execute(
        "CREATE OR REPLACE STREAM large WITH (KAFKA_TOPIC = 'results', BACKFILL = true) AS SELECT who, n FROM clicks WHERE n > 1"
    )
    kept = log.catalog.sql.objects()
    what = "the topic results" if name == "second" else name
    told = f"{what} gets all its records again when sql-CSAS_LARGE_1-2, which is built beside CSAS_LARGE_1, has read as much"
    with pytest.raises(SqlError, match=told) as caught:
        sql.execute(writer)
    (fault,) = caught.value.faults
    assert fault.at is not None and fault.at.column is not None
    assert writer[fault.at.column - 1 :].startswith(name)
    assert log.catalog.sql.objects() == kept
    runner()
    wait_until(lambda: "results-2" not in log.topics())
    sql.execute(f"{writer}; INSERT INTO others VALUES ('eve', 9)")
    assert sql.catch_up(60)
    assert rows("SELECT n FROM large") == [(2,), (3,), (9,)]


@pytest.mark.parametrize("is_written", [True, False])
def test_the_topic_of_what_is_built_belongs_to_it(log, sql, runner, rows, is_written):
    """It gets another name soon, so no query begins to write or read it."""
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; {CHANGED}; SET 'streamkit.sql.dialect' = 'spark'")
    topic = "" if not is_written else " WITH (KAFKA_TOPIC = 'totals-2')"
    source = "clicks" if is_written else "`totals-2`"
    with pytest.raises(SqlError, match="the topic totals-2 is called totals when sql-CTAS_TOTALS_1-2, which is built beside"):
        sql.execute(f"CREATE TABLE more{topic} AS SELECT page, count(*) AS c FROM {source} GROUP BY page")
    runner()
    assert sql.catch_up(60)
    assert rows("SELECT * FROM totals") == [("a", 1, 1), ("b", 2, 5)]


@pytest.mark.parametrize("is_paused", [True, False])
def test_nothing_is_built_beside_another_writer(log, sql, is_paused):
    """Nor beside a paused one, which would go on after RESUME."""
    sql.execute(f"{CLICKS}; CREATE STREAM large WITH (KAFKA_TOPIC = 'results') AS SELECT who, n FROM clicks")
    sql.execute("CREATE STREAM second WITH (KAFKA_TOPIC = 'results') AS SELECT who, n FROM clicks")
    if is_paused:
        sql.execute("PAUSE CSAS_SECOND_2")
    with pytest.raises(SqlError, match="CSAS_SECOND_2 writes to second, whose topic is that of large"):
        sql.execute("CREATE OR REPLACE STREAM large WITH (KAFKA_TOPIC = 'results', BACKFILL = true) AS SELECT who, n FROM clicks")
    assert "results-3" not in log.topics()


def test_another_condition_tells_that_rows_stay(log, sql, rows, runner):
    """A changed HAVING holds for what comes: the answer says that the topic keeps what was there, and how to have results of all records."""
    runner()
    sql.execute(f"{CLICKS}; {TOTALS}; {SOME}")
    assert sql.catch_up(60)
    (result,) = sql.execute(
        "CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c FROM clicks GROUP BY who HAVING count(*) > 1"
    )
    told = "rows that the former condition let through stay in the topic until their key has a new result; WITH (BACKFILL = true)"
    assert told in result.message
    assert sql.catch_up(60)
    assert rows("SELECT who FROM totals") == [("ann",)]
    assert {row["who"] for row in log.read("totals").to_pylist()} == {"ann", "bob"}
    (result,) = sql.execute(
        "CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who HAVING count(*) > 1"
    )
    assert told not in result.message


@pytest.mark.parametrize("point", ["sql.swapping", "sql.written", "journal.entered", "sql.swapped"])
def test_death_in_the_swap(tmp_path, point, monkeypatch):
    """Whoever dies in a swap has done nothing of it, or all; the next runner goes on."""
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(f"{CLICKS}; {TOTALS}; {SOME}; {CHANGED}")
        (query,) = log.catalog.sql.objects().queries
        built = built_beside(query)
        assert built is not None
        with monkeypatch.context() as patch:
            patch.setattr(keeping, "swap_when_ready", lambda log, built: False)  # it is swapped below
            with SqlSession(log, engine="local"):
                wait_until(lambda: has_read_all(log))
                wait_until(lambda: any(one.name == built.application and one.epoch for one in log.catalog.applications.every()))
        with pytest.raises(SimulatedCrash), armed(point, _die):
            while not swap_when_ready(log, built):
                pass
    with open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        assert is_swapped(log) == (point == "sql.swapped")
    with open_log(tmp_path / "log") as log, SqlSession(log, engine="local") as sql:
        wait_until(lambda: is_swapped(log))
        sql.execute("INSERT INTO clicks VALUES ('eve', 'b', 10)")
        assert sql.catch_up(60)
        found = sql.query("SELECT page, c, s FROM totals").to_pylist()
        assert sorted(tuple(row.values()) for row in found) == [("a", 1, 1), ("b", 3, 15)]
    with open_log(tmp_path / "log") as log:
        assert not [finding for finding in log.fsck(deep=True).findings if finding.severity == "error"]


def _die():
    raise SimulatedCrash
