"""Promises about the table join beside Kafka Streams, as far as they need no JVM."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from tests.bench.kafka import Kafka
from tests.bench.kafka_streams import PAYMENT, VARIANTS, Application, kafka_streams_rows, write_payments
from tests.bench.one_key import BEFORE_ALL
from tests.bench.rows import Rows
from tests.bench.table_join import FIRST_SECOND

JAVA = """#!/bin/sh
echo "rate 250.5"
echo "rows {rows}"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder that alone has programs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def never(name):
    raise AssertionError(f"{name} was measured")


def test_same_payments(tmp_path):
    """The file has the payments that our log has, users by their numbers, and all of them behind the table's rows."""
    rows = Rows(500, keys=20_000, batch_rows=200, first_second=FIRST_SECOND)
    write_payments(rows, tmp_path / "payments")
    payments = np.fromfile(tmp_path / "payments", PAYMENT)
    expected = [tuple(row.values()) for batch in rows.batches() for row in batch.to_pylist()]
    found = [(f"user{user:07d}", amount, BEFORE_ALL + dt.timedelta(microseconds=ts)) for user, amount, ts in payments.tolist()]
    assert found == expected
    assert payments["ts"].min() > 0


def test_absent(tmp_path, programs):
    """Without Java and Maven nothing is measured, and the row says what cannot be found."""
    (row,) = kafka_streams_rows(Rows(500), tmp_path, never)
    assert "java and javac and mvn cannot be found" in row.work
    assert row.ratio is None


def test_maven_fails(tmp_path, programs):
    """Where Maven gets no artifacts, nothing is measured, and the row says so."""
    for name in ("java", "javac", "mvn"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    (row,) = kafka_streams_rows(Rows(500), tmp_path, never)
    assert "cannot be had from Maven" in row.work


@pytest.mark.parametrize("rows", [500, 499, 501])
def test_lost_or_doubled_rows(tmp_path, programs, rows):
    """A rate counts only if as many rows came out as went in."""
    (programs / "java").write_text(JAVA.format(rows=rows))
    (programs / "java").chmod(0o755)
    application = Application(Kafka(tmp_path, "127.0.0.1:1"), tmp_path)
    if rows == 500:
        assert application.rate(VARIANTS[0], 500, "run") == 250.5
    else:
        with pytest.raises(AssertionError, match=f"{rows} of 500"):
            application.rate(VARIANTS[0], 500, "run")
