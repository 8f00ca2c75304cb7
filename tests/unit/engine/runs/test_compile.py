"""From topology to program: what runs where, under which names, and what is refused."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.log.opening import open_log
from streamkit.plan.program import Program
from streamkit.plan.program_check import check_program
from streamkit.plan.windows import Windowing

FLIGHTS = "carrier string NOT NULL, flight int NOT NULL, tailnum string, origin string, dep_delay int, dep_time int, distance int, ts timestamp"
PLANES = "tailnum string NOT NULL, year int, seats int NOT NULL"
AIRLINES = "carrier string NOT NULL, name string"


@pytest.fixture(scope="module")
def analyzer():
    return ExpressionAnalyzer()


@pytest.fixture(scope="module")
def log():
    log = open_log(":memory:")
    log.create_topic("flights", schema=FLIGHTS, key=["carrier", "flight"], timestamp="ts")
    log.create_topic("planes", schema=PLANES, key="tailnum")
    log.create_topic("airlines", schema=AIRLINES, key="carrier")
    log.create_topic("keyless", schema="a int, b string")
    log.create_topic("wide", schema="flight bigint NOT NULL, gate string", key="flight")
    log.create_topic("narrow", schema="flight smallint NOT NULL, gate string", key="flight")
    log.create_topic("late", schema="flight int NOT NULL, dep_delay int, carrier string NOT NULL", key=["carrier", "flight"])
    return log


@pytest.fixture
def app():
    return sk.Topology("app")


@pytest.fixture
def compiled(app, log, analyzer):
    """Compile the test's topology, and check what holds of every program."""

    def compile_app():
        program = sk.compile(app, log, analyzer)
        check_program(program)
        assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program
        return program

    return compile_app


def shape(program):
    """Kinds of operators, stage by stage."""
    return [[operator.kind for operator in program.operators_of(stage)] for stage in range(program.stages + 1)]


def every(program, kind):
    return [operator for operator in program.operators if operator.kind == kind]


def only(program, kind):
    (found,) = every(program, kind)
    return found


def demo(app):
    airlines = app.global_table("airlines").rename(name="airline")
    return (
        app.stream("flights")
        .filter(F.col("origin").isNotNull())
        .join(app.table("planes"), on="tailnum", how="left")
        .join(airlines, on="carrier")
        .group_by("origin", "airline")
        .windowed_by(sk.tumbling("1 day", grace="1 day", retention="400 days"))
        .agg(flights=F.count("*"), mean_delay=F.avg("dep_delay"), age=F.avg(2013 - F.col("year")), store="daily_delays")
    )


def test_demo_runs_in_two_kernels(app, compiled):
    """A join by another key and a grouping are two exchanges, with partial aggregation before the second."""
    demo(app).emit("final").to("daily")

    program = compiled()

    assert shape(program) == [
        ["source", "filter", "source", "send", "send"],
        ["receive", "materialize", "receive", "table_join", "global_join", "fold", "send"],
        ["receive", "aggregate", "emit", "write"],
    ]
    assert [(edge.from_stage, edge.to_stage, edge.key) for edge in program.edges] == [
        (0, 1, ("tailnum",)),
        (0, 1, ("tailnum",)),
        (1, 2, ("origin", "airline")),
    ]
    assert [(one.topic, one.kind) for one in program.inputs] == [
        ("airlines", "global_table"),
        ("planes", "table"),
        ("flights", "stream"),
    ]


def test_columns_nobody_reads_do_not_travel(app, compiled):
    """Sources read, and edges carry, what is used further on; a store keeps its whole table."""
    demo(app).emit("final").to("daily")

    program = compiled()

    columns = {program.inputs[one.input].topic: one.columns for one in every(program, "source")}
    assert columns == {"flights": ("carrier", "tailnum", "origin", "dep_delay"), "planes": ("tailnum", "year", "seats")}
    assert program.edges[0].columns.names == ("tailnum", "year", "seats")
    assert program.edges[1].columns.names == ("carrier", "tailnum", "origin", "dep_delay")
    assert program.store("planes").value.names == ("year", "seats")
    assert only(program, "table_join").columns == (
        ("carrier", "left.carrier"),
        ("origin", "left.origin"),
        ("dep_delay", "left.dep_delay"),
        ("year", "right.year"),
    )


def test_a_list_is_not_repeated_for_each_of_its_elements(app, compiled):
    """A column that nothing reads behind a flat map is dropped before rows are repeated; one that is read stays."""
    parts = app.stream("flights").select(parts=F.split("tailnum", "-"))
    parts.flat_map(F.explode("parts").alias("piece")).select("piece").to("without")
    parts.flat_map(F.explode("parts").alias("part")).select("part", "parts").to("with")
    parts.flat_map(F.explode("parts").alias("parts")).to("instead")

    assert sorted(one.drops for one in every(compiled(), "explode")) == [(), ("parts",), ("parts",)]


