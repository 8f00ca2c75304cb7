"""What the explanation of a topology shows."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import TopologyError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.log.opening import open_log


@pytest.fixture(scope="module")
def analyzer():
    return ExpressionAnalyzer()


@pytest.fixture(scope="module")
def log():
    log = open_log(":memory:")
    log.create_topic("flights", schema="carrier string, flight int, tailnum string, origin string", key=["carrier", "flight"])
    log.create_topic("planes", schema="tailnum string NOT NULL, year int", key="tailnum")
    return log


@pytest.fixture
def app():
    return sk.Topology("app")


def test_explain_says_where_a_stream_is_rekeyed(app, log, analyzer):
    """A computed key column and a join by other columns re-key a stream; a new name for the key, or a selection, does not."""
    stream = app.stream("flights").rename(carrier="airline").select("origin", "tailnum")
    stream.with_columns(airline=F.upper("airline")).join(app.table("planes"), on="tailnum").to("copy")

    lines = app.explain(log, analyzer).splitlines()

    rekeyed = [lines[place - 1].split(" ")[0] for place, line in enumerate(lines) if line.endswith(", re-keyed")]
    assert rekeyed == ["with_columns-flights", "join-flights-planes"]


def test_explain_shows_every_pass(app, log, analyzer):
    """The explanation names every pass, the kernels, the stores with their changelog topics, and the outputs."""
    table = (
        app.stream("flights")
        .group_by("origin")
        .windowed_by(sk.tumbling("1 day", grace="1 day"))
        .agg(n=F.count("*"), store="delays")
    )
    table.emit("final").to("daily")

    text = app.explain(log, analyzer)

    titles = [line.strip("= ") for line in text.splitlines() if line.startswith("== ")]
    assert titles == [
        "topology", "resolve_inputs", "name_steps", "infer_types", "fit_outputs", "assign_stages", "insert_exchanges",
        "push_partial_aggregation", "take_turns", "prune_columns", "program",
    ]  # fmt: skip
    assert "stage 1 (kernel)" in text
    assert "changelog app-delays-changelog" in text
    assert text == sk.explain(app, log, analyzer)


def test_program_is_shown_as_it_runs(app, log, analyzer):
    """The last section is the program: operators by stage with their inputs, exchanges, stores and outputs."""
    app.stream("flights").filter("flight > 100").group_by("origin").agg(n=F.count("*")).to("counts")

    shown = app.explain(log, analyzer).partition("== program ==\n")[2].splitlines()

    assert shown[:-1] == PROGRAM.splitlines()
    assert shown[-1].startswith("fingerprint ")


PROGRAM = """\
inputs
  0  stream flights (carrier string, flight int, tailnum string, origin string), key [carrier, flight]
stage 0 (readers)
  stream-flights  source: input 0, columns flight, origin
  filter-flights  filter: flight > 100  ← stream-flights
  aggregate-flights-by-origin:fold  fold: by origin: n = count(*): bigint  ← filter-flights
  aggregate-flights-by-origin:send  send: edge 0  ← aggregate-flights-by-origin:fold
stage 1 (kernel)
  aggregate-flights-by-origin:receive  receive: edge 0, folded  ← aggregate-flights-by-origin:send
  aggregate-flights-by-origin  aggregate: by origin, store flights-by-origin, emits latest: n = count(*): bigint  ← aggregate-flights-by-origin:receive
  emit-latest-flights-by-origin  emit: latest  ← aggregate-flights-by-origin#latest
  to-counts  write: output 0  ← emit-latest-flights-by-origin
exchanges
  0  stage 0 to 1 by [origin]: (origin string, n.count bigint NOT NULL)
stores
  flights-by-origin  stage 1: (origin string) to (n.count bigint NOT NULL), changelog app-flights-by-origin-changelog
outputs
  0  counts (origin string, n bigint NOT NULL), key [origin], compact, partitions as the widest input
"""


def test_an_output_that_does_not_fit_is_told_of(app, log, analyzer):
    """Everything is explained, and behind it why a start would be refused; an input that does not fit is an error."""
    if "narrow" not in log.topics():
        log.create_topic("narrow", schema="carrier string, flight int, missing int not null", key=["carrier", "flight"])
    app.stream("flights").select("carrier", "flight").to("narrow")
    text = app.explain(log, analyzer)
    assert "== program ==" in text
    refusal = text.partition("== a start would be refused ==\n")[2]
    assert refusal.startswith("the topic 'narrow' exists and does not fit: ")
    assert "test_explain.py" in refusal
    with pytest.raises(TopologyError, match="the topic 'narrow' exists and does not fit"):
        compile(app, log, analyzer)
    other = sk.Topology("other")
    other.stream("flights", schema="carrier int", key="carrier").to("copy")
    with pytest.raises(TopologyError):
        other.explain(log, analyzer)


def test_an_output_of_these_columns_is_explained(app, log, analyzer):
    """A topic that an earlier run has made fits."""
    if "same" not in log.topics():
        log.create_topic("same", schema="carrier string, flight int", key=["carrier", "flight"])
    app.stream("flights").select("carrier", "flight").to("same")
    assert "a start would be refused" not in app.explain(log, analyzer)
