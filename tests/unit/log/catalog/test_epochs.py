"""Promises of the epoch commit: all or nothing, in turn, by the newest generation only."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, EpochFailedError, FencedError, StreamKitError, TopicExistsError, TopicNotFoundError
from streamkit.log.catalog import epochs
from streamkit.log.catalog.applications import StoreDeclaration
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochCommit, added
from streamkit.log.maintenance.orphans import collect_orphans
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.slab.slab import read_frame, write_slab
from streamkit.log.storage.storage import MemoryStorage
from streamkit.log.topic.settings import SettingValue
from streamkit.log.topic.topic import declare_topic
from streamkit.names import SlabName, application_writer, fresh_token


class Application:
    """A catalog with a topic to read and one to write, and a started application."""

    def __init__(self, database):
        self.catalog = Catalog(database, HandClock(1000))
        self.storage = MemoryStorage()
        self.source = self.catalog.topics.create(declare_topic("source", "v string", partitions=2))
        self.sink = self.catalog.topics.create(declare_topic("sink", "v string", partitions=2))
        self.state = self.start()

    def start(self, **changes):
        changelog = declare_topic(
            "app-counts-changelog", "v string", key="v", config={"cleanup.policy": "compact"}, internal=True
        )
        arguments = {
            "tasks": None,
            "default_tasks": 2,
            "key_groups": 128,
            "program_hash": "h",
            "stores": [StoreDeclaration("counts", changelog)],
        }
        self.state = self.catalog.applications.start("app", **(arguments | changes))
        return self.state

    def slab(self, epoch, *rows):
        """Stage a slab with frames of (partition of the sink, values)."""
        name = SlabName(application_writer(self.state.id), self.state.generation, epoch, fresh_token())
        return write_slab(self.storage, name, [(self.sink.id, partition, batch_of(*values)) for partition, values in rows])

    def epoch(self, number, *slabs, **changes):
        values = {
            "application_id": self.state.id, "generation": self.state.generation, "epoch": number, "token": fresh_token(),
            "before": {}, "after": {}, "stream_time_ms": number, "drained": False, "slabs": slabs, "metrics": {"rows": 1}, "timestamp_ms": 5,
        }  # fmt: skip
        return EpochCommit(**(values | changes))

    def sink_rows(self):
        extents = self.catalog.manifest.cut([self.sink.id], {}).extents
        return {
            partition: [
                value
                for e in extents
                if e.partition == partition
                for value in read_frame(self.storage, e).column("v").to_pylist()
            ]
            for partition in (0, 1)
        }


def batch_of(*values):
    times = pa.array(range(len(values)), pa.int64()).view(TIMESTAMP_TYPE)
    return pa.record_batch({"v": pa.array(values, pa.string()), "_timestamp": times})


@pytest.fixture
def app(place):
    """The application, on every kind of catalog."""
    found = Application(place.open())
    yield found
    found.catalog.close()


def snapshot(app):
    """All that a commit changes."""
    state = app.catalog.applications.get("app")
    return (
        state,
        app.catalog.manifest.end_offsets(app.sink.id),
        app.catalog.manifest.cut([app.sink.id], {}),
        app.catalog.epochs.last(state.id),
    )


def test_offsets_follow_slabs_and_frames(app):
    """Rows get their offsets in the order of slabs, then of frames, dense and from where the partition ended."""
    app.catalog.epochs.commit(app.epoch(1, app.slab(1, (0, "ab"), (1, "x"), (0, "c")), app.slab(1, (0, "d"))))
    extents = app.catalog.epochs.commit(app.epoch(2, app.slab(2, (1, "y"), (0, "e"))))

    assert app.sink_rows() == {0: ["a", "b", "c", "d", "e"], 1: ["x", "y"]}
    assert [(e.partition, e.base_offset, e.next_offset) for e in extents] == [(1, 1, 2), (0, 4, 5)]
    assert app.catalog.manifest.end_offsets(app.sink.id) == {0: 5, 1: 2}
    assert app.catalog.manifest.check() == ()


@pytest.mark.every_catalog
def test_state_after_a_commit(app):
    """Epoch, token, stream time, positions and metrics are those of the last commit; numbers add up."""
    app.catalog.epochs.commit(app.epoch(1, app.slab(1, (0, "ab"))))
    first = app.epoch(2, before={app.sink.id: {0: 0}}, after={app.sink.id: {0: 2}}, metrics={"rows": 2, "late": {"a": 1}})
    app.catalog.epochs.commit(first)
    second = app.epoch(3, drained=True, metrics={"rows": 3, "late": {"a": 1, "b": 5}, "mode": "x"}, stream_time_ms=None)
    app.catalog.epochs.commit(second)

    state = app.catalog.applications.get("app")
    assert (state.epoch, state.token, state.stream_time_ms, state.drained) == (3, second.token, None, True)
    assert state.positions == {app.sink.id: {0: 2}}
    assert state.metrics == {"rows": 6, "late": {"a": 2, "b": 5}, "mode": "x"}
    assert app.catalog.epochs.tokens_since(state.id, since=2) == {2: first.token, 3: second.token}
    assert app.catalog.epochs.token_of(state.id, 2) == first.token
    assert app.catalog.epochs.token_of(state.id, 4) is None
    assert [(record.epoch, record.metrics["rows"]) for record in app.catalog.epochs.last(state.id, count=2)] == [(2, 2), (3, 3)]


@pytest.mark.every_catalog
def test_an_older_generation_is_fenced(app):
    """After a second start the first cannot commit; the message names both generations and nothing changes."""
    stale = app.epoch(1, app.slab(1, (0, "a")))
    app.start()
    before = snapshot(app)

    with pytest.raises(FencedError, match="generation 1 cannot commit, generation 2 has started"):
        app.catalog.epochs.commit(stale)
    assert snapshot(app) == before


def test_a_commit_made_twice_counts_once(app):
    """The same epoch under the same token changes nothing the second time and returns the same extents, even after a new start."""
    epoch = app.epoch(1, app.slab(1, (0, "a")))
    extents = app.catalog.epochs.commit(epoch)
    app.start()
    before = snapshot(app)

    assert app.catalog.epochs.commit(epoch) == extents
    assert snapshot(app) == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda app: {"epoch": 1}, "epoch 1 was the last; expected 2"),
        (lambda app: {"epoch": 3}, "expected 2"),
        (lambda app: {"application_id": 99}, "does not exist"),
        (
            lambda app: {"before": {app.sink.id: {0: 1}}, "after": {app.sink.id: {0: 2}}},
            "starts at offset 1, the catalog is at 0",
        ),
        (lambda app: {"after": {app.sink.id: {0: 2}}}, "starts at offset None"),
        (lambda app: {"before": {app.sink.id: {0: 0}}, "after": {app.sink.id: {0: 3}}}, "expected one from 0 to 2"),
        (lambda app: {"before": {app.sink.id: {0: 0}}, "after": {app.sink.id: {0: -1}}}, "expected one from 0 to 2"),
        (lambda app: {"before": {app.sink.id: {7: 0}}, "after": {app.sink.id: {7: 0}}}, "does not exist"),
        (lambda app: {"before": {77: {0: 0}}, "after": {77: {0: 0}}}, "the topic was deleted"),
        (lambda app: {"slabs": (app.slab(1, (0, "z")),)}, "cannot be adopted"),
        (lambda app: {"slabs": (replace(app.slab(2, (0, "z")), path="slabs/x"),)}, "cannot be adopted"),
        (lambda app: {"slabs": (app.slab(2, (0, "z")), app.slab(2, (5, "z")))}, "rows for partition 5"),
    ],
)
def test_what_does_not_fit_changes_nothing(app, change, reason):
    """An epoch that is out of turn, starts elsewhere, reads beyond the end or names foreign slabs is refused whole."""
    app.catalog.epochs.commit(app.epoch(1, app.slab(1, (0, "ab"))))
    changes = change(app)
    before = snapshot(app)

    with pytest.raises(EpochFailedError, match=reason):
        app.catalog.epochs.commit(replace(app.epoch(2, app.slab(2, (0, "q"))), **changes))
    assert snapshot(app) == before


def test_a_slab_is_adopted_once(app):
    """Nobody can make the same slab visible twice."""
    slab = app.slab(1, (0, "a"))
    before = snapshot(app)

    with pytest.raises(StreamKitError, match=r"(?i)unique"):
        app.catalog.epochs.commit(app.epoch(1, slab, slab))
    assert snapshot(app) == before


def test_a_topic_created_anew_is_another_topic(app):
    """An epoch that was planned on a topic which was deleted and created again fails, instead of mixing the two."""
    epoch = app.epoch(1, app.slab(1, (0, "a")), before={app.source.id: {0: 0}}, after={app.source.id: {0: 0}})
    app.catalog.topics.delete("source")
    app.catalog.topics.create(declare_topic("source", "v string", partitions=2))

    with pytest.raises(EpochFailedError, match="deleted and created again"):
        app.catalog.epochs.commit(epoch)
    with pytest.raises(TopicNotFoundError, match="created again"):
        app.catalog.topics.get_by_id(app.source.id)


def test_history_is_bounded(app, monkeypatch):
    """Old epochs are forgotten but for the first of each generation, so that the catalog grows by starts and not by epochs."""
    monkeypatch.setattr(epochs, "HISTORY_EPOCHS", 3)
    assert app.catalog.epochs.generation_start(app.state.id) == (0, "")
    committed, starts = {}, {1: 1, 2: 1, 3: 3, 4: 3, 5: 3, 6: 3, 7: 3, 8: 8, 9: 9, 10: 9, 11: 9, 12: 9, 13: 9, 14: 9}
    for number, start in starts.items():
        if start == number > 1:
            app.start()
            app.start()  # which commits nothing
        epoch = app.epoch(number)
        app.catalog.epochs.commit(epoch)
        committed[number] = epoch.token
        assert app.catalog.epochs.generation_start(app.state.id) == (start, committed[start])

    kept = [1, 3, 8, 9, 12, 13, 14]
    assert app.catalog.epochs.tokens_since(app.state.id) == {number: committed[number] for number in kept}
    assert [record.epoch for record in app.catalog.epochs.last(app.state.id, count=3)] == [12, 13, 14]


def test_starts_count_generations_and_keep_choices(app):
    """Each start is a new generation; tasks are remembered unless given, store numbers never change."""
    assert (app.state.generation, app.state.tasks, app.state.epoch, app.state.stream_time_ms) == (1, 2, 0, None)
    again = app.start(default_tasks=9, program_hash="other")
    assert (again.generation, again.tasks, again.program_hash) == (2, 2, "h")
    assert again.stores == app.state.stores

    more = StoreDeclaration("more", declare_topic("app-more-changelog", "v string", key="v", internal=True))
    third = app.start(tasks=5, stores=[more])
    assert (third.generation, third.tasks, third.program_hash) == (3, 5, "other")
    assert {name: store.number for name, store in third.stores.items()} == {"counts": 0, "more": 1}
    assert app.catalog.topics.get_by_id(third.stores["more"].changelog_topic_id).name == "app-more-changelog"


@pytest.mark.parametrize("change", [{"key_groups": 64}, {"tasks": 0}, {"tasks": "4"}])
def test_starts_that_cannot_be_are_refused(app, change):
    """Other key groups or an impossible number of tasks leave the running generation in force."""
    with pytest.raises(ConfigError):
        app.catalog.applications.start(
            "app", **({"tasks": None, "default_tasks": 2, "key_groups": 128, "program_hash": "h", "stores": []} | change)
        )
    assert app.catalog.applications.get("app").generation == 1


def test_a_reset_application_begins_anew(app):
    """After a reset positions, epochs, stores and their changelogs are gone; outputs stay, and older runs are fenced."""
    stale = app.epoch(2)
    app.catalog.epochs.commit(app.epoch(1, app.slab(1, (0, "a")), before={app.sink.id: {0: 0}}, after={app.sink.id: {0: 0}}))
    app.catalog.applications.reset("app")

    state = app.catalog.applications.get("app")
    assert (state.epoch, state.token, state.stream_time_ms, state.positions, state.stores, state.metrics) == (
        0,
        "",
        None,
        {},
        {},
        {},
    )
    assert app.catalog.topics.find("app-counts-changelog") is None
    assert app.sink_rows()[0] == ["a"]
    with pytest.raises(FencedError):
        app.catalog.epochs.commit(stale)
    assert app.start(key_groups=64).key_groups == 64


def test_a_changelog_cannot_be_deleted_under_its_store(app):
    """A topic that backs a store is protected until the application is reset."""
    with pytest.raises(ConfigError, match="backs the store counts of app"):
        app.catalog.topics.delete("app-counts-changelog")


def test_a_changelog_has_the_settings_of_the_last_start(app):
    """A start by which a changelog has other settings changes them, and nothing else of it; another schema is refused."""
    config: dict[str, SettingValue] = {"cleanup.policy": "compact", "segment.ms": 5}
    changelog = declare_topic("app-counts-changelog", "v string", key="v", config=config, internal=True)
    before = app.catalog.topics.get("app-counts-changelog")
    app.start(stores=[StoreDeclaration("counts", changelog)])
    after = app.catalog.topics.get("app-counts-changelog")
    assert (after.setting("segment.ms"), after.id, after.schema) == ("5", before.id, before.schema)

    other = declare_topic("app-counts-changelog", "v string, w string", key="v", config=config, internal=True)
    with pytest.raises(TopicExistsError):
        app.start(stores=[StoreDeclaration("counts", other)])


def test_unknown_applications_are_named(app):
    """The message lists those that exist."""
    with pytest.raises(ConfigError, match="application 'other' does not exist; there are app"):
        app.catalog.applications.get("other")


def test_orphans_are_collected_and_nothing_else(app):
    """Unreferenced slabs of older generations and of commits that are over go; committed ones, and those of the commit in work, stay."""
    committed = app.slab(1, (0, "a"))
    loser = app.slab(1, (0, "a"))
    app.catalog.epochs.commit(app.epoch(1, committed))
    void = app.slab(2, (0, "b"))
    app.start()
    working = app.slab(2, (0, "c"))
    writer = application_writer(app.state.id)

    assert set(collect_orphans(app.storage, app.catalog, writer, app.state.generation, 1)) == {loser.path, void.path}
    assert app.storage.list("slabs") == tuple(sorted((committed.path, working.path)))


def test_a_slab_committed_during_the_collection_stays(app):
    """Files are listed before references are read: a commit in between cannot lose its slab."""
    slab = app.slab(1, (0, "a"))
    listing = app.storage.list

    def list_then_commit(folder):
        found = listing(folder)
        app.catalog.epochs.commit(app.epoch(1, slab))
        return found

    app.storage.list = list_then_commit
    assert collect_orphans(app.storage, app.catalog, slab.writer, 2, 1) == ()
    assert app.storage.exists(slab.path)


def test_slabs_without_rows_left_are_forgotten(app):
    """Deleting a topic names the slabs that only it used, and keeps those that others share."""
    other = app.catalog.topics.create(declare_topic("other", "v string"))
    name = SlabName(application_writer(app.state.id), 1, 1, fresh_token())
    shared = write_slab(app.storage, name, [(app.sink.id, 0, batch_of("a")), (other.id, 0, batch_of("b"))])
    alone = app.slab(1, (0, "c"))
    app.catalog.epochs.commit(app.epoch(1, shared, alone))

    assert app.catalog.topics.delete("sink") == (alone.path,)
    assert app.catalog.manifest.referenced(shared.writer) == {shared.path}
    assert app.catalog.topics.delete("other") == (shared.path,)


def test_extents_are_found_from_any_offset(app):
    """Extents of a range begin with the one that holds its first offset and end with the one that holds its last."""
    for number, values in enumerate(("ab", "cde", "f"), 1):
        app.catalog.epochs.commit(app.epoch(number, app.slab(number, (0, values))))

    def found(start, end=None):
        return [(e.base_offset, e.next_offset) for e in app.catalog.manifest.extents(app.sink.id, 0, start, end)]

    every = [(0, 2), (2, 5), (5, 6)]
    assert [found(start) for start in range(7)] == [every, every, every[1:], every[1:], every[1:], every[2:], []]
    assert [found(0, end) for end in range(4)] == [[], every[:1], every[:1], every[:2]]
    cut = app.catalog.manifest.cut([app.sink.id, app.source.id], {app.sink.id: {0: 3}}, {app.sink.id: {0: 5}})
    assert ([(e.base_offset, e.next_offset) for e in cut.extents], cut.end_offsets[app.source.id]) == ([(2, 5)], {0: 0, 1: 0})


def test_a_hole_in_the_manifest_is_reported(app):
    """Offsets that are missing or counted twice are found by the check."""
    for number in (1, 2, 3):
        app.catalog.epochs.commit(app.epoch(number, app.slab(number, (0, "ab"))))
    with app.catalog.database.write() as transaction:
        transaction.execute("DELETE FROM extent WHERE base_offset = 2")

    assert app.catalog.manifest.check() == (f"topic id {app.sink.id}, partition 0: the offsets 2 to 3 are missing",)


def test_metrics_add_up():
    """Numbers add, dicts add by key, of texts and flags the newest counts; what was is not changed."""
    totals = {"a": 1, "d": {"x": 1.5}, "s": "old"}

    assert added(totals, {"a": 2, "b": 3, "d": {"x": 1, "y": 2}, "s": "new", "flag": True}) == {
        "a": 3, "b": 3, "d": {"x": 2.5, "y": 2}, "s": "new", "flag": True,
    }  # fmt: skip
    assert totals == {"a": 1, "d": {"x": 1.5}, "s": "old"}
