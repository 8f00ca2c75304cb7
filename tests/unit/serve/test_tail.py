"""The live tail of a topic."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import shutil
import threading
import time
from functools import partial
from typing import Any

import httpx
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.serve import live, records, stores
from streamkit.serve.answers import Event
from streamkit.serve.cursors import cursor_place
from streamkit.serve.limits import ServeLimits
from streamkit.serve.server import Server
from streamkit.state import view
from tests.kit.sampling import seeds
from tests.kit.waiting import wait_until
from tests.unit.serve.conftest import events_of, send_orders, serving, streaming, totals

RECORDS = "/api/v1/topics/orders/records"


def told(stream):
    """The next event that says something."""
    return next((event, data) for event, data in stream if event not in ("comment", "begun"))


def ids(stream, count):
    """The numbers of the next so many orders, as they come."""
    found: list[int] = []
    while len(found) < count:
        event, data = told(stream)
        assert event == "records", data
        found += [one["id"] for one in data]
    return found


def begun(stream):
    """The stream, from the moment on at which it tells what comes."""
    assert next(stream) == ("begun", {})
    return stream


def test_a_record_shows_at_once(log, api):
    """What was there is not shown unless asked for; a sent record is seen within a second, most often within a quarter of it."""
    with streaming(api, RECORDS) as stream:
        begun(stream)
        took = []
        for number in range(1_000, 1_010):
            sent = time.monotonic()
            send_orders(log, number, 1)
            assert ids(stream, 1) == [number]
            took.append(time.monotonic() - sent)
        assert sorted(took)[5] < 1, took


def test_a_tail_begins_where_it_is_asked_to(log, api):
    """First what is there from an offset on, then what comes, and nothing twice; what has no room is said to be left out."""
    with streaming(api, RECORDS, offset="earliest", limit=1_000) as stream:
        there = ids(begun(stream), 60)
        send_orders(log, 60, 20)
        assert sorted(there + ids(stream, 20)) == list(range(80))
    with streaming(api, RECORDS, offset="earliest", limit=10) as stream:
        shown = ids(begun(stream), 10)
        left_out = [told(stream) for _ in range(2)]
        assert [event for event, _ in left_out] == ["skipped", "skipped"]
        assert sum(one["to"] - one["from"] for _, one in left_out) + len(shown) == 80


def test_only_what_is_asked_for(log, api):
    """A condition and columns choose; two who watch one topic by other conditions get their own records."""
    with streaming(api, RECORDS, where="id >= 103", columns="id") as few, streaming(api, RECORDS) as every:
        begun(few), begun(every)
        send_orders(log, 100, 5)
        assert sorted(ids(every, 5)) == [100, 101, 102, 103, 104]
        found = told(few)[1]
        assert [list(one) for one in found] == [["id", "_timestamp", "_partition", "_offset"]] * len(found)


def test_a_tail_goes_on_where_a_browser_lost_it(log, api):
    """The id of the last event, which a browser sends when it connects again, is where it goes on."""
    with api.stream(
        "GET", RECORDS, params={"offset": "earliest", "limit": 1_000}, headers={"Accept": "text/event-stream"}
    ) as answer:
        begun_at, read_to = itertools.islice(
            (line.removeprefix("id: ") for line in answer.iter_lines() if line.startswith("id: ")), 2
        )
    send_orders(log, 60, 5)
    headers = {"Accept": "text/event-stream", "Last-Event-ID": read_to}
    for cursor in ({}, {"cursor": begun_at}):  # that of the URL is older than the header
        with api.stream("GET", RECORDS, params=cursor, headers=headers) as answer:
            assert sorted(ids(events_of(answer.iter_lines()), 5)) == [60, 61, 62, 63, 64]


def test_the_begin_is_a_place_to_go_on_from(log, api):
    """Before there is any record, the id of the first event is where a reader that comes again goes on."""
    with api.stream("GET", RECORDS, headers={"Accept": "text/event-stream"}) as answer:
        id = next(line.removeprefix("id: ") for line in answer.iter_lines() if line.startswith("id: "))
    send_orders(log, 60, 5)
    with streaming(api, RECORDS, cursor=id) as stream:
        assert sorted(ids(stream, 5)) == [60, 61, 62, 63, 64]


def test_what_is_left_out_is_said(log, api, monkeypatch):
    """More records at once than are shown live: the newest are, and how many were not."""
    monkeypatch.setattr(records, "TAIL_SHOWN_ROWS", 3)
    with streaming(api, RECORDS) as stream:
        begun(stream)
        with log.producer() as producer:
            producer.send_batch("orders", [{"id": number, "customer": "c", "amount": 0.0} for number in range(500, 510)])
        event, data = told(stream)
        assert (event, data["records"]) == ("skipped", 7)
        assert ids(stream, 3) == [507, 508, 509]


def noted_events(answer):
    """(event, data, id) of each event."""
    id = None
    for line in answer.iter_lines():
        if line.startswith("event: "):
            event, id = line.removeprefix("event: "), None
        elif line.startswith("id: "):
            id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            yield event, json.loads(line.removeprefix("data: ")), id


def offsets_of(id):
    return {int(one): offset for one, offset in cursor_place(id, {"offsets": dict})["offsets"].items()}


def read_in_pieces(client, path, parameters, send, cut):
    """
    The places of the records that a reader shows, and how many it is told to be left out, up to the ends that `send` gives once it listens.

    It loses its connection once, after `cut` events, and goes on behind the last id, without what came after that.
    """
    last, shown, left_out, ends = None, [], 0, None
    while last is None or offsets_of(last) != ends:
        headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
        with client.stream("GET", path, params=parameters, headers=headers) as answer:
            noted = 0
            for at, (event, data, id) in enumerate(noted_events(answer)):
                ends = ends or send()
                noted += data["records"] if event == "skipped" else 0
                shown += [(one["_partition"], one["_offset"]) for one in data] if event == "records" else []
                if id is not None:
                    last, left_out, noted = id, left_out + noted, 0
                if at == cut or (id is not None and offsets_of(id) == ends):
                    cut = None
                    break
    return shown, left_out


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
@pytest.mark.parametrize("case", ["too many", "too many to read", "not decodable", "page is full", "plain"])
def test_a_connection_that_ends_between_two_events(log, api, monkeypatch, case, cut):
    """Wherever it ends, each record is shown once, or told to be left out once."""
    topic, batch, parameters = (
        "orders",
        [{"id": one, "customer": f"c{one}", "amount": 0.0} for one in range(10)],
        {},
    )
    if case == "too many":
        monkeypatch.setattr(records, "TAIL_SHOWN_ROWS", 3)
    if case == "too many to read":
        monkeypatch.setattr(records, "TAIL_READ_ROWS", 4)
    if case == "page is full":
        parameters = {"offset": "earliest", "limit": 20}
    count = 70 if parameters else 10
    if case == "not decodable":
        topic, batch = "opaque", pa.table({"key": pa.array([b"a"] * 10), "value": pa.array([b"1"] * 7 + [b"no json"] * 3)})

    def send():
        with log.producer() as producer:
            producer.send_batch(topic, batch)
        return dict(log.end_offsets(topic))

    shown, left_out = read_in_pieces(api, f"/api/v1/topics/{topic}/records", parameters, send, cut)
    assert len(set(shown)) == len(shown) and len(shown) + left_out == count
    assert shown


def test_a_record_that_cannot_be_decoded(log, api):
    """It is left out with its reason, and the tail goes on."""
    with streaming(api, "/api/v1/topics/opaque/records") as stream:
        begun(stream)
        with log.producer() as producer:
            producer.send_batch("opaque", pa.table({"key": pa.array([b"a", b"b"]), "value": pa.array([b"1", b"no json"])}))
        assert told(stream)[1][0]["value"] == 1
        event, data = told(stream)
        assert (event, data["records"], "offset 1" in data["why"]) == ("skipped", 1, True)
        with log.producer() as producer:
            producer.send("opaque", {"key": "c", "value": 3})
        assert told(stream)[1][0]["value"] == 3


def test_a_topic_that_is_deleted(log, api):
    """Who watches it is told, and the stream ends."""
    with streaming(api, RECORDS) as stream:
        begun(stream)
        log.delete_topic("orders")
        event, data = told(stream)
        assert (event, data["error"]) == ("problem", "TopicNotFound")
        assert list(stream) == []


def test_a_topic_that_is_made_again(log, api):
    """Who watches the one before is told, and gets none of the new records."""
    with streaming(api, RECORDS) as stream:
        begun(stream)
        log.delete_topic("orders")
        log.create_topic("orders", "id bigint, customer string, amount double", key="customer", partitions=2)
        send_orders(log, 900, 3)
        assert [event for event, _ in stream if event != "comment"] == ["problem"]


def test_nothing_is_said_of_other_partitions(log, api):
    """A stream of one partition has its last records, and no event of records of another that nobody asked for."""
    with streaming(api, RECORDS, partition=0, offset=-2) as stream:
        event, found = told(stream)
        assert event == "records" and {row["_partition"] for row in found} == {0} and len(found) == 2
        with log.producer() as producer:
            producer.send_batch(
                "orders", [{"id": 7_000 + number, "customer": f"c{number}", "amount": 1.0} for number in range(20)]
            )
        event, found = told(stream)
        assert event == "records" and {row["_partition"] for row in found} == {0}


def test_errors_of_streams_have_a_status(refused):
    """What is wrong with the question is said before a stream begins."""
    events = {"Accept": "text/event-stream"}
    assert refused(RECORDS, headers=events, where="price > 1")[0] == 400
    assert refused(RECORDS, headers=events, limit=10**9)[0] == 413
    assert refused("/api/v1/topics/nothing/records", headers=events)[0] == 404


def test_so_many_streams_at_most(log, monkeypatch):
    """One more than may be open is refused; one that its reader left makes room."""
    monkeypatch.setattr(live, "ALIVE_SECONDS", 0.1)  # after which the reader is missed
    with serving(log, limits=ServeLimits(streams=2)) as client, streaming(client, RECORDS) as first:
        begun(first)
        with streaming(client, RECORDS) as second:
            begun(second)
            with client.stream("GET", RECORDS, headers={"Accept": "text/event-stream"}) as answer:
                assert answer.status_code == 429 and json.loads(answer.read())["error"] == "TooManyStreams"
            assert client.get("/api/v1/topics").status_code == 200

        def is_taken():
            with client.stream("GET", RECORDS, headers={"Accept": "text/event-stream"}) as again:
                return again.status_code == 200

        wait_until(is_taken)


@pytest.mark.parametrize("is_http2", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        ("GET", RECORDS, None),
        ("GET", "/api/v1/sql/rows?text=SELECT+id+FROM+orders+EMIT+CHANGES", None),
        ("POST", "/query-stream", {"sql": "SELECT id FROM orders EMIT CHANGES;"}),
        ("POST", "/query", {"ksql": "PRINT orders;", "streamsProperties": {}}),
    ],
    ids=lambda ask: ask[1].partition("?")[0],
)
def test_who_goes_away_from_a_silent_stream_makes_room_at_once(log, monkeypatch, ask, is_http2):
    """Nothing is written to a stream on which nothing comes, so no write says that its reader has gone."""
    monkeypatch.setattr(live, "ALIVE_SECONDS", 1_000)
    method, path, body = ask
    headers = {"Accept": "text/event-stream"} if body is None else {}
    with serving(log, limits=ServeLimits(streams=1)) as server:

        def is_taken(client):
            with client.stream(method, path, json=body, headers=headers) as answer:
                if answer.status_code == 200:
                    next(answer.iter_raw())
                return answer.status_code == 200

        taken = 0
        for _ in range(3):
            with httpx.Client(base_url=server.base_url, http1=not is_http2, http2=is_http2, timeout=60) as client:
                wait_until(partial(is_taken, client))  # the one place is free again, though nothing was written
                taken += 1
        assert taken == 3


def test_a_slow_store_stops_no_tail(worked, monkeypatch):
    """While all looks wait for a store, records still show, and one more look is told to come again; then a late answer is 504."""
    may_go_on, really_open = threading.Event(), view.open_view

    def open_slowly(*arguments):
        may_go_on.wait(60)
        return really_open(*arguments)

    monkeypatch.setattr(stores, "open_view", open_slowly)
    limits = ServeLimits(looks=1, waiting_looks=1, answer_seconds=1.0)
    path = "/api/v1/applications/totals/stores/per_customer"
    with Server(worked, port=0, limits=limits) as server, httpx.Client(base_url=server.address, timeout=30) as client:
        with streaming(client, RECORDS) as stream:
            begun(stream)
            statuses: list[int] = []
            askers = [
                threading.Thread(target=lambda: statuses.append(httpx.get(server.address + path).status_code)) for _ in range(4)
            ]
            for asker in askers:
                asker.start()
            wait_until(lambda: server.is_at_work)
            send_orders(worked, 2_000, 1)
            assert ids(stream, 1) == [2_000]
            for asker in askers:
                asker.join()
            assert set(statuses) == {503, 504}
            may_go_on.set()
        wait_until(lambda: client.get(path, params={"customer": "c1"}).status_code == 200)


def test_who_has_left_costs_nothing(log, api):
    """A reader that goes away in the middle is forgotten, and others go on."""
    for _ in range(3):
        with streaming(api, RECORDS) as stream:
            begun(stream)
    with streaming(api, RECORDS) as stream:
        begun(stream)
        send_orders(log, 300, 3)
        assert sorted(ids(stream, 3)) == [300, 301, 302]


def offered(viewer, count):
    """Offer so many events of ten records each to a viewer that reads nothing."""
    for number in range(count):
        viewer.offer(Event("event", str(number), f"id {number}", 10))


def test_a_reader_that_is_slow_is_told_what_it_missed():
    """The queue of a viewer is short: the records that have no room are counted, and said before what comes next."""
    viewer = live.Viewer("query")
    offered(viewer, live.QUEUED_EVENTS + 3)
    taken = [viewer._queue.get_nowait() for _ in range(2)]
    viewer.offer(Event("later", "0", records=1))
    viewer.end()
    rest = list(itertools.takewhile(lambda text: text is not None, iter(viewer._queue.get_nowait, None)))
    assert taken == [Event("event", number, f"id {number}").text for number in "01"]
    assert '"records": 30' in rest[-2] and rest[-1] == Event("later", "0").text
    assert f"id: id {live.QUEUED_EVENTS + 2}\n" in rest[-2]  # or who comes again would read what was told to be left out


def test_a_reader_that_is_slow_keeps_few_bytes():
    """However large the events are: one fits, the next ones only as far as there is room; what has no room is told as soon as there is."""
    viewer = live.Viewer("query")
    half = "x" * (live.QUEUED_CHARACTERS // 2)

    async def read(count):
        texts = viewer.each()
        return [await anext(texts) for _ in range(count)]

    viewer.offer(Event("event", 3 * half, "id 0", 10))
    viewer.offer(Event("event", "1", "id 1", 10))
    first, second = asyncio.run(read(2))
    assert len(first) > 3 * len(half) and '"records": 10' in second and "id: id 1\n" in second
    for number in range(2, 6):
        viewer.offer(Event("event", half[100:], f"id {number}", 10))
    *whole, last = asyncio.run(read(3))
    assert [len(text) > len(half) - 200 for text in whole] == [True, True] and '"records": 20' in last and "id: id 5\n" in last


def test_a_reader_that_is_slow_is_told_at_once_when_it_reads_again():
    """Nothing has to come for that; the end and its reason are never left out."""

    async def read(viewer, count):
        texts = viewer.each()
        return [await anext(texts) for _ in range(count)]

    viewer = live.Viewer("query")
    offered(viewer, live.QUEUED_EVENTS + 2)
    assert '"records": 20' in asyncio.run(read(viewer, live.QUEUED_EVENTS + 1))[-1]
    offered(viewer, live.QUEUED_EVENTS + 1)
    viewer.end("the reason")
    found = asyncio.run(read(viewer, live.QUEUED_EVENTS + 2))
    assert '"records": 10' in found[-2] and found[-1] == "the reason"


def test_a_reader_that_comes_again_misses_nothing(log, api):
    """By the id of its last event it gets all that came while it was away, also more than a page of the first request had."""
    headers = {"Accept": "text/event-stream"}
    with api.stream("GET", RECORDS, params={"offset": "earliest", "limit": 60}, headers=headers) as answer:
        *_, id = itertools.islice((line.removeprefix("id: ") for line in answer.iter_lines() if line.startswith("id: ")), 2)
    send_orders(log, 60, 900)
    with api.stream("GET", RECORDS, params={"limit": 60}, headers={**headers, "Last-Event-ID": id}) as answer:
        stream = begun(events_of(answer.iter_lines()))
        assert sorted(ids(stream, 900)) == list(range(60, 960))
        send_orders(log, 960, 1)
        assert ids(stream, 1) == [960]


@pytest.mark.parametrize("limit", ["rows", "bytes"])
@pytest.mark.parametrize("comes_again", [True, False])
def test_the_older_records_are_left_out(log, monkeypatch, limit, comes_again):
    """Whoever watched all the time and who comes again by a cursor get the newest records of each partition, where not all have room."""
    monkeypatch.setattr(records, "TAIL_READ_ROWS", 50 if limit == "rows" else 10_000)
    limits = ServeLimits(rows=50) if limit == "rows" else ServeLimits(bytes=100_000)
    log.create_topic("large", "id bigint, text string", partitions=2)
    path, headers = "/api/v1/topics/large/records?limit=20", {"Accept": "text/event-stream"}
    with serving(log, limits=limits) as client, log.producer() as producer:
        with client.stream("GET", path, headers=headers) as answer:
            watched = noted_events(answer)
            _, _, cursor = next(watched)
            for _ in range(8):
                producer.send_batch("large", [{"id": number, "text": "x" * 2_000} for number in range(75)])
            producer.flush()
            if not comes_again:
                found = until_all(watched, 600)
        if comes_again:
            with client.stream("GET", path, headers={**headers, "Last-Event-ID": cursor}) as answer:
                found = until_all(noted_events(answer), 600)
    shown = [(one["_partition"], one["_offset"]) for event, data, _ in found if event == "records" for one in data]
    assert sorted(shown) == shown and 20 <= len(shown) <= 60
    for partition, end in log.end_offsets("large").items():
        newest = [offset for one, offset in shown if one == partition]
        assert newest == [*range(end - len(newest), end)] and len(newest) >= 10


def until_all(events, count):
    """The events up to that by which so many records are shown or said to be left out."""
    found, counted = [], 0
    while counted < count:
        found.append(next(events))
        event, data, _ = found[-1]
        counted += len(data) if event == "records" else data.get("records", 0)
    return found


def test_a_cursor_of_a_log_that_is_an_older_copy_now(log, tmp_path):
    """It is told that what it stands behind is not there, and neither waits for new records nor leaves them out."""
    shutil.copytree(log.root, tmp_path / "copy")
    send_orders(log, 60, 20)
    with serving(log) as client:
        cursor = client.get(RECORDS, params={"limit": 200}).json()["cursor"]
    with sk.open_log(tmp_path / "copy") as copy, serving(copy) as client:
        for accept in ("application/json", "text/event-stream"):
            answer = client.get(RECORDS, params={"cursor": cursor}, headers={"Accept": accept})
            assert answer.status_code == 410 and "the log is an older copy" in answer.json()["message"]


@pytest.mark.parametrize("seed", seeds(4))
def test_who_breaks_off_anywhere_counts_each_record_once(tmp_path, seed):
    """
    By an id in the header, in the URL, or an old one in the URL and the last one in the header, with any `limit` and limits of the server:
    what is shown and what is said to be left out are all records, each once, and nothing is left out that has room behind a cursor.
    """
    chance = random.Random(seed)
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("orders", "id bigint", partitions=chance.choice([1, 3]))
        limits = ServeLimits(rows=chance.choice([7, 50, 1_000]))
        with serving(log, limits=limits) as client, log.producer() as producer:
            sent, counted, shown, cursor, begun_at = 0, 0, set[int](), None, None
            while sent < 2_000 or counted < sent:
                if sent < 2_000:
                    more = chance.choice([1, 20, 600])
                    producer.send_batch("orders", [{"id": number} for number in range(sent, sent + more)])
                    producer.flush()
                    sent += more
                way = chance.choice(["header", "url", "both"])
                parameters: dict[str, Any] = {"limit": min(limits.rows, chance.choice([1, 5, 1_000]))}
                headers = {"Accept": "text/event-stream"}
                if cursor is None:
                    parameters["offset"] = "earliest"
                if cursor is not None and way != "url":
                    headers["Last-Event-ID"] = cursor
                if cursor is not None and way != "header":
                    parameters["cursor"] = cursor if way == "url" else begun_at
                has_room = cursor is not None and sent - counted <= limits.rows
                with client.stream("GET", RECORDS, params=parameters, headers=headers) as answer:
                    for id, event, data in itertools.islice(identified(answer.iter_lines()), chance.randrange(1, 4)):
                        cursor, begun_at = id or cursor, begun_at or id
                        assert event != "skipped" or not has_room
                        if event == "records":
                            assert shown.isdisjoint(one["id"] for one in data)
                            shown.update(one["id"] for one in data)
                        counted += len(data) if event == "records" else data.get("records", 0)
                        assert counted <= sent
                        if counted >= sent:
                            break  # nothing more comes


def identified(lines):
    """The events of a stream, each with its id, its name and its data."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        else:
            if "event" in fields:
                yield fields.get("id"), fields["event"], json.loads(fields["data"])
            fields = {}