def test_column_of_a_filter_stays_behind(app, compiled):
    """What only a filter reads is read from the topic, and projected away before the exchange."""
    app.stream("flights").filter("distance > 100").select("origin").to("far")

    program = compiled()

    assert only(program, "source").columns == ("carrier", "flight", "origin", "distance")
    assert program.edges[0].columns.names == ("carrier", "flight", "origin")


def test_filter_column_is_pruned_before_an_aggregation_of_every_record(app, compiled):
    """Without a fold, a projection stands before the exchange where a column would travel for nothing."""
    app.stream("flights").filter("distance > 100").group_by("origin").agg(n=F.count("*")).emit("every").to("counts")

    program = compiled()

    assert shape(program)[0] == ["source", "filter", "project", "send"]
    assert program.edges[0].columns.names == ("origin",)


def test_windowed_aggregation(app, compiled):
    """A windowed grouping of a stream: fold in the reader, one kernel, results to a compacted topic."""
    stream = app.stream("flights").filter(F.col("dep_delay") > 15)
    table = (
        stream.group_by("origin").windowed_by(sk.tumbling("1 minute", grace="5 s")).agg(n=F.count("*"), total=F.sum("dep_delay"))
    )
    table.emit("latest").to("counts")

    program = compiled()

    assert shape(program) == [["source", "filter", "fold", "send"], ["receive", "aggregate", "emit", "write"]]
    aggregate, fold = only(program, "aggregate"), only(program, "fold")
    assert (aggregate.folded, aggregate.modes) == (True, ("latest",))
    assert aggregate.window == fold.window == Windowing(60_000, 60_000, 5_000, (0,), "flights-by-origin-per-1-minute")
    assert fold.key == ("origin",)
    assert only(program, "receive").folded
    (store,) = program.stores
    assert (store.name, store.stage, store.window_size_ms, store.retention_ms) == (
        "flights-by-origin-per-1-minute",
        1,
        60_000,
        65_000,
    )
    assert store.key.names == ("origin",)
    assert program.edges[0].columns.names == ("origin", *store.value.names)
    (output,) = program.outputs
    assert str(output.schema) == (
        "origin string, window_start timestamp NOT NULL, window_end timestamp NOT NULL, n bigint NOT NULL, total bigint"
    )
    assert (output.key, output.partition_by) == (("origin", "window_start", "window_end"), ("origin",))
    assert (output.cleanup_policy, output.partitions) == ("compact", None)


def test_every_result_needs_every_record(app, compiled):
    """Where a result is asked for every record, records travel unfolded, each once: they are put into windows behind the exchange."""
    table = app.stream("flights").group_by("origin").windowed_by(sk.hopping("2 minutes", "1 minute", grace="0 s")).count()
    table.emit("final").to("final")
    table.emit("every").to("every")

    program = compiled()

    assert shape(program) == [
        ["source", "send"],
        ["receive", "aggregate", "emit", "write", "emit", "write"],
    ]
    aggregate = only(program, "aggregate")
    assert (aggregate.modes, aggregate.folded, aggregate.window.per_record) == (("every", "final"), False, 2)
    assert [output.cleanup_policy for output in program.outputs] == ["delete", "delete"]


def test_stream_alone_has_a_kernel(app, compiled):
    """A stream that is only filtered moves by its key to the kernel that writes it; rows without a key too."""
    app.stream("flights").filter("dep_delay > 15").to("copy", partitions=7)

    program = compiled()

    assert shape(program) == [["source", "filter", "send"], ["receive", "write"]]
    assert only(program, "send").keep_null_keys
    assert program.edges[0].key == ("carrier", "flight")
    assert program.outputs[0].partitions == 7


def test_keyless_stream_is_written(app, compiled):
    """A stream without a key goes to a topic without one."""
    app.stream("keyless").to("copy")

    assert (compiled().outputs[0].key, compiled().edges[0].key) == ((), ())


@pytest.mark.parametrize(("how", "keeps"), [("left", True), ("inner", False)])
def test_left_join_keeps_records_without_a_key(app, compiled, how, keeps):
    """Records without a join key travel where a left join keeps them; rows of the table never do."""
    app.stream("flights").join(app.table("planes"), on="tailnum", how=how).to("joined")

    program = compiled()

    sends = {program.edges[one.edge].columns.names[0]: one.keep_null_keys for one in every(program, "send")}
    assert sends == {"tailnum": False, "carrier": keeps}
    assert program.outputs[0].key == ("tailnum",)


