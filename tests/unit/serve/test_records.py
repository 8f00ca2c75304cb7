"""Pages of records."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.serve.answers import header_text
from streamkit.serve.limits import ServeLimits
from tests.unit.serve.conftest import ORDERS, letters_of, serving

RECORDS = "/api/v1/topics/orders/records"
LINES = {"Accept": "application/x-ndjson"}


def pages(get, path=RECORDS, **parameters):
    """All records, page by page."""
    page = get(path, **parameters)
    found = [page["records"]]
    while not page["is_complete"]:
        page = get(path, **parameters, cursor=page["cursor"])
        found.append(page["records"])
        assert len(page["records"]) <= parameters["limit"] and len(found) < 1_000
    return found


def test_records_are_printed_as_consume_prints_them(api, printed):
    """JSON has the lines of consume --json as its records, and lines of JSON are those lines."""
    lines = printed("consume", "orders")
    assert api.get(RECORDS, headers=LINES, params={"limit": 1_000}).text == lines
    assert api.get(RECORDS, params={"limit": 1_000}).json()["records"] == [json.loads(line) for line in lines.splitlines()]
    where = "amount > 3 and customer <> 'c1'"
    chosen = api.get(RECORDS, headers=LINES, params={"where": where}).text
    assert chosen == printed("consume", "orders", "--where", where) != ""
    with_headers = api.get(RECORDS, headers=LINES, params={"headers": "true"}).text
    assert with_headers == printed("consume", "orders", "--headers")


def test_an_arrow_stream(api, log):
    """The Arrow stream has the rows and types that the log gives."""
    answer = api.get(RECORDS, params={"limit": 1_000}, headers={"Accept": "application/vnd.apache.arrow.stream"})
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.drop_columns(["_deleted"]).equals(log.read("orders"))
    assert answer.headers["X-StreamKit-Is-Complete"] == "true"


@pytest.mark.parametrize("limit", [1, 7, 1_000])
@pytest.mark.parametrize("where", [None, "id < 3 or id >= 57", "_partition = 1", "id < 0", "_offset between 3 and 6"])
def test_pages_have_each_record_once(get, limit, where):
    """Cursors lead through all that is asked for, in the order of one large page."""
    asked = {} if where is None else {"where": where}
    found = [record for page in pages(get, limit=limit, **asked) for record in page]
    assert found == get(RECORDS, limit=10_000, **asked)["records"]
    assert len(found) == {None: ORDERS, "id < 3 or id >= 57": 6, "id < 0": 0}.get(where, len(found))


def test_where_pages_begin(get, printed):
    """At an offset of a partition, at a time, at the last ones of each partition, at the end."""
    assert [one["_offset"] for one in get(RECORDS, offset=5, partition=1, limit=3)["records"]] == [5, 6, 7]
    ends = {one["partition"]: one["end_offset"] for one in get("/api/v1/topics/orders")["partitions"]}
    last = [(one["_partition"], one["_offset"]) for one in get(RECORDS, offset=-2)["records"]]
    assert last == [(partition, end - back) for partition, end in ends.items() for back in (2, 1)]
    assert get(RECORDS, offset=-10_000, limit=1_000) == get(RECORDS, limit=1_000)
    since = get(RECORDS, time="2023-11-15T00:00:00Z", limit=1_000)["records"]
    assert since == [json.loads(line) for line in printed("consume", "orders", "--since", "2023-11-15T00:00:00Z").splitlines()]
    assert get(RECORDS, offset="latest")["records"] == []


def test_a_cursor_goes_on_behind_what_comes_later(get, log):
    """The cursor of a page that is complete gives what has come since, and nothing twice."""
    cursor = get(RECORDS, limit=1_000)["cursor"]
    assert get(RECORDS, cursor=cursor)["records"] == []
    with log.producer() as producer:
        producer.send("orders", {"id": 99, "customer": "c", "amount": None})
    assert [one["id"] for one in get(RECORDS, cursor=cursor)["records"]] == [99]


def test_a_cursor_says_what_was_deleted_before_it_went_on(get, log):
    """Records behind a page that were deleted before anybody read them are named beside the next page; a page that had them all says nothing."""
    page = get(RECORDS, limit=2, partition=0)
    whole = get(RECORDS, limit=1_000)
    log.delete_records("orders", {0: 9})
    after = get(RECORDS, limit=2, partition=0, cursor=page["cursor"])
    assert [one["_offset"] for one in after["records"]] == [9, 10]
    assert "offsets 2 to 8 of partition 0 were deleted since the page before" in after["note"]
    assert "note" not in get(RECORDS, cursor=whole["cursor"]) and "note" not in get(
        RECORDS, limit=2, partition=1, cursor=page["cursor"]
    )


def test_columns(get):
    """Only those that are wanted come, also where the condition is about others."""
    found = get(RECORDS, columns="customer,id", where="amount = 2.5")["records"]
    assert [list(one) for one in found] == [["customer", "id", "_timestamp", "_partition", "_offset"]]
    assert found[0]["id"] == 10


def test_what_cannot_be_meant(refused, get):
    """Each is said by its name, with what was found and what is expected."""
    for parameters, status, words in (
        ({"ofset": 1}, 400, "the parameter 'ofset' is not known"),
        ({"limit": "many"}, 400, "found limit='many'; expected a whole number"),
        ({"limit": 0}, 400, "expected a whole number from 1"),
        ({"limit": 10_001}, 413, "expected at most 10,000"),
        ({"offset": 1, "time": "2026-01-01"}, 400, "expected one of them"),
        ({"offset": "first"}, 400, "found the offset 'first'"),
        ({"offset": 3}, 400, "name the partition too"),
        ({"offset": 10_000, "partition": 0}, 404, "offset 10000 is not there"),
        ({"partition": 7}, 400, "no partition 7"),
        ({"time": "yesterday"}, 400, "found the time 'yesterday'"),
        ({"where": "__import__('os')"}, 400, "the condition"),
        ({"where": "price > 1"}, 400, "names the column 'price'"),
        ({"columns": "price"}, 422, "no column 'price'"),
        ({"raw": "maybe"}, 400, "expected true or false"),
        ({"cursor": "garbage"}, 400, "expected the cursor of an answer"),
        ({"cursor": "e30"}, 400, "expected the cursor of an answer"),
        ({"where": "x" * 20_000}, 414, "characters"),
    ):
        found, said = refused(RECORDS, **parameters)
        assert (found, words in said) == (status, True), said
    assert refused("/api/v1/topics/nothing/records")[0] == 404
    assert refused(RECORDS, headers={"Accept": "text/html"})[0] == 406


def test_the_cursor_of_a_topic_that_was_made_again(get, refused, log):
    """It is gone, and nothing of the new topic is left out silently."""
    cursor = get(RECORDS, limit=3)["cursor"]
    log.delete_topic("orders")
    log.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
    assert refused(RECORDS, cursor=cursor)[0] == 410


def test_a_record_that_is_not_of_its_format(get, refused, log):
    """What comes before it is given, then it is an error by itself; raw gives its bytes, and a condition passes over it."""
    log.create_topic("bytes", format="bytes", partitions=1)
    with log.producer() as producer:
        producer.send("opaque", {"key": "a", "value": {"n": 1}})
        producer.send("opaque", {"key": "b", "value": {"n": 2}})
    spoil(log)
    path = "/api/v1/topics/opaque/records"
    page = get(path)
    assert [one["value"] for one in page["records"]] == [{"n": 1}, {"n": 2}]
    assert page["is_complete"] is False and "offset 2" in page["note"]
    status, said = refused(path, cursor=page["cursor"])
    assert (status, "partition 0, offset 2" in said) == (422, True)
    assert get(path, raw="true")["records"][2]["value"] == "bm8ganNvbg=="
    assert [one["_offset"] for one in get(path, where="_offset <> 2")["records"]] == [0, 1, 3]


def spoil(log):
    """Two more records of the opaque topic, of which the first is no JSON."""
    with log.producer() as producer:
        producer.send_batch("opaque", pa.table({"key": pa.array([b"c", b"d"]), "value": pa.array([b"no json", b"4"])}))


def test_pages_have_so_many_bytes_at_most(log):
    """Large values end a page before its limit of rows, one comes by itself, and all of them come."""
    log.create_topic("large", "n int, text string", partitions=1)
    for frame in ((0, 1, 2), (3,), (4,), (5, 6), (7,)):
        with log.producer() as producer:
            producer.send_batch("large", [{"n": number, "text": "<script>" * (90_000 if number % 2 else 1)} for number in frame])
    with serving(log, limits=ServeLimits(bytes=1 << 20)) as client:
        get = lambda path, **parameters: client.get(path, params=parameters).json()  # noqa: E731
        found = pages(get, "/api/v1/topics/large/records", limit=100)
    assert [record["n"] for page in found for record in page] == list(range(8))
    assert 4 <= len(found) <= 8
    assert found[0][1]["text"] == "<script>" * 90_000


def test_a_topic_with_many_columns(get, log):
    """Two hundred columns come, in their order; a page says so of each record."""
    names = [f"column_{number}" for number in range(200)]
    log.create_topic("wide", ", ".join(f"{name} int" for name in names))
    with log.producer() as producer:
        producer.send_batch("wide", [dict(zip(names, range(200), strict=True))] * 3)
    found = get("/api/v1/topics/wide/records")["records"]
    assert [list(one.values())[:200] for one in found] == [list(range(200))] * 3


@pytest.mark.usefixtures("slabs_in_files")
def test_a_damaged_frame(tmp_path):
    """What comes before it is given, then the damage is said, with a cursor that goes on behind it."""
    import streamkit as sk

    with sk.open_log(tmp_path / "damaged") as log, serving(log) as client:
        log.create_topic("numbers", "n int", partitions=1)
        for first in (0, 100, 200):
            with log.producer() as producer:
                producer.send_batch("numbers", [{"n": number} for number in range(first, first + 100)])
        damage(log, tmp_path / "damaged")
        path = "/api/v1/topics/numbers/records"
        page = client.get(path, params={"limit": 1_000}).json()
        assert [one["n"] for one in page["records"]] == list(range(100))
        assert "cannot be read" in page["note"] and not page["is_complete"]
        answer = client.get(path, params={"cursor": page["cursor"]})
        assert (answer.status_code, "topic numbers, partition 0" in answer.json()["message"]) == (410, True)
        behind = client.get(path, params={"cursor": answer.json()["cursor"], "limit": 1_000}).json()
        assert [one["n"] for one in behind["records"]] == list(range(200, 300))


def damage(log, root):
    frame = log.catalog.manifest.extents(log.topic("numbers").id, 0)[1]
    data = bytearray((root / frame.path).read_bytes())
    data[frame.position + 200] ^= 1
    (root / frame.path).chmod(0o644)
    (root / frame.path).write_bytes(data)


def test_headers_are_ascii():
    """A fact that stands in a header has no line ends and no characters that a header cannot have."""
    assert header_text("é\r\nX: 1") == "\\u00e9\\u000d\\u000aX: 1"
    assert (header_text(True), header_text(None), header_text("a b")) == ("true", "null", "a b")


@pytest.mark.parametrize("path", ["/api/v1/topics/texts/records", "/api/v1/dead-letters/failed"])
def test_a_cursor_of_another_log(tmp_path, path):
    """Each log counts its topics from 1, so a cursor names its log; in another log it is gone, as the id of an event too."""
    found = []
    for name in "ab":
        with sk.open_log(tmp_path / name) as log:
            letters_of(log, 8)
            with serving(log) as client:
                found.append(client.get(path, params={"limit": 1}).json()["cursor"])
                for cursor in found:
                    answers = [client.get(path, params={"cursor": cursor})]
                    if path.endswith("records"):
                        headers = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
                        with client.stream("GET", path, headers=headers) as stream:
                            answers.append(stream)
                    assert {one.status_code for one in answers} == {200 if cursor == found[-1] else 410}
