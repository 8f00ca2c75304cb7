"""
Random statements about queries while runners come and go: the results are those of the records, as if nobody had disturbed anything.

What is changed at a random moment is such that its results do not depend on the moment: a column more, a condition that says the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import streamkit as sk
from streamkit.sql.running.runner import QueryRunner
from streamkit.sql.session import SqlSession
from tests.unit.sql.running.conftest import CLICKS

pytestmark = pytest.mark.slow

TOTALS = "TABLE totals AS SELECT who, count(*) AS c"
LARGE = "STREAM large AS SELECT who, n FROM clicks WHERE"
CHANGES = (
    f"CREATE OR REPLACE {TOTALS}, max(n) AS m FROM clicks GROUP BY who",
    f"CREATE OR REPLACE {TOTALS}, max(n) AS m, min(n) AS least FROM clicks GROUP BY who",
    f"CREATE OR REPLACE {LARGE} n > 5 AND n < 1000",
    f"CREATE OR REPLACE {LARGE} NOT (n <= 5)",
    f"CREATE OR REPLACE {TOTALS}, max(n) AS m, min(n) AS least FROM clicks GROUP BY who".replace("totals AS", "totals WITH (BACKFILL = true) AS"),
    "PAUSE CTAS_TOTALS_1", "RESUME CTAS_TOTALS_1", "PAUSE ALL", "RESUME ALL", "RESUME CSAS_LARGE_2",
)  # fmt: skip
STEPS = 40


class Disturbed:
    """A log whose queries are disturbed: the records so far, and the runners there are."""

    def __init__(self, log: sk.Log, sql: SqlSession, seed: int) -> None:
        self.log, self.sql, self.random = log, sql, Random(seed)
        self.records: list[tuple[str, int]] = []
        self.runners: list[QueryRunner] = []

    def step(self) -> None:
        """Do something at random; a statement that is refused changes nothing."""
        match self.random.choice(["insert", "insert", "change", "change", "begin", "end", "again", "wait"]):
            case "insert":
                rows = [(self.random.choice("abc"), self.random.randrange(10)) for _ in range(self.random.randint(1, 20))]
                self.sql.execute(f"INSERT INTO clicks VALUES {', '.join(f'({who!r}, {str(n)!r}, {n})' for who, n in rows)}")
                self.records += rows
            case "change":
                self.change(self.random.choice(CHANGES))
            case "begin" if len(self.runners) < 2:
                self.runners.append(QueryRunner(self.log))
            case "end" if self.runners:
                self.runners.pop(self.random.randrange(len(self.runners))).close()
            case "again":  # from its beginning
                self.sql.execute(f"DROP STREAM large DELETE TOPIC; CREATE {LARGE} n > 5")
            case "wait":
                self.sql.catch_up(self.random.random() / 5)

    def change(self, text: str) -> None:
        try:
            self.sql.execute(text)
        except sk.errors.TopologyError as error:  # of a table that has more columns, and of a query that is gone
            assert "would lose" in str(error) or "there is no query" in str(error), error

    def end(self) -> None:
        """Let all come to its end, undisturbed."""
        self.sql.execute("RESUME ALL")
        if not self.runners:
            self.runners.append(QueryRunner(self.log))
        assert self.sql.catch_up(120)
        for runner in self.runners:
            runner.close()


@pytest.mark.parametrize("seed", range(4))
def test_nobody_sees_that_queries_were_disturbed(tmp_path, seed):
    """Counts are those of all records, and each record that passes a condition was passed once."""
    with sk.open_log(tmp_path / "log") as log, SqlSession(log) as sql:
        sql.execute(f"{CLICKS}; CREATE {TOTALS} FROM clicks GROUP BY who; CREATE {LARGE} n > 5")
        disturbed = Disturbed(log, sql, seed)
        for _ in range(STEPS):
            disturbed.step()
        disturbed.end()

        counts = {row["who"]: row["c"] for row in sql.query("SELECT who, c FROM totals").to_pylist()}
        assert counts == Counter(who for who, _ in disturbed.records)
        large = Counter((row["who"], row["n"]) for row in sql.query("SELECT who, n FROM large").to_pylist())
        assert large == Counter(record for record in disturbed.records if record[1] > 5)
        assert not [finding for finding in log.fsck(deep=True).findings if finding.severity == "error"]
