"""What fails inside of an expression is the same null in a query that is kept, is run once, goes on, or is driven record by record."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit.testing import TopologyTestDriver

VALUES = ("7", "x", None, "12")
SELECTED = (
    "COALESCE(CAST(v AS INT), 5) AS a, CAST(v AS INT) IS NULL AS b, CONCAT('a', FROM_BYTES(TO_BYTES(v, 'hex'), 'utf8')) AS c, "
    "TRANSFORM(ARRAY[v, '1'], x => CAST(x AS INT)) AS d, CAST(v AS INT) + 1 AS e, "
    "COALESCE(ARRAY[3, 4][CAST(v AS INT)], 0) AS f, FROM_DAYS(3) IN (v, '1970-01-04') AS g, STRINGTODATE(v, 'yyyy') IS NULL AS h"
)
CONDITIONS = ("", " WHERE NOT (CAST(v AS INT) = 12)", " WHERE COALESCE(CAST(v AS INT), 1) < 9")


def without_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name.upper(): value for name, value in row.items() if name.upper() in "ABCDEFGH"} for row in rows]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_route_has_the_same_nulls(condition: str) -> None:
    """In the columns as in the condition, which does not hold for the row in which a part of it fails."""
    query = f"SELECT k, {SELECTED} FROM s{condition}"
    with sk.open_log(":memory:") as log, sk.SqlSession(log, settings={"streamkit.sql.dialect": "ksql"}, engine="local") as sql:
        sql.execute(
            "CREATE STREAM s (k INT KEY, v STRING) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON', PARTITIONS = 1);"
            f"CREATE STREAM o AS {query};"
        )
        driver = TopologyTestDriver(sql.topology("CSAS_O_1"), log=log, batching="one")
        with sql.subscribe(f"{query} EMIT CHANGES LIMIT {2 if condition else 4};") as going_on:
            for number, value in enumerate(VALUES):
                sql.execute(f"INSERT INTO s VALUES ({number}, {'NULL' if value is None else repr(value)});")
                json = b'{"V": null}' if value is None else b'{"V": "%s"}' % value.encode()
                driver.pipe("s", {"key": number.to_bytes(4, "big"), "value": json, "_timestamp": 0})
            pushed = [row for batch in going_on for row in batch.to_pylist()]
        assert sql.catch_up(60)
        kept = sql.query("SELECT * FROM o;").to_pylist()
        once = sql.query(f"{query};").to_pylist()
        driven = driver.read_arrow("O").num_rows
        driver.close()
    assert without_key(kept) == without_key(once) == without_key(pushed)
    assert driven == len(kept)
    wanted = [
        {"A": 7, "B": False, "C": "a", "D": [7, 1], "E": 8, "F": 0, "G": True, "H": None},
        {"A": 5, "B": True, "C": "a", "D": [None, 1], "E": None, "F": None, "G": True, "H": None},
        {"A": 5, "B": True, "C": "a", "D": [None, 1], "E": None, "F": None, "G": True, "H": None},
        {"A": 12, "B": False, "C": "a\x12", "D": [12, 1], "E": 13, "F": 0, "G": True, "H": None},
    ]
    assert (
        without_key(kept) == {"": wanted, CONDITIONS[1]: [wanted[0], wanted[2]], CONDITIONS[2]: [wanted[0], wanted[2]]}[condition]
    )
