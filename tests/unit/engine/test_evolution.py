"""What an application makes of inputs whose schema changes, and of inputs that were deleted."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.start import start
from streamkit.engine.stage.global_table import GlobalTableRows
from streamkit.errors import OrphanedStateError, SchemaError, TopicNotFoundError
from streamkit.log.opening import open_log
from streamkit.plan.program import Input
from streamkit.schema import Schema
from tests.kit import sales
from tests.kit.sales_outcome import outcome_of
from tests.kit.sampling import TAKES_ALL

EPOCH_RECORDS = sales.EPOCH_RECORDS * (1 if TAKES_ALL else 2)
ORDERS = "id bigint, customer string, product string, amount bigint, at timestamp"


def run(log, records_max=EPOCH_RECORDS):
    run_available(start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=records_max))


@pytest.fixture(scope="module")
def expected():
    """What comes of the input when no schema changes."""
    with open_log(":memory:") as log:
        sales.create_inputs(log)
        for number in range(sales.CHUNKS):
            sales.append_chunk(log, number)
        run(log)
        return outcome_of(log)


@pytest.fixture
def log():
    return open_log(":memory:")


def create_inputs(log, orders):
    log.create_topic("orders", orders, "id", "at", 2)
    log.create_topic("customers", "customer string, region string", "customer", None, 2, {"cleanup.policy": "compact"})


def test_older_rows_are_processed_under_the_newer_schema(log, expected):
    """Rows that were written with a narrower type give the same results as those of the type that the topology knows."""
    create_inputs(log, ORDERS.replace("amount bigint", "amount smallint"))
    sales.append_chunk(log, 0)
    log.alter_topic("orders", schema=ORDERS.replace("amount bigint", "amount int"))
    sales.append_chunk(log, 1)
    log.alter_topic("orders", schema=ORDERS)
    for number in range(2, sales.CHUNKS):
        sales.append_chunk(log, number)
    run(log)

    assert outcome_of(log) == expected


def test_columns_that_came_later_are_null_in_older_rows(log):
    """Rows of before a column are processed with null there."""
    create_inputs(log, "id bigint, customer string, amount bigint, at timestamp")
    with log.producer() as producer:
        producer.send("customers", {"customer": "c1", "region": "north"}, timestamp_ms=sales.START_MS)
        producer.send("orders", {"id": 1, "customer": "c1", "amount": 5, "at": sales_time(0)})
    log.alter_topic("orders", schema=ORDERS)
    with log.producer() as producer:
        producer.send("orders", {"id": 2, "customer": "c1", "product": "p", "amount": 6, "at": sales_time(1)})
    run(log)

    assert log.read("counts", ["product", "orders"]).select(["product", "orders"]).to_pylist() == [{"product": "p", "orders": 1}]
    assert log.read("totals", ["orders", "amount"]).select(["orders", "amount"]).to_pylist()[-1] == {"orders": 2, "amount": 11}


def sales_time(seconds):
    return dt.datetime.fromtimestamp(sales.START_MS / 1000 + seconds, dt.timezone.utc)


def test_a_running_application_leaves_new_columns_alone(log, expected):
    """An application goes on while its inputs get columns that its topology does not know."""
    sales.create_inputs(log)
    planner = start(log.catalog, log.storage, sales.load_program(), tasks=2, records_max=EPOCH_RECORDS)
    sales.append_chunk(log, 0)
    assert run_next(planner)
    log.alter_topic("customers", schema="customer string, note string, region string")
    for number in range(1, sales.CHUNKS):
        append_with_note(log, number)
    run_available(planner)

    assert outcome_of(log) == expected


def append_with_note(log, number):
    """The chunk of that number, its customers with a note."""
    random = np.random.default_rng(number)
    with log.producer(f"chunk-{number}") as producer:
        producer.send_batch("customers", sales._customers(random, number).assign(note="new"), sequence=1)
        producer.send_batch("orders", sales._orders(random, number), sequence=1)


def test_a_running_application_refuses_wider_types(log):
    """An application that meets rows of a wider type than its topology was compiled for says that it must be started again."""
    sales.create_inputs(log)
    sales.append_chunk(log, 0)
    program = sales.load_program()
    narrow = Schema.parse(ORDERS.replace("amount bigint", "amount int"))
    inputs = tuple(replace(one, schema=narrow) if one.topic == "orders" else one for one in program.inputs)

    with pytest.raises(SchemaError, match=r"'amount' is bigint, and here it is known as int: .* restart the application"):
        run_available(start(log.catalog, log.storage, replace(program, inputs=inputs), tasks=2))


def test_a_start_whose_stores_would_be_misread_is_refused(log):
    """After a change by which a store would hold other columns that cannot be null, a start is refused with them, until the application is reset."""
    sales.create_inputs(log)
    sales.append_chunk(log, 0)
    run(log)
    program = sales.load_program()
    wider = Schema.parse("region string, note string not null")
    stores = tuple(replace(store, value=wider) if store.name == "customers" else store for store in program.stores)
    changed = replace(program, stores=stores)

    before = log.catalog.applications.get(program.application)
    with pytest.raises(OrphanedStateError, match=r"'customers' .* the column 'note' was added: string.*reset"):
        start(log.catalog, log.storage, changed)
    assert log.catalog.applications.get(program.application) == before
    start(log.catalog, log.storage, program)
    log.catalog.applications.reset(program.application)
    start(log.catalog, log.storage, changed)


@pytest.mark.parametrize("topic", ["orders", "customers"])
def test_a_running_application_notices_that_an_input_is_gone(log, topic):
    """
    An application whose input was deleted, or deleted and created again, stops with its name; started again it refuses to add the new
    one's records to what it has of the former, and from scratch it reads the new one.
    """
    sales.create_inputs(log)
    sales.append_chunk(log, 0)
    planner = start(log.catalog, log.storage, sales.load_program(), tasks=2)
    run_available(planner)
    log.delete_topic(topic)
    with pytest.raises(TopicNotFoundError, match=f"the input {topic} of application sales was deleted"):
        run_next(planner)
    sales.create_inputs(log)
    sales.append_chunk(log, 1)
    with pytest.raises(TopicNotFoundError, match=f"the input {topic} .* start it again"):
        run_next(planner)

    before = log.catalog.applications.get("sales")
    with pytest.raises(OrphanedStateError, match=rf"has rows of records of '{topic}', deleted since .* apps reset"):
        start(log.catalog, log.storage, sales.load_program())
    assert log.catalog.applications.get("sales") == before
    log.catalog.applications.reset("sales")
    again = start(log.catalog, log.storage, sales.load_program())
    assert run_available(again)
    positions = log.catalog.applications.get("sales").positions[log.topic(topic).id]
    assert positions == log.end_offsets(topic)
    assert set(log.catalog.applications.get("sales").positions) == {log.topic(name).id for name in ("orders", "customers")}


def test_a_global_table_has_rows_of_every_version(log):
    """A global table reads rows of before a change as null in columns that came later, and in wider types."""
    log.create_topic("t", "k string, n int", "k", partitions=1)
    with log.producer() as producer:
        producer.send_batch("t", [{"k": "a", "n": 1}, {"k": "b", "n": 2}])
    topic = log.alter_topic("t", schema="k string, n bigint, note string")
    with log.producer() as producer:
        producer.send("t", {"k": "b", "n": 2**40, "note": "new"})

    source = Input("t", "global_table", topic.schema, topic.key)
    table = GlobalTableRows.read(log.storage, source, log.catalog.manifest.extents(topic.id, 0), (), topic.key)
    rows = [{"k": "a", "n": 1, "note": None}, {"k": "b", "n": 2**40, "note": "new"}]
    assert table.whole.rows.select(topic.schema.names).to_pylist() == rows


def test_new_partitions_are_read(log):
    """Partitions that an input without keyed state gets later are read from their beginning."""
    sales.create_inputs(log)
    sales.append_chunk(log, 0)
    planner = start(log.catalog, log.storage, sales.load_program(), tasks=2)
    log.alter_topic("orders", partitions=4)
    sales.append_chunk(log, 1)
    run_available(planner)

    assert log.catalog.applications.get("sales").positions[log.topic("orders").id] == log.end_offsets("orders")
    assert planner.backlog() == 0
    with pytest.raises(Exception, match="state of sales depends"):
        log.alter_topic("orders", partitions=5)