@pytest.mark.parametrize(("how", "seats"), [("left", "seats int"), ("inner", "seats int NOT NULL")])
def test_join_result(app, compiled, how, seats):
    """A stream-table join is keyed by `on`; the table's columns follow the stream's, and are nullable in a left join."""
    app.stream("flights").select("tailnum").join(app.table("planes"), on="tailnum", how=how).to("joined")

    assert str(compiled().outputs[0].schema) == f"carrier string NOT NULL, flight int NOT NULL, tailnum string, year int, {seats}"


def test_global_join_keeps_the_key_and_moves_nothing(app, compiled):
    """A global table is looked up where the stream is; the stream keeps its key."""
    app.stream("flights").join(app.global_table("airlines").filter("name <> ''"), on="carrier").to("named")

    program = compiled()

    assert shape(program) == [["source", "global_join", "send"], ["receive", "write"]]
    join = only(program, "global_join")
    assert [operator.kind for operator in join.table] == ["filter"]
    assert join.table[0].table
    assert program.outputs[0].key == ("carrier", "flight")


def test_steps_of_a_table_come_before_its_store(app, compiled):
    """A table that is filtered and projected before a join is kept as it is then, under a name of its own."""
    planes = app.table("planes").filter("year > 1990").select(age=2013 - F.col("year"))
    app.stream("flights").join(planes, on="tailnum").to("joined")

    program = compiled()

    assert shape(program)[0] == ["source", "source", "filter", "project", "send", "send"]
    assert only(program, "filter").table
    assert only(program, "project").key == ("tailnum",)
    (store,) = program.stores
    assert (store.name, store.value.names) == ("select-planes", ("age",))


def test_steps_of_an_emitted_table_come_behind_its_emission(app, compiled):
    """What is asked of a filtered table is asked of the aggregation below; the filter turns the other rows into deletions."""
    counts = app.stream("flights").group_by("origin").count()
    counts.filter("count > 10").select(many=F.col("count")).to("busy")
    counts.emit("every").to("all")

    program = compiled()

    assert shape(program)[1] == ["receive", "aggregate", "emit", "filter", "project", "write", "emit", "write"]
    assert only(program, "aggregate").modes == ("latest", "every")
    assert only(program, "filter").table
    assert only(program, "project").table
    assert [(one.topic, one.cleanup_policy) for one in program.outputs] == [("busy", "compact"), ("all", "delete")]


def test_final_results_that_do_not_match_are_dropped(app, compiled):
    """A final result is no change of a row: where a filter does not hold there is nothing to delete."""
    table = app.stream("flights").group_by("origin").windowed_by(sk.tumbling("1 hour", grace="0 s")).count()
    table.filter("count > 10").emit("final").to("busy")

    assert not only(compiled(), "filter").table


def test_emitted_source_table(app, compiled):
    """A table is emitted where it is kept; a store that has a name is kept whether or not it is emitted."""
    app.table("planes", store="fleet").filter("seats > 100").to("big")
    app.table("wide", store="gates")

    program = compiled()

    assert shape(program)[1] == ["receive", "materialize", "emit", "filter", "write", "receive", "materialize"]
    assert {store.name for store in program.stores} == {"fleet", "gates"}
    assert program.outputs[0].key == ("tailnum",)
    assert {edge.columns.names for edge in program.edges} == {("tailnum", "year", "seats"), ("flight", "gate")}


def test_emitted_stream_goes_on(app, compiled):
    """Results can be grouped again: the next aggregation comes one kernel later."""
    hourly = app.stream("flights").group_by("origin").windowed_by(sk.tumbling("1 hour", grace="0 s")).count()
    hourly.emit("final").group_by("window_start").agg(origins=F.count("*")).to("by_hour")

    program = compiled()

    assert shape(program) == [
        ["source", "fold", "send"],
        ["receive", "aggregate", "emit", "fold", "send"],
        ["receive", "aggregate", "emit", "write"],
    ]
    assert program.outputs[0].key == ("window_start",)


def test_group_by_expressions(app, compiled):
    """A computed group column is projected before the exchange; the aggregates still see the stream's columns."""
    app.stream("flights").group_by(late=F.col("dep_delay") > 15).agg(far=F.max("distance")).to("by_lateness")

    program = compiled()

    assert shape(program)[0] == ["source", "project", "fold", "send"]
    assert program.edges[0].key == ("late",)
    assert only(program, "source").columns == ("dep_delay", "distance")


def test_group_by_key_takes_the_streams_key(app, compiled):
    """The stream's own key, also after it was renamed and changed."""
    app.stream("flights").rename(carrier="airline").with_columns(flight=F.col("flight") % 10).group_by_key().count().to("counts")

    assert compiled().edges[0].key == ("airline", "flight")


def test_changed_key_rekeys_a_stream(app, compiled):
    """A stream whose key column is computed again goes to its topic under the new key."""
    app.stream("flights").with_columns(carrier=F.upper("carrier")).select("origin").to("copy")

    program = compiled()

    assert program.outputs[0].schema.names == ("carrier", "flight", "origin")
    assert dict(program.operators[1].columns)["carrier"].name == "upper"


