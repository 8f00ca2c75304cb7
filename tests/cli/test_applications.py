"""`streamkit apps`."""

from __future__ import annotations

import streamkit as sk


def test_list_shows_where_applications_stand(streamkit, application):
    """Every application is listed with its epochs, stream time, tasks and stores."""
    lines = [line.split() for line in streamkit("apps", "list").splitlines()]

    row = next(line for line in lines if line[:1] == [application])
    assert row[1] == "2"
    assert row[2].startswith("2023-11-14T23:")
    assert row[3:] == ["2", "orders_of,", "hourly"]


def test_describe_shows_positions(streamkit, application):
    """A description has how far every partition was read, how many records wait, and each store's changelog."""
    with sk.open_log(streamkit.root) as log, log.producer() as producer:
        producer.send("orders", {"customer": "eve", "number": 7, "amount": 1.0})
    lines = [line.split() for line in streamkit("apps", "describe", application).splitlines()]

    assert ["orders", "0", "3", "1"] in lines
    assert ["hourly", f"{application}-hourly-changelog"] in lines


def test_reset_asks_first(streamkit, application):
    """Without a yes, nothing is forgotten."""
    assert "Forget the 2 epochs" in streamkit("apps", "reset", application, answer="n\n", code=1)
    assert ["orders", "0", "3", "0"] in [line.split() for line in streamkit("apps", "describe", application).splitlines()]


def test_reset_forgets_all_but_topics(streamkit, application):
    """After a reset the application has no epochs, stores, changelogs and local state; its inputs and outputs are as they were."""
    before = streamkit("consume", "counts")
    (streamkit.root / "checkpoints" / application).mkdir(parents=True)
    streamkit("apps", "reset", application, "--yes")

    assert [line.split()[1:3] for line in streamkit("apps", "list").splitlines() if application in line] == [["0", "2"]]
    assert "changelog" not in streamkit("topics", "list", "--all")
    assert not (streamkit.root / "stores" / application).exists()
    assert not (streamkit.root / "checkpoints" / application).exists()
    assert streamkit("consume", "counts") == before
