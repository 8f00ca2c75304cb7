"""A log with two topics, and the program pointed at it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

import streamkit as sk
from streamkit import functions as F
from streamkit.cli.main import main, program
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from tests.kit.places import all_slabs_in_files

ORDERS: list[dict[str, Any]] = [
    {"customer": "ann", "number": 1001, "amount": 2.5, "at": 1_700_000_000_000},
    {"customer": "bob", "number": 1002, "amount": None, "at": 1_700_000_060_000},
    {"customer": None, "number": 1003, "amount": 12_000_000.0, "at": 1_700_000_120_000},
]


def fill(root):
    """Make the log of `root`."""
    with sk.open_log(root) as log:
        log.create_topic("orders", "customer string, number int, amount double", key="number", partitions=1)
        log.create_topic("customers", "name string, city string", key="name", partitions=2, config={"cleanup.policy": "compact"})
        with log.producer() as producer:
            for order in ORDERS:
                values = {name: value for name, value in order.items() if name != "at"}
                producer.send("orders", values, timestamp_ms=order["at"])
            producer.send("customers", {"name": "ann", "city": "Oslo"}, timestamp_ms=0)
            producer.delete("customers", {"name": "ann"}, timestamp_ms=1)
    return root


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """The folder of a log that every test gets a copy of."""
    with all_slabs_in_files():
        return fill(tmp_path_factory.mktemp("filled") / "log")


@pytest.fixture
def root(filled, tmp_path):
    """The folder of a log with the topics orders (three records) and customers (a record and its deletion)."""
    return shutil.copytree(filled, tmp_path / "log")


class Command:
    """The command line, pointed at a log."""

    def __init__(self, root):
        self.root = root

    def __call__(self, *arguments, answer=None, code=0):
        """Run a command and return what it printed; an error of the command is raised."""
        result = CliRunner().invoke(
            program, arguments, env={"STREAMKIT_LOG": str(self.root)}, input=answer, catch_exceptions=False
        )
        assert result.exit_code == code, result.output
        return result.output


@pytest.fixture
def streamkit(root):
    return Command(root)


@pytest.fixture
def as_program(monkeypatch, capsys, root):
    """Run the program as the shell would, with a log in STREAMKIT_LOG; returns its exit code, output and errors."""

    def invoke(*arguments, log=root):
        monkeypatch.setattr("sys.argv", ["streamkit", *arguments])
        monkeypatch.setenv("STREAMKIT_LOG", str(log))
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return invoke


@pytest.fixture(scope="session")
def worked(filled, tmp_path_factory):
    """The folder of the same log, and the name of an application that has run on it."""
    root = shutil.copytree(filled, tmp_path_factory.mktemp("worked") / "log")
    app = sk.Topology("order-counts")
    orders = app.stream("orders")
    orders.group_by("customer").count(store="orders_of").to("counts")
    hourly = (
        orders.group_by("number")
        .windowed_by(sk.tumbling("1 hour", grace="0 seconds", retention="10 days"))
        .agg(total=F.sum("amount"), store="hourly")
    )
    hourly.emit("final").to("hourly_totals")
    with sk.open_log(root) as log:
        run_available(start(log.catalog, log.storage, sk.compile(app, log), tasks=2), drain=True)
    return root, app.name


@pytest.fixture
def application(worked, root):
    """An application that has run on the log: orders counted per customer, and per customer and hour; nothing else was done to it."""
    folder, name = worked
    shutil.rmtree(root)
    shutil.copytree(folder, root)
    return name
