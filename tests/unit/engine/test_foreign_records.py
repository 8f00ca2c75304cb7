"""Nobody but an application writes the changelogs of its stores."""

from __future__ import annotations

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.stage.context import LOG_TIMESTAMP
from streamkit.errors import ConfigError, CorruptionError, TopologyError
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.slab.frame import TopicColumns
from streamkit.log.slab.slab import write_slab
from streamkit.names import TIMESTAMP, SlabName, application_writer, changelog_topic, fresh_token
from streamkit.state.changelog import COLUMNS, read_changes
from tests.kit.engine_run import append, fresh_log
from tests.kit.sampling import TAKES_ALL

ROW = {"key": b"\0\0k", "value": b"v"}


def run(app, log):
    sk.run(app, log=log, engine="local", trigger="available_now").wait()


@pytest.mark.parametrize(
    "send",
    [
        lambda producer, topic: producer.send(topic, ROW),
        lambda producer, topic: producer.send_batch(topic, [ROW]),
        lambda producer, topic: producer.delete(topic, {"key": ROW["key"]}),
    ],
    ids=["send", "send_batch", "delete"],
)
def test_producers_write_no_changelog(send):
    """A record in a changelog that its application did not write would end it at each start: it is refused, and the application goes on."""
    app = sk.Topology("spending")
    app.stream("orders").group_by_key().count(store="counts").to("counts")
    with fresh_log() as log:
        log.create_topic("orders", "customer string", key="customer")
        with log.producer() as producer:
            producer.send("orders", {"customer": "ann"})
        run(app, log)
        with log.producer() as producer:
            with pytest.raises(ConfigError, match="'spending-counts-changelog' is the changelog of an application's store"):
                send(producer, "spending-counts-changelog")
            producer.send("orders", {"customer": "ann"})
        run(app, log)
        assert log.store("spending", "counts").to_arrow().to_pylist() == [{"customer": "ann", "count": 2}]


def test_topologies_write_no_changelog():
    """Nor may a topology."""
    app = sk.Topology("spending")
    app.stream("orders").group_by_key().count(store="counts").to("counts")
    other = sk.Topology("other")
    other.stream("orders").to("spending-counts-changelog")
    with fresh_log() as log:
        log.create_topic("orders", "customer string", key="customer")
        run(app, log)
        with pytest.raises(TopologyError, match="changelog"):
            run(other, log)


def test_a_topic_may_be_called_like_a_changelog():
    """The name alone makes no changelog."""
    with fresh_log() as log:
        log.create_topic("my-changelog", "n int")
        with log.producer() as producer:
            producer.send("my-changelog", {"n": 1})
        assert log.read("my-changelog")["n"].to_pylist() == [1]


class Keeping(sk.Processor):
    def init(self, context):
        self.store = context.store("s")

    def process(self, record):
        known = self.store.get(record["k"])
        self.store.put(record["k"], {"n": 1 if known is None else known["n"] + 1})


def kept():
    return sk.key_value_store("s", key="k string", value="n int")


WITHIN = sk.within("1 hour", grace="1 hour")
STORES = {
    "a count": lambda app: app.stream("in").group_by_key().agg(n=F.count("*"), store="s").emit("every").to("out"),
    "windows": lambda app: app.stream("in").group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(
        n=F.count("*"), store="s").emit("final").to("out"),
    "sessions": lambda app: app.stream("in").group_by_key().windowed_by(sk.session("10 ms", grace="0 ms")).agg(
        n=F.count("*"), store="s").emit("final").to("out"),
    "a table": lambda app: app.stream("in").join(app.table("in", store="s"), on="k", suffix="_2").to("out"),
    "a group of a table": lambda app: app.table("in").group_by("k").agg(n=F.count("*"), store="s").emit("every").to("out"),
    "a join of streams": lambda app: app.stream("in").join(
        app.stream("other").select(w="v"), within=WITHIN, name="s").to("out"),
    "a processor": lambda app: app.stream("in").process(Keeping, "k string", stores=[kept()], name="p").to("out"),
    "suppress": lambda app: app.table("in").suppress(until=sk.time_limit("10 ms"), name="s").to("out"),
}  # fmt: skip


