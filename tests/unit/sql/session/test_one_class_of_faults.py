"""What is wrong with a query is told by one class of errors, which has faults, whichever call reads it."""

from __future__ import annotations

import pytest

from streamkit.errors import SqlError

WRONG = (
    "SELECT amuont FROM orders",
    "SELECT amount FROM ordres",
    "SELECT uper(amount) FROM orders",
    "SELECT sum(amount) FROM orders WHERE 1",
)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("dialect", ["spark", "ksql"])
def test_each_call_gives_the_same_faults(sql, wrong, dialect):
    """Query, explain, subscribe and execute tell the same fault of a text at the same place."""
    sql.execute(f"SET 'streamkit.sql.dialect' = '{dialect}'; CREATE STREAM orders (id INT KEY, amount DOUBLE)")
    changes = f"{wrong} EMIT CHANGES"
    once = (sql.execute, sql.query, sql.explain)
    found = {}
    for text, calls in ((wrong, once), (changes, (sql.execute, sql.subscribe, sql.explain))):
        for call in calls:
            with pytest.raises(SqlError) as caught:
                call(text)
            found[text, call.__name__] = [(fault.message, fault.at.line, fault.at.column) for fault in caught.value.faults]

    assert {len(one) for one in found.values()} == {1}
    assert found[wrong, "query"] == found[wrong, "execute"] == found[wrong, "explain"]
    assert found[changes, "subscribe"] == found[changes, "execute"] == found[changes, "explain"]
