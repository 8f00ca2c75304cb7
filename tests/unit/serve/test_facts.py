"""What the server says of topics, groups, dead letters and the log: the same as the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.description import dead_letters

pytestmark = pytest.mark.usefixtures("worked")


def without_rates(value):
    """The value without what depends on the moment of the look."""
    if isinstance(value, dict):
        return {name: without_rates(one) for name, one in value.items() if name != "records_per_second"}
    return [without_rates(one) for one in value] if isinstance(value, list) else value


def test_topics(get, refused, described):
    """A list of those of users or of all, and one."""
    assert get("/api/v1/topics") == described("topics", "list")
    assert get("/api/v1/topics", all="true") == described("topics", "list", "--all")
    assert get("/api/v1/topics/orders") == described("topics", "describe", "orders")
    assert refused("/api/v1/topics/nothing")[0] == 404


def test_groups(get, refused, log, described):
    """Each with its lag."""
    log.groups.reset("readers", {"orders": {0: 1}})
    assert get("/api/v1/groups") == described("groups", "list")
    assert get("/api/v1/groups/readers") == described("groups", "describe", "readers")
    assert get("/api/v1/groups/readers")["lag"] > 0
    assert refused("/api/v1/groups/nobody")[0] == 404


def test_dead_letters(get, refused, log, described, printed):
    """How many there are of each step and error, and each."""
    app = sk.Topology("strict", on_error=sk.dead_letter("letters"))
    app.stream("orders").select("id", F.col("customer").cast("int").alias("number")).to("numbers")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    assert get("/api/v1/dead-letters") == described("dlq", "list")
    assert sum(row["records"] for row in get("/api/v1/dead-letters")) == 60
    found = get("/api/v1/dead-letters/letters", limit=100, where="operator is not null")["dead_letters"]
    assert len(found) == len(printed("dlq", "show", "letters").splitlines()) == 60
    assert refused("/api/v1/dead-letters/orders")[0] == 422
    assert refused("/api/v1/dead-letters/nothing")[0] == 404


def given(**parameters):
    """Those that are not None."""
    return {name: value for name, value in parameters.items() if value is not None}


@pytest.mark.parametrize("partitions", [1, 3])
def test_dead_letters_are_read_page_by_page_from_the_newest(get, refused, log, partitions, monkeypatch):
    """The pages together are all dead letters, each partition from its last one back, whatever is chosen; the total is all of the topic."""
    monkeypatch.setattr(dead_letters, "CHUNK_ROWS", 7)
    log.create_topic("texts", "id int, text string", partitions=partitions)
    with log.producer() as producer:
        for first in range(0, 60, 6):
            producer.send_batch("texts", [{"id": one, "text": "x" if one % 3 else "1"} for one in range(first, first + 6)])
            producer.flush()
    app = sk.Topology("strict", on_error=sk.dead_letter("letters"))
    app.stream("texts").select("id", F.col("text").cast("int").alias("number")).to("numbers")
    sk.run(app, log=log, engine="local", trigger="available_now").wait()
    for where, expected in ((None, 40), ("value LIKE '%5%'", None)):
        pages: list[list[dict[str, Any]]] = []
        cursor = None
        while not pages or cursor is not None:
            page = get("/api/v1/dead-letters/letters", limit=7, **given(where=where, cursor=cursor))
            assert page["total"] == 40 and (page["cursor"] is None) == page["is_complete"]
            pages.append(page["dead_letters"])
            cursor = page["cursor"]
        read = [(one["_partition"], one["_offset"]) for page in pages for one in page]
        every = [(one.place[0], one.place[1]) for one in dead_letters.dead_letters(log, "letters", where, None, None)]
        assert sorted(read) == sorted(every) and (expected is None or len(read) == expected)
        assert all(read.index((one, offset)) < read.index((one, offset - 1)) for one, offset in read if (one, offset - 1) in read)
        assert len({len(page) for page in pages[:-1]}) <= 1
    assert refused("/api/v1/dead-letters/letters", cursor="x")[0] == 400
    first, schema = get("/api/v1/dead-letters/letters", limit=7)["cursor"], log.topic("letters").schema
    log.delete_topic("letters")
    log.create_topic("letters", schema)
    assert refused("/api/v1/dead-letters/letters", cursor=first)[0] == 410


def test_storage_roots(get, log, described, tmp_path):
    """Each folder with copies, and how it is with it: its room changes while others write, so only that there is one is the same."""
    assert get("/api/v1/log/storage") == described("storage", "list")
    log.set_storage([str(tmp_path / "copies")])
    found, printed = get("/api/v1/log/storage"), described("storage", "list")
    assert (
        [root["path"] for root in found["roots"]]
        == [root["path"] for root in printed["roots"]]
        == [log.root, str(tmp_path / "copies")]
    )
    assert found["roots"][1]["state"].endswith("GB free")


def test_a_file_that_is_missing_is_found(get, log):
    """As by the program, with what to do."""
    with log.producer() as producer:  # of so many records that they are in a file
        producer.send_batch("orders", [{"id": number, "customer": "c", "amount": 0.0} for number in range(100_000)])
    first, *_ = sorted(Path(log.root).glob("slabs/**/*.slab"))
    first.unlink()
    found = get("/api/v1/log/check")
    assert found == log.fsck().to_json()
    assert not found["clean"] and first.name in str(found["findings"])


def test_the_log(get, api, described):
    """Sizes and lags; and the metrics for Prometheus."""
    assert without_rates(get("/api/v1/log")) == without_rates(described("stats"))
    assert without_rates(get("/api/v1/log", topic="orders")) == without_rates(described("stats", "orders"))
    assert get("/api/v1/log/check") == described("fsck")
    assert get("/api/v1/log/check")["clean"]
    found = api.get("/metrics")
    assert found.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'streamkit_application_up{application="totals"}' in found.text


def test_paths_that_are_none(refused, api):
    """They are 404, and say where all paths are; a slash at the end of a path says nothing."""
    for path in ("/nothing", "/api", "/api/v2/topics", "/api/v1/topics/orders/record", "/<script>"):
        assert refused(path)[0] == 404
    assert api.get("/api/v1/topics/").json() == api.get("/api/v1/topics").json()


def test_many_topics(get, log):
    """Five hundred topics are listed."""
    for number in range(500):
        log.create_topic(f"topic-{number}", "n int", partitions=1)
    assert len(get("/api/v1/topics")) > 500
