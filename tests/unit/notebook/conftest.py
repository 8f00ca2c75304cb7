"""A log with orders, an application that counts them, and notebooks of a few cells in kernels of their own."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import streamkit as sk
from streamkit import functions as F

ROOT = Path(__file__).parents[3]


class ListeningClient(NotebookClient):
    """Runs cells, and keeps what each sends to widgets while it runs, and the kinds of content that it showed first."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.sent, self.kinds = [], []

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "comm_msg":
            self.sent.append((cell_index, msg["content"]["data"].get("state", {})))
        if msg["msg_type"] == "display_data":
            self.kinds.append(set(msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


def execute(notebook, folder=ROOT / "notebooks", timeout=240, **environment):
    """Run all cells in a fresh kernel, whose JVM, if it starts one, is its own; a cell that fails raises."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    client = ListeningClient(notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=found)
    return client


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def totals():
    """Orders by customer."""
    app = sk.Topology("totals")
    app.stream("orders").group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="per_customer").to("totals")
    return app


def send_orders(log, first, count):
    with log.producer() as producer:
        for number in range(first, first + count):
            producer.send("orders", {"id": number, "customer": f"c{number % 7}", "amount": number / 4})


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as opened:
        opened.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
        send_orders(opened, 0, 70)
        yield opened


@pytest.fixture
def worked(log):
    """The run of an application that has taken all orders, and has ended."""
    run = sk.run(totals(), log=log, engine="local", trigger="available_now")
    run.wait()
    return run