def written_into(log, store, changes):
    """Write records into a changelog that are none of its store, as one epoch of its application; the place of the first."""
    state = log.catalog.applications.get("t")
    topic_id = state.stores[store].changelog_topic_id
    name = SlabName(application_writer(state.id), state.generation, state.epoch + 1, fresh_token())
    frames = []
    for partition, key, value in changes:
        columns = {"key": pa.array([key]), "value": pa.array([value], pa.binary()), TIMESTAMP: pa.array([0], LOG_TIMESTAMP)}
        frames.append((topic_id, partition, pa.RecordBatch.from_pydict(columns)))
    slab = write_slab(log.storage, name, frames, topics={topic_id: TopicColumns(changelog_topic("t", store), COLUMNS)})
    place = changes[0][0], log.catalog.manifest.end_offsets(topic_id)[changes[0][0]]
    log.catalog.epochs.commit(
        EpochCommit(
            state.id, state.generation, state.epoch + 1, fresh_token(), {}, {}, state.stream_time_ms, False, (slab,), {}, 0
        )
    )
    return place


def live_key(log, store):
    """The partition and the key of a row that a store has, that of k1 if it is there."""
    topic_id = log.catalog.applications.get("t").stores[store].changelog_topic_id
    rows: dict[tuple[int, bytes], bytes | None] = {}
    for extent in log.catalog.manifest.cut([topic_id], {}).extents:
        for keys, values, _ in read_changes(log.storage, [extent], 0, (b"", b"\xff\xff")):
            rows |= {(extent.partition, key): value for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)}
    live = sorted(place for place, value in rows.items() if value is not None)
    return min(live, key=lambda place: (b"k1" not in place[1], len(place[1])))


@pytest.mark.parametrize("name", STORES)
def test_a_foreign_record_is_named_with_the_way_out(name):
    """One that is in a changelog already ends the start with its topic, partition and offset, and what the error says works."""
    app = sk.Topology("t")
    STORES[name](app)
    with fresh_log() as log:
        for topic in ("in", "other"):
            log.create_topic(topic, "k string, v int", key="k", partitions=1)
            append(log, topic, [{"k": f"k{number}", "v": 1, "ts": number} for number in range(50)])
        run(app, log)
        store = next(one for one in sorted(log.catalog.applications.get("t").stores) if one.startswith("s"))
        place = written_into(log, store, [(*live_key(log, store), b"y")])
        append(log, "in", [{"k": f"k{number}", "v": 2, "ts": 1000 + number} for number in range(50)])
        append(log, "other", [{"k": "k1", "v": 2, "ts": 2000}])
        for _ in range(2 if TAKES_ALL else 1):
            with pytest.raises(
                CorruptionError, match=f"topic t-{store}-changelog, partition {place[0]}, offset {place[1]}: "
            ) as raised:
                run(app, log)
            found = raised.value
            assert (found.topic, found.partition, found.offset) == (f"t-{store}-changelog", *place)
            assert "`streamkit apps reset t`" in str(found) and f"app.drop_store({store!r})" in str(found)
        log.catalog.applications.reset("t")
        run(app, log)


@pytest.mark.parametrize("key", [b"\0\0\0\0x", None], ids=["no key of the store", "no value"])
def test_a_view_names_a_foreign_record_too(key):
    """Who reads the store from outside gets the same error."""
    app = sk.Topology("t")
    STORES["windows"](app)
    with fresh_log() as log:
        log.create_topic("in", "k string, v int", key="k", partitions=1)
        append(log, "in", [{"k": "a", "v": 1, "ts": 1}])
        run(app, log)
        place = written_into(log, "s", [(0, key, b"y") if key is not None else (*live_key(log, "s"), b"y")])
        with pytest.raises(CorruptionError, match=f"topic t-s-changelog, partition {place[0]}, offset {place[1]}: "):
            log.store("t", "s").to_arrow()
