"""What a table with history was, by both of its times: Python, HTTP and the command line say the same, and a model says what."""

from __future__ import annotations

import datetime as dt
import json
import random
from contextlib import closing

import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.state.view import open_view

NAMES = ["ann", "Zoë", "a/b", "", "漢", '"']
BEGIN_MS = 1_769_860_800_000
EPOCHS, CHANGES = 4, 25
BASE = "/api/v1/applications/history/stores/prices"


def text_of(time_ms):
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def changed(log):
    """The changes of a table with history, each with the epoch in which it was read."""
    chosen, changes = random.Random(7), []
    app = sk.Topology("history")
    app.table("prices", versioned="10 days", store="prices")
    log.create_topic("prices", "name string, number int, price double", key=["name", "number"], partitions=2)
    for _ in range(EPOCHS):
        with log.producer() as producer:
            written = []
            for _ in range(CHANGES):
                key = {"name": chosen.choice(NAMES), "number": chosen.randrange(2)}
                time, price = BEGIN_MS + chosen.randrange(40) * 1_000, chosen.choice([None, chosen.randrange(100) / 4])
                if price is None:
                    producer.delete("prices", key, timestamp_ms=time)
                else:
                    producer.send("prices", {**key, "price": price}, timestamp_ms=time)
                written.append((key, time, price))
        sk.run(app, log=log, engine="local", trigger="available_now").wait()
        epoch = log.catalog.applications.get("history").epoch
        changes += [(epoch, *one) for one in written]
    return changes


def rows_of_changes(changes, epoch, time_ms):
    """By the changes up to an epoch, the newest one of each key up to an event time, unless it deletes; in the order of keys."""
    newest: dict[tuple[bytes, int], tuple[int, dict[str, object]]] = {}
    for of_epoch, key, time, price in changes:
        place = key["name"].encode(), key["number"]
        if of_epoch <= epoch and time <= time_ms and (place not in newest or time >= newest[place][0]):
            newest[place] = (time, {**key, "price": price})
    return [row for _, (_, row) in sorted(newest.items()) if row["price"] is not None]


def test_one_word_has_one_meaning(log, changed, api, printed):
    """`as_of` is an epoch or a time of the host, `valid_at` an event time, each alone and both together, of all rows, some, or a key."""
    epochs = sorted({epoch for epoch, *_ in changed})
    hosts = {one["epoch"]: one["committed_at"] for one in api.get("/api/v1/applications/history/epochs").json()}
    chosen = random.Random(11)
    view = open_view(log, "history", "prices")
    with closing(view.reader):
        for _ in range(12):
            epoch = chosen.choice([None, *epochs])
            time_ms = chosen.choice([None, BEGIN_MS + chosen.randrange(-3, 42) * 1_000 + chosen.choice([0, 1, 999])])
            expected = rows_of_changes(changed, epochs[-1] if epoch is None else epoch, 2**62 if time_ms is None else time_ms)
            as_of = None if epoch is None else chosen.choice([str(epoch), hosts[epoch]])
            asked = {"as_of": as_of, "valid_at": None if time_ms is None else text_of(time_ms)}
            given = {name: value for name, value in asked.items() if value is not None}
            options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]

            assert in_python(view, given) == expected
            assert pages_of(api, given) == expected
            assert json.loads(printed("store", "scan", "history", "prices", *options)) == expected
            name = chosen.choice(NAMES)
            some = [row for row in expected if row["name"] == name]
            assert in_python(view, given, name) == some
            assert api.get(f"{BASE}/rows", params={**given, "prefix": name}).json()["rows"] == some
            assert json.loads(printed("store", "scan", "history", "prices", f"--prefix={name}", *options)) == some
            behind = [row for row in expected if row["name"].encode() >= name.encode()]
            assert api.get(f"{BASE}/rows", params={**given, "start": name}).json()["rows"] == behind
            assert json.loads(printed("store", "scan", "history", "prices", f"--from={name}", *options)) == behind
            for row in some:
                key = (row["name"], row["number"])
                assert in_python(view, given, *key) == [row]
                assert api.get(BASE, params={**given, "name": key[0], "number": key[1]}).json()["rows"] == [row]
                assert json.loads(printed("store", "get", "history", "prices", key[0], str(key[1]), *options)) == [row]


def in_python(view, given, *key):
    """The rows of a key, of the keys that begin so, or of all, as Python says them."""
    if "valid_at" not in given and len(key) == 1:
        with view.at_epoch(time="2999-01-01") if "as_of" not in given else at(view, given["as_of"]) as past:
            return past.prefix(*key).to_pylist()
    if "valid_at" not in given:
        return view.as_of(given.get("as_of", "2999-01-01"), *key).to_pylist()
    if "as_of" not in given:
        return view.valid_at(given["valid_at"], *key).to_pylist()
    with at(view, given["as_of"]) as past:
        return past.valid_at(given["valid_at"], *key).to_pylist()


def at(view, moment):
    return view.at_epoch(int(moment)) if moment.isdecimal() else view.at_epoch(time=moment)


def pages_of(api, given):
    """All rows by HTTP, a few at a time."""
    found, cursor = [], None
    while True:
        page = api.get(f"{BASE}/rows", params={**given, "limit": 3, **({} if cursor is None else {"cursor": cursor})}).json()
        found += page["rows"]
        cursor = page["cursor"]
        if cursor is None:
            return found


def test_a_store_without_versions_says_so(worked, changed, api, refused):
    """`valid_at` of a store that keeps none is an error in words, by HTTP and by the command line; each store says whether it keeps some."""
    base = "/api/v1/applications/totals/stores/"
    for store, asked in (
        ("per_customer", {"customer": "c1"}),
        ("hourly", {"customer": "c1"}),
        ("hourly/rows", {"start": "2026-01-31"}),
    ):
        status, said = refused(f"{base}{store}", valid_at="2026-01-31", **asked)
        assert status == 400 and "keeps no versions" in said and "it is read by get, find, many" in said
    with pytest.raises(ConfigError, match="keeps no versions"):
        worked.store("totals", "hourly").valid_at("2026-01-31")
    assert api.get(f"{base}per_customer").json()["history_ms"] is None
    assert api.get(BASE).json()["history_ms"] == 10 * 86_400_000


def test_what_cannot_be_asked_of_versions(changed, api, refused):
    """A time that is none, a time before the history, a window, the next page of another time; a key that had no value then is not found."""
    time = text_of(BEGIN_MS + 20_000)
    assert refused(BASE, name="ann", number=1, valid_at="noon")[0] == 400
    assert "goes back to" in refused(f"{BASE}/rows", valid_at="2025-01-01")[1]
    assert "has no windows" in refused(BASE, name="ann", number=1, valid_at=time, window=time)[1]
    cursor = api.get(f"{BASE}/rows", params={"valid_at": time, "limit": 1}).json()["cursor"]
    assert "a cursor of valid_at=" in refused(f"{BASE}/rows", cursor=cursor)[1]
    status, said = refused(BASE, name="nobody", number=1, valid_at=time)
    assert (status, said) == (404, f"the store 'prices' has no row of the key nobody, 1 that was valid at {time}")
    for asked in ({"valid_at": time}, {"as_of": "1"}, {"as_of": "noon"}, {"as_of": ""}):
        status, said = refused(BASE, **asked)
        assert status == 400 and "no key column" in said, asked