def test_table_looked_up_in_two_kernels_is_kept_in_both(app, compiled):
    """A table that is joined before and after a re-keying has a store in each kernel, under different names."""
    planes = app.table("planes")
    once = app.stream("flights").join(planes, on="tailnum")
    again = once.with_columns(other=F.lower("tailnum")).drop("year", "seats").join(planes, on={"other": "tailnum"})
    again.to("twice")

    program = compiled()

    joins = every(program, "table_join")
    assert [join.stage for join in joins] == [1, 2]
    stores = [program.store(store_of(program, join)) for join in joins]
    assert [store.stage for store in stores] == [1, 2]
    assert len({store.name for store in stores}) == 2
    assert ("planes", 1) in {(store.name, store.stage) for store in program.stores}
    assert (0, 2) in {(edge.from_stage, edge.to_stage) for edge in program.edges}


def test_table_looked_up_twice_in_one_kernel_is_kept_once(app, compiled):
    """Two streams that join one table share its store."""
    planes = app.table("planes")
    app.stream("flights").join(planes, on="tailnum").to("a")
    app.stream("flights").filter("dep_delay > 15").join(planes, on="tailnum").to("b")

    assert [store.name for store in compiled().stores] == ["planes"]


def test_results_of_an_aggregation_are_kept_beside_its_states(app, compiled):
    """An aggregation that is joined with has two stores: its states under its own name, and its results for the join."""
    totals = app.stream("flights").group_by("origin").agg(far=F.max("distance"), store="totals")
    app.stream("flights").join(totals, on="origin").to("joined")

    program = compiled()

    assert [program.keeper(store.name).kind for store in program.stores] == ["aggregate", "materialize"]
    assert [store.name for store in program.stores] == ["totals", "totals-results"]
    assert program.store("totals-results").value.names == ("far",)


def test_join_keys_are_widened(app, compiled):
    """Keys of whole numbers meet in the wider type, on either side, so that equal numbers meet in one task."""
    flights = app.stream("flights").select("origin")
    flights.join(app.table("wide"), on="flight").to("a")
    flights.join(app.table("narrow"), on="flight").to("b")

    program = compiled()

    for join in every(program, "table_join"):
        left, right = (
            program.edges[next(o.edge for o in program.operators if o.id == source_of(program, name))] for name in join.inputs
        )
        assert (
            left.columns["flight"].type
            == right.columns["flight"].type
            == program.store(store_of(program, join)).key["flight"].type
        )
    assert sorted(store.key["flight"].type for store in program.stores) == ["bigint", "int"]


def source_of(program, operator_id):
    """The receiving end that rows of an operator come from."""
    operator = program.operator(operator_id)
    return operator.id if operator.kind == "receive" else source_of(program, operator.inputs[0])


def store_of(program, join):
    """The store of the table that a join looks up."""
    (name,) = program.operator(join.inputs[1]).stores
    return name


def test_output_takes_the_order_of_its_topic(app, compiled):
    """Rows for a topic that exists come in the order of its columns."""
    app.stream("flights").filter("dep_delay > 15").select("dep_delay").to("late")

    program = compiled()

    assert program.outputs[0].schema.names == ("flight", "dep_delay", "carrier")
    assert program.edges[0].columns.names == ("flight", "dep_delay", "carrier")


def test_two_streams_may_go_to_one_topic(app, compiled):
    """Streams with the same rows share an output."""
    app.stream("flights").filter("dep_delay > 15").select("origin").to("some")
    app.stream("flights").filter("dep_delay < 0").select("origin").to("some")

    program = compiled()

    assert len(program.outputs) == 1
    assert [operator.output for operator in every(program, "write")] == [0, 0]


def test_program_depends_on_structure_alone(log, analyzer):
    """The same topology compiles to the same program, byte for byte, whatever the order in which branches are declared."""
    fingerprints = set()
    for _ in range(2):
        app = sk.Topology("app")
        demo(app).emit("final").to("daily")
        fingerprints.add(sk.compile(app, log, analyzer).fingerprint)

    assert len(fingerprints) == 1


def test_unrelated_branch_renames_nothing(app, log, analyzer, compiled):
    """Another branch leaves the stores of the first alone."""
    demo(app).emit("final").to("daily")
    before = {store.name for store in compiled().stores}

    app.stream("keyless").group_by("b").count().to("counts")

    assert before <= {store.name for store in compiled().stores}


def test_schemas_replace_a_log(analyzer):
    """With schema= and key= on every source a topology compiles without a log."""
    app = sk.Topology("app")
    app.stream("s", schema="user string, amount double", key="user").group_by("user").agg(total=F.sum("amount")).to("totals")

    assert str(sk.compile(app, None, analyzer).outputs[0].schema) == "user string, total double"
