"""Topics by hand: what is created, what fits, and that an epoch that fails leaves nothing behind."""

from __future__ import annotations

import itertools

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.start import start
from streamkit.errors import EvaluationError, TopologyError
from streamkit.log.log import Log
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, ran, stored, values

TOPICS = {"clicks": "user string, n bigint"}
BIGINT_MAX = 2**63 - 1
CLICKS = {"clicks": [{"user": user, "n": n, "ts": n} for n, user in enumerate("abcab")]}


def per_user() -> sk.Topology:
    app = sk.Topology("clicks-per-user")
    window = sk.tumbling("10 ms", grace="0 ms")
    table = app.stream("clicks").group_by("user", odd=F.col("n") % 2 == 1).windowed_by(window).agg(n=F.count("*"), store="counts")
    for mode in ("latest", "every", "final"):
        table.emit(mode).to(mode)
    app.stream("clicks").to("copy", partitions=2)
    return app


def test_created_topics() -> None:
    """Created topics have the result's key and window, are partitioned by the group alone, and only newest results are compacted."""
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=5)
        execute(log, compile(per_user(), log), Run())
        for mode, policy in [("latest", "compact"), ("every", "delete"), ("final", "delete")]:
            topic = log.topic(mode)
            assert str(topic.schema) == (
                "user string, odd boolean, window_start timestamp NOT NULL, window_end timestamp NOT NULL, n bigint NOT NULL"
            )
            assert topic.key == ("user", "odd", "window_start", "window_end")
            assert topic.partition_by == ("user", "odd")
            assert (topic.partitions, topic.setting("cleanup.policy")) == (5, policy)
        assert (log.topic("copy").key, log.topic("copy").partitions) == (("user",), 2)
        assert log.topic("copy").setting("cleanup.policy") == "delete"


def test_an_existing_topic_that_fits_is_written() -> None:
    """A topic with the same columns in another order, its own partitions and its own settings is taken as it is."""
    app = sk.Topology("copying")
    app.stream("clicks").with_columns(twice=F.col("n") * 2).to("out")
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        log.create_topic(
            "out", "twice bigint, user string, n bigint", key="user", partitions=3, config={"cleanup.policy": "compact"}
        )
        append(log, "clicks", CLICKS["clicks"])
        execute(log, compile(app, log), Run())
        assert sorted(values(log, "out", "user", "n", "twice")) == [
            ("a", 0, 0),
            ("a", 3, 6),
            ("b", 1, 2),
            ("b", 4, 8),
            ("c", 2, 4),
        ]
        assert log.topic("out").partitions == 3


def test_a_key_whose_part_that_places_it_is_null_has_one_partition() -> None:
    """An application puts rows of one key where a producer puts them, also where only other columns of the key have a value."""
    app = sk.Topology("copying")
    app.stream("clicks").to("out")
    with fresh_log() as log:
        for name, partitions in (("clicks", 1), ("out", 4)):
            log.create_topic(name, "user string, n int, v int", ["user", "n"], None, partitions, partition_by="user")
        log.create_topic("sent", "user string, n int, v int", ["user", "n"], None, 4, partition_by="user")
        with log.producer() as producer:
            for name, v in itertools.product(("clicks", "sent"), range(6)):
                producer.send(name, {"user": None, "n": 1, "v": v})
                producer.flush()
        execute(log, compile(app, log), Run(tasks=3))
        assert log.read("out")["v"].to_pylist() == list(range(6))
        places = [set(log.read(name)["_partition"].to_pylist()) for name in ("out", "sent")]
        assert places[0] == places[1] and len(places[0]) == 1


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("user string, n int", "user"),
        ("user string", "user"),
        ("user string, n bigint, more int not null", "user"),
        ("user string, n bigint", "n"),
    ],
)
def test_an_existing_topic_that_does_not_fit_is_refused(schema: str, key: str) -> None:
    """Other types, missing or additional columns, or another key are errors before anything runs, with both schemas and the user's line."""
    app = sk.Topology("copying")
    app.stream("clicks").to("out")
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        log.create_topic("out", schema, key=key, partitions=1)
        with pytest.raises(
            TopologyError, match=r"'out' exists and does not fit(.|\n)*user string, n bigint(.|\n)*at .*test_semantics_topics.py:"
        ):
            compile(app, log)


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_topic_without_records_gives_nothing(partitions: int) -> None:
    """Over empty topics there is no epoch, not even to drain, and the results exist and are empty."""
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=partitions)
        assert execute(log, compile(per_user(), log), Run(tasks=3)) == []
        assert values(log, "final", "n") == []
        assert stored(log, "clicks-per-user", "counts") == []


def test_one_record_among_many_partitions() -> None:
    """Partitions without records hold nothing up."""
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=50)
        append(log, "clicks", CLICKS["clicks"][:1])
        execute(log, compile(per_user(), log), Run(tasks=7, splits=3))
        assert values(log, "final", "user", "odd", "n") == [("a", False, 1)]


