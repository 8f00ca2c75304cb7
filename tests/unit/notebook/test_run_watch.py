"""Promises of what a notebook shows of a run: the figures of the catalog, while it goes on and when it has ended."""

from __future__ import annotations

import json

import streamkit as sk
from streamkit.notebook.run_watch import EPOCHS
from tests.kit.waiting import wait_until
from tests.unit.notebook.conftest import send_orders, totals


def test_outside_of_a_notebook_it_is_a_text(worked):
    """The text and the HTML have the figures of the moment, and no thread begins."""
    watch = worked.watch()

    assert repr(watch).startswith(
        "RunWatch('totals': ended, epoch 1, records 70, records that wait 0, late 0; The run has ended;"
    )
    html = watch._repr_html_()
    assert "<td>70</td>" in html and ">70 in, 70 out</text>" in html and ">stream orders</text>" in html
    assert "<td>aggregate-per_customer</td><td>70</td><td>7</td>" in html
    assert not watch.is_live and watch.looks == 2


def test_figures_are_those_of_the_run(log, worked):
    """Steps, epochs and facts are what the run itself says; epochs are read once, and only the last ones are kept."""
    watch = worked.watch()
    for number in range(EPOCHS + 3):
        send_orders(log, 1_000 + number, 1)
        sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
        repr(watch)
    shown, history = watch._values["epochs"], worked.history().to_pylist()

    assert [epoch["epoch"] for epoch in shown] == [epoch["epoch"] for epoch in history[-EPOCHS:]]
    assert [epoch["records"] for epoch in shown] == [epoch["records"] for epoch in history[-EPOCHS:]]
    assert watch._values["steps"] == [one.to_json() for one in worked.steps()]
    assert json.loads(json.dumps(watch._values)) == watch._values


def test_values_follow_a_run(log):
    """While a run goes on its figures grow with its epochs, with the time of each look; in the end there is none."""
    with_run = sk.run(totals(), log=log, engine="local")
    watch = with_run.watch()
    wait_until(lambda: "records 70, records that wait 0" in repr(watch))
    assert watch._values["looked_ms"] is not None and watch._values["note"] == ""
    send_orders(log, 100, 30)
    wait_until(lambda: "records 100, records that wait 0" in repr(watch))
    with_run.stop()
    assert "'totals': ended" in repr(watch) and watch._values["looked_ms"] is None


def test_what_cannot_be_looked_at_is_said(log, worked):
    """A log that was closed or deleted is a note, and no error in a thread."""
    watch = worked.watch()
    before = repr(watch)
    log.close()

    assert before != repr(watch) and "The log was closed." in repr(watch) and "<td>70</td>" in watch._repr_html_()
