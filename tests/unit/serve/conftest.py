"""A log on which an application has run, and a server over it that is asked by HTTP."""

from __future__ import annotations

import json
from contextlib import contextmanager

import httpx
import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import program
from streamkit.serve.server import Server

ORDERS = 60


def totals():
    """Orders by customer, and by customer and hour."""
    app = sk.Topology("totals")
    orders = app.stream("orders")
    orders.group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="per_customer").to("totals")
    hours = orders.group_by("customer").windowed_by(sk.tumbling("1 hour", grace="0 s", retention="400 days"))
    hours.agg(n=F.count("*"), store="hourly").to("by_hour")
    return app


def send_orders(log, first, count):
    with log.producer() as producer:
        for number in range(first, first + count):
            order = {"id": number, "customer": f"c{number % 7}", "amount": number / 4}
            producer.send("orders", order, timestamp_ms=1_700_000_000_000 + 600_000 * number)


def even(row):
    if row["id"] % 2:
        raise ValueError("odd")
    return {"n": row["id"]}


def letters_of(log, count):
    """An application that fails on every second record: the dead letters of `count` records, and where they came from."""
    app = sk.Topology("parsing", on_error=sk.dead_letter("failed"))
    app.stream("texts").map_values(even, "n bigint", name="even").to("numbers")
    if "texts" not in log.topics():
        log.create_topic("texts", "id bigint, text string", partitions=2)
    with log.producer() as producer:
        producer.send_batch("texts", [{"id": number, "text": f"t{number}"} for number in range(count)])
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.fixture
def log(tmp_path):
    """A log with orders, and an opaque topic of which the second record is no JSON."""
    with sk.open_log(tmp_path / "log") as opened:
        opened.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
        opened.create_topic("opaque", format="json", partitions=1)
        send_orders(opened, 0, ORDERS)
        yield opened


@pytest.fixture
def worked(log):
    """The same log, once the application has taken all of it."""
    sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
    return log


@contextmanager
def serving(log, **options):
    """A server on a free port, and a client that asks it."""
    with Server(log, port=0, **options) as server, httpx.Client(base_url=server.address, timeout=30) as client:
        yield client


@pytest.fixture
def api(log):
    with serving(log) as client:
        yield client


@pytest.fixture
def get(api):
    """The value at a path, which is there."""

    def asked(path, **parameters):
        answer = api.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return asked


@pytest.fixture
def refused(api):
    """The status of an answer that is an error, and its words."""

    def asked(path, headers=None, **parameters):
        answer = api.get(path, params=parameters, headers=headers)
        assert answer.status_code >= 400, answer.text
        said = answer.json()
        assert set(said) >= {"error", "message", "hint"} and all(said[name] for name in ("error", "message", "hint"))
        return answer.status_code, said["message"]

    return asked


@pytest.fixture
def printed(log):
    """What a command prints with --json."""

    def asked(*arguments):
        result = CliRunner().invoke(program, [*arguments, "--json"], env={"STREAMKIT_LOG": log.location}, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return asked


@pytest.fixture
def described(printed):
    return lambda *arguments: json.loads(printed(*arguments))


def events_of(lines):
    """(event, data) of each server-sent event, as its lines come; of a comment only that it is one."""
    event = None
    for line in lines:
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield event, json.loads(line.removeprefix("data: "))
        elif line.startswith(":"):
            yield "comment", line


@contextmanager
def streaming(client, path, **parameters):
    """The events of a stream, as they come."""
    with client.stream("GET", path, params=parameters, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200, answer.read()
        yield events_of(answer.iter_lines())