def test_no_store_no_window_no_key() -> None:
    """A topology without state over a topic without a key runs, and a drain has nothing to close."""
    app = sk.Topology("plain")
    app.stream("lines").filter("line <> ''").to("kept")
    with fresh_log() as log:
        log.create_topic("lines", "line string", partitions=2)
        append(log, "lines", [{"line": line, "ts": ts} for ts, line in enumerate(["x", "", "y", "z"])])
        assert len(execute(log, compile(app, log), Run(tasks=2, records_max=3))) == 2
        assert sorted(values(log, "kept", "line")) == [("x",), ("y",), ("z",)]


def failing(log: Log, app: sk.Topology, message: str) -> None:
    """The first epoch commits, the second raises again and again, and nothing of it is visible."""
    planner = start(log.catalog, log.storage, compile(app, log), tasks=2, records_max=2)
    assert run_next(planner) is not None
    before = (log.catalog.applications.get(app.name), {name: log.end_offsets(name) for name in log.topics(internal=True)})
    for _ in range(2):
        with pytest.raises(EvaluationError, match=message):
            run_next(planner)
    assert before == (log.catalog.applications.get(app.name), {name: log.end_offsets(name) for name in log.topics(internal=True)})


@pytest.mark.parametrize("records_max", [1, 2, None])
def test_a_newest_sum_that_does_not_fit_is_null_and_counted(records_max: int | None) -> None:
    """Which sums are the newest of an epoch depends on the cut; so one out of range fails nothing, and the last is the same whatever the cut."""
    app = sk.Topology("summing")
    app.stream("clicks").group_by_key().agg(total=F.sum("n"), store="sums").emit("latest").to("out")
    rows = {"clicks": [{"user": "a", "n": n, "ts": ts} for ts, n in enumerate([BIGINT_MAX, 1, 1, -2])]}
    with ran(app, TOPICS, rows, Run(records_max=records_max)) as log:
        totals = [total for (total,) in values(log, "out", "total")]
        assert totals == {1: [BIGINT_MAX, None, None, BIGINT_MAX], 2: [None, BIGINT_MAX], None: [BIGINT_MAX]}[records_max]
        assert metric(log, "summing", "overflow") == totals.count(None)
        assert [row["total"] for row in stored(log, "summing", "sums")] == [BIGINT_MAX]


@pytest.mark.parametrize("mode", ["every", "final"])
def test_a_sum_that_does_not_fit_commits_nothing(mode: str) -> None:
    """A sum past the largest bigint is an EvaluationError where it is a result: of a record, or of a window that closes."""
    app = sk.Topology("summing")
    window = sk.tumbling("1 hour", grace="0 ms")
    app.stream("clicks").group_by_key().windowed_by(window).agg(total=F.sum("n"), store="sums").emit(mode).to("out")
    rows = [{"user": "a", "n": n, "ts": ts} for ts, n in enumerate([BIGINT_MAX - 1, 1, 1])]
    rows.append({"user": "a", "n": 0, "ts": 3_600_000})
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        append(log, "clicks", rows)
        failing(log, app, "bigint")
        assert [row["total"] for row in stored(log, "summing", "sums")] == [BIGINT_MAX]


@pytest.mark.parametrize("verb", ["filter", "select", "group_by", "agg"])
def test_a_division_by_zero_commits_nothing(verb: str) -> None:
    """A division by zero is an EvaluationError that shows the expression, whatever verb it is in."""
    app = sk.Topology("dividing")
    share = F.lit(12) / F.col("n")
    clicks = app.stream("clicks")
    {
        "filter": lambda: clicks.filter(share > 1).to("out"),
        "select": lambda: clicks.select(share=share).to("out"),
        "group_by": lambda: clicks.group_by(share=share).count().to("out"),
        "agg": lambda: clicks.group_by_key().agg(share=F.sum(share)).to("out"),
    }[verb]()
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        append(log, "clicks", [{"user": "a", "n": n, "ts": ts} for ts, n in enumerate([3, 4, 0])])
        failing(log, app, r"12.*/ .*n.* = 0.*divi")


def test_the_whole_backlog_and_one_record_at_a_time_write_the_same_bytes_in_the_same_places() -> None:
    """Within a partition even records of different keys stand in one order, whatever the size of epochs and the number of splits."""
    app = sk.Topology("ordered")
    app.stream("clicks").filter("n >= 0").to("out", partitions=2)
    rows = {"clicks": [{"user": "abcdef"[n % 6], "n": n, "ts": [5, 3, 9, 9, 2, 14][n % 6]} for n in range(24)]}
    found = []
    for run in [Run(tasks=1), Run(tasks=1, records_max=1, splits=3), Run(tasks=1, records_max=7, splits=2)]:
        with ran(app, TOPICS, rows, run) as log:
            found.append(values(log, "out", "user", "n"))
    assert found[0] == found[1] == found[2]
