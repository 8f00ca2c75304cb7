"""WITH (APPLICATION = 'name'): several queries of one text are one application."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError
from streamkit.sql.session import SqlSession
from tests.kit.waiting import wait_until
from tests.unit.sql.running.conftest import CLICKS

SHOP = f"""
{CLICKS};
CREATE STREAM large WITH (APPLICATION = 'shop') AS SELECT who, n FROM clicks WHERE n > 1;
CREATE TABLE totals WITH (APPLICATION = 'shop') AS SELECT who, sum(n) AS s FROM large GROUP BY who;
INSERT INTO large WITH (APPLICATION = 'shop', QUERY_ID = 'more') SELECT who, n + 100 AS n FROM clicks WHERE n = 1;
"""


def test_they_run_as_one(log, sql, rows, runner, states):
    """There is one application, which writes what each query says; the chain between them commits together."""
    runner()
    sql.execute(SHOP)
    sql.execute("INSERT INTO clicks VALUES ('ann', 'a', 1), ('ann', 'a', 2), ('bob', 'a', 3)")
    assert sql.catch_up(60)

    assert rows("SELECT * FROM totals") == [("ann", 103), ("bob", 3)]
    assert rows("SELECT who, n FROM large") == [("ann", 2), ("ann", 101), ("bob", 3)]
    assert [one.name for one in log.catalog.applications.every()] == ["sql-shop"]
    assert states() == dict.fromkeys(("CSAS_LARGE_1", "CTAS_TOTALS_2", "more"), "RUNNING")
    assert set(sql.queries()["application"].to_pylist()) == {"sql-shop"}
    assert log.fsck(deep=True).is_clean


def test_they_are_paused_and_end_together(log, sql, rows, runner, states):
    """PAUSE, RESUME and TERMINATE of one mean all of its application."""
    told: list[object] = []
    runner(told)
    sql.execute(SHOP)
    message = sql.execute("PAUSE more")[0].message
    assert message == "Query CSAS_LARGE_1 is paused. Query CTAS_TOTALS_2 is paused. Query more is paused."
    sql.execute("INSERT INTO clicks VALUES ('ann', 'a', 5)")
    assert set(states().values()) == {"PAUSED"}
    sql.execute("RESUME CTAS_TOTALS_2")
    assert sql.catch_up(60)
    assert rows("SELECT * FROM totals") == [("ann", 5)]
    sql.execute("TERMINATE CSAS_LARGE_1")
    wait_until(lambda: sum("TERMINATED" in str(one) for one in told) == 3)
    assert (states(), log.catalog.applications.every()) == ({}, [])
    sql.execute("DROP TABLE totals DELETE TOPIC; DROP STREAM large DELETE TOPIC")
    sql.execute(SHOP.replace(f"{CLICKS};", ""))
    assert sql.catch_up(60)
    assert rows("SELECT * FROM totals") == [("ann", 5)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE STREAM x WITH (APPLICATION = 'shop') AS SELECT who FROM clicks",
            "there is an application sql-shop already, with CSAS_LARGE_1",
        ),
        (
            "CREATE OR REPLACE TABLE totals AS SELECT who, count(*) AS s FROM large GROUP BY who",
            "CTAS_TOTALS_2 shares the application sql-shop with CSAS_LARGE_1, more",
        ),
        ("DROP TABLE totals", "CTAS_TOTALS_2, which fills totals, shares the application sql-shop with CSAS_LARGE_1, more"),
        (
            "CREATE STREAM x WITH (APPLICATION = 'a b') AS SELECT who FROM clicks",
            "APPLICATION is 'a b': its character 2 is U+0020 SPACE; expected a text of at most 249 letters",
        ),
        (
            f"CREATE STREAM x WITH (APPLICATION = '{'x' * 250}') AS SELECT who FROM clicks",
            "it has 250 characters; expected a text of at most 249 letters",
        ),
        (
            (
                "CREATE STREAM x WITH (APPLICATION = 'y') AS SELECT who FROM clicks; SET 'streamkit.time.zone' = 'Europe/Berlin';"
                "CREATE STREAM z WITH (APPLICATION = 'y') AS SELECT who FROM clicks"
            ),
            "is of the same application, and was made under other settings",
        ),
        (
            "CREATE STREAM alone AS SELECT who FROM clicks; CREATE OR REPLACE STREAM alone WITH (APPLICATION = 'y') AS SELECT who FROM clicks",
            "which stays; expected no APPLICATION",
        ),
    ],
)
def test_what_is_refused(sql, statement, message):
    """An application is made whole, in one text; what would change one query of it alone is an error that says what to do."""
    sql.execute(SHOP)
    before = sql.queries()
    with pytest.raises(SqlError) as caught:
        sql.execute(statement)
    assert message in str(caught.value)
    assert sql.queries().equals(before)


def test_another_application_of_the_name(log, sql):
    """A name that an application of the log has is refused."""
    sql.execute(f"{CLICKS}; CREATE STREAM x AS SELECT who FROM clicks")
    with pytest.raises(SqlError, match="there is an application sql-CSAS_X_1 already, with CSAS_X_1"):
        sql.execute("CREATE STREAM y WITH (APPLICATION = 'CSAS_X_1') AS SELECT who FROM clicks")


def test_the_topology_is_of_all(log, sql):
    """The topology of one query is that of its application, for tests and for EXPLAIN."""
    sql.execute(SHOP)
    assert {one.topic for one in sql.topology("more").outputs} == {"large", "totals"}
    assert sql.topology("more").name == "sql-shop"
    assert "totals" in sql.explain("CSAS_LARGE_1")
    with SqlSession(log) as other:
        assert other.execute("ALTER STREAM clicks ADD COLUMN m INT")[0].message.startswith("Stream clicks has m")
