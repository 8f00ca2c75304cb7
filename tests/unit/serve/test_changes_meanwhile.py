"""Statements while another session drops or changes what they are about, at each moment between two looks into the catalog."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import StreamKitError
from streamkit.log.catalog.transactions import Transactions
from streamkit.serve.ksql_entities import KsqlEntities
from streamkit.sql.reader.script import read_script
from streamkit.sql.session import SqlSession

MADE = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (PARTITIONS = 1); CREATE TABLE t AS SELECT k, count(*) AS n FROM s GROUP BY k;"
    "INSERT INTO s VALUES ('a', 1)"
)
DROP_ALL = "DROP STREAM s CASCADE DELETE TOPIC"
CHANGED = "CREATE OR REPLACE TABLE t AS SELECT k, count(*) AS n, sum(v) AS w FROM s GROUP BY k"


class Interruption:
    """Executes a statement in another session, once, behind a reading transaction of a number."""

    def __init__(self, log, monkeypatch):
        self.log, self.reads, self.at, self.text = log, 0, 0, ""
        read = Transactions.read

        def interrupted(transactions, work):
            found = read(transactions, work)
            self.reads += 1
            if self.reads == self.at:
                with SqlSession(self.log) as other:
                    other.execute(self.text)
            return found

        monkeypatch.setattr(Transactions, "read", interrupted)

    def begin(self, at, text):
        """From now on, behind so many transactions."""
        self.reads, self.at, self.text = 0, at, text


def outcomes(monkeypatch, statement, meanwhile):
    """What a statement gives, and the objects of ksqlDB's REST API, with the change at each of the moments there are."""
    for at in range(1, 1000):
        with sk.open_log(":memory:") as log, SqlSession(log) as sql, monkeypatch.context() as patch:
            sql.execute(MADE)
            sk.run(sql.topology("CTAS_T_1"), log=log, engine="local", tasks=1, trigger="available_now").wait()
            interruption = Interruption(log, patch)
            interruption.begin(at, meanwhile)
            found: list[object] = []
            try:
                results = sql.execute(statement)
                found.append((KsqlEntities(log, sql).of(read_script(statement), results), results))
            except StreamKitError as error:
                found.append(error)
            if interruption.reads < at:  # it came behind the last look
                return
            yield found[0]


@pytest.mark.parametrize("statement", ["DESCRIBE s", "DESCRIBE t EXTENDED"])
def test_what_is_described_is_there_or_not(monkeypatch, statement):
    """The answer describes the object as it was, or says that there is none of that name; it never fails in between."""
    found = list(outcomes(monkeypatch, statement, DROP_ALL))
    told = [one for one in found if not isinstance(one, StreamKitError)]
    for (entity,), (result,) in told:
        assert entity["sourceDescription"]["name"] == statement.split()[1] == result.source.name
    assert told and len(told) < len(found)
    assert {str(one).partition("\n")[0] for one in found if isinstance(one, StreamKitError)} == {
        f"there is no stream, table or topic {statement.split()[1]!r}"
    }


@pytest.mark.parametrize("statement", ["SHOW ALL TOPICS EXTENDED", "SHOW TABLES EXTENDED", "SHOW QUERIES EXTENDED"])
def test_a_list_of_what_there_is_names_nothing(monkeypatch, statement):
    """So what is dropped meanwhile makes none of it fail."""
    found = list(outcomes(monkeypatch, statement, DROP_ALL))
    assert found and not [one for one in found if isinstance(one, StreamKitError)]


def test_a_table_whose_query_ends_meanwhile_is_read(monkeypatch):
    """The table stays, in its topic, so a query that is run once has its rows at each moment."""
    found = list(outcomes(monkeypatch, "SELECT k, n FROM t", "TERMINATE ALL"))
    assert found and all(results[0].table.to_pylist() == [{"k": "a", "n": 1}] for _, results in found)


def test_explain_of_a_table_whose_query_ends_meanwhile(monkeypatch):
    """It says how the rows are found: in the store while there is one, else in the topic."""
    found = list(outcomes(monkeypatch, "EXPLAIN SELECT k, n FROM t", "TERMINATE ALL"))
    lines = ["".join(results[0].table["plan"].to_pylist()) for _, results in found]
    assert any("the store" in one for one in lines) and any("the topic t" in one for one in lines)
    assert len(lines) == len(found)


@pytest.mark.parametrize("statement", ["ALTER STREAM s ADD COLUMN w INT", CHANGED])
def test_a_change_is_compared_with_what_is_there(monkeypatch, statement):
    """The application that it is compared with may end meanwhile: then it is checked again without."""
    found = list(outcomes(monkeypatch, statement, "TERMINATE ALL"))
    refused = {str(one) for one in found if isinstance(one, StreamKitError)}
    assert len(found) > 3 and all("no query fills t" in one for one in refused)
    assert statement == CHANGED or not refused
