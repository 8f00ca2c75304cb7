"""A property that a statement does not have is a fault of the text, and nothing of the text is done."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError

DECLARED = "CREATE STREAM a (id INT KEY, v INT); CREATE STREAM b (id INT KEY, v INT)"
FIRST = "CREATE STREAM first (id INT KEY, v INT); "


@pytest.mark.parametrize("dialect", ["spark", "ksql"])
@pytest.mark.parametrize(
    ("statement", "message", "written"),
    [
        ("INSERT INTO b WITH (QUERYID = 'z') SELECT * FROM a", "no property QUERYID; there are QUERY_ID, APPLICATION; did you mean", "QUERYID = 'z'"),
        ("INSERT INTO b WITH (PARTITIONS = 7) SELECT * FROM a", "no property PARTITIONS; there are QUERY_ID, APPLICATION", "PARTITIONS = 7"),
        ("INSERT INTO b WITH (BACKFILL = true) SELECT * FROM a", "no property BACKFILL", "BACKFILL = true"),
        ("CREATE STREAM k WITH (BOGUS = 1) AS SELECT * FROM a", "TIMESTAMP_FORMAT, APPLICATION, BACKFILL", "BOGUS = 1"),
        ("ASSERT TOPIC t WITH (BOGUS = 1)", "no property BOGUS; there are PARTITIONS, REPLICAS", "BOGUS = 1"),
        ("ASSERT TOPIC t WITH (PARTITIONS = 'x')", "PARTITIONS is 'x'", "PARTITIONS = 'x'"),
        ("ASSERT STREAM first (id INT KEY, v INT) WITH (PARTITION = 1)", "no property PARTITION; .*did you mean PARTITIONS", "PARTITION = 1"),
        ("ASSERT STREAM first (id INT KEY, v INT) WITH (BACKFILL = true)", "no property BACKFILL", "BACKFILL = true"),
        ("CREATE STREAM k (id INT) WITH (KAFKA_TOPIC = 'a b')", "'a b' cannot be the name of a topic", "KAFKA_TOPIC = 'a b'"),
        ("CREATE STREAM k (id INT) WITH (CLEANUP_POLICY = 'compct')", "CLEANUP_POLICY is 'compct'", "CLEANUP_POLICY = 'compct'"),
    ],
)  # fmt: skip
def test_nothing_is_done_before_it_is_named(log, sql, dialect, statement, message, written):
    """The carets are below the property, and the statement before leaves nothing."""
    sql.execute(f"{DECLARED}; SET 'streamkit.sql.dialect' = '{dialect}'")
    before = log.topics()

    with pytest.raises(SqlError, match=message) as caught:
        sql.execute(FIRST + statement)

    carets = str(caught.value).splitlines()[-1]
    assert carets.strip() == "^" * len(written)
    assert str(caught.value).splitlines()[-2][carets.index("^") :].startswith(written)
    assert log.topics() == before
    assert sql.queries().num_rows == 0


def test_ids_and_applications_of_inserts_stay(sql):
    """What INSERT has, it accepts as before."""
    sql.execute(f"{DECLARED}; INSERT INTO b WITH (QUERY_ID = 'mine', APPLICATION = 'shop') SELECT * FROM a")
    assert sql.queries()["query"].to_pylist() == ["mine"]