@pytest.mark.parametrize("gone", ["", "catalog.db"])
def test_a_log_that_is_deleted_underneath_ends_its_streams(tmp_path, gone):
    """Within a look each stream says so, and ends; so it is when the file of the catalog alone is gone, in which the server could go on."""
    with sk.open_log(tmp_path / "gone") as log:
        log.create_topic("orders", "id bigint, customer string, amount double", partitions=1)
        sk.run(totals(), log=log, engine="local", trigger="available_now").wait()
        with (
            serving(log) as client,
            streaming(client, RECORDS) as records,
            streaming(client, "/api/v1/applications/totals/events") as states,
        ):
            begun(records)
            assert told(states)[0] == "state"
            (tmp_path / "gone" / gone).rename(tmp_path / "away")
            for stream in (records, states):
                told_of = [(event, data) for event, data in stream if event not in ("comment", "state")]
                assert [(event, data["error"]) for event, data in told_of] == [("problem", "LogGone")]
            for path in ("/connectors", "/health/ready", "/api/v1/log/check"):
                assert client.get(path).status_code == 503


def test_a_schema_that_comes_meanwhile(log, api):
    """Records under a schema that the topic of Avro gets while somebody watches it are shown with their fields."""
    fields = [{"name": name, "type": ["null", "int"], "default": None} for name in ("v", "z")]
    first, second = ({"type": "record", "name": "Tailed", "fields": fields[:count]} for count in (1, 2))
    log.create_topic("read", format="avro", format_schema=first, partitions=1)

    def send(value):
        with log.producer() as producer:
            producer.send("read", {"key": "k", "value": value})

    with streaming(api, "/api/v1/topics/read/records") as stream:
        begun(stream)
        send({"v": 1})
        assert told(stream)[1][0]["value"] == {"v": 1}
        log.alter_topic("read", format_schema=second)
        send({"v": 2, "z": 9})
        event, data = told(stream)
        assert (event, data[0]["value"] if event == "records" else data) == ("records", {"v": 2, "z": 9})
