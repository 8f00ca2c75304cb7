"""Promises of the last resort: without any catalog, every row of every readable frame comes into a new log, and nothing is made up."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from streamkit.clock import HandClock
from streamkit.errors import ConfigError, StorageFullError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log import salvage as salvage_module
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.maintenance.trash import empty_trash
from streamkit.log.opening import open_log
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.salvage import salvage
from streamkit.log.slab.slab import read_reference, write_slab
from streamkit.names import SlabName, fresh_token, producer_writer
from tests.kit import busy_database as busy
from tests.kit.places import inline_slabs

pytestmark = pytest.mark.usefixtures("slabs_in_files")

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
SEEDS = range(100 if IS_TORTURE else 1)
SMALL_SEEDS = range(300 if IS_TORTURE else 3)
NEVER_MS = 1 << 62
LOG_COLUMNS = ("_timestamp", "_deleted")


def lose_catalog(folder):
    """Everything goes that a catalog could be rebuilt from."""
    for file in Path(folder).glob("catalog.db*"):
        file.unlink()
    for name in ("backups", "journal"):
        shutil.rmtree(Path(folder) / name, ignore_errors=True)


def crash():
    raise SimulatedCrash


def rows_of(log, topic, partition):
    """The rows of a partition in their order, each with the columns that are not null."""
    columns = [*log.topic(topic).schema.names, *LOG_COLUMNS]
    table = log.read(topic, columns, partitions=[partition])
    return [tuple((name, row[name]) for name in columns if row[name] is not None) for row in table.to_pylist()]


def contents(log):
    """The rows of each partition, by topic id and partition."""
    topics = [log.topic(name) for name in log.topics(internal=True)]
    found = {
        (topic.id, partition): rows_of(log, topic.name, partition) for topic in topics for partition in range(topic.partitions)
    }
    return {place: rows for place, rows in found.items() if rows}


def salvaged_contents(folder):
    """The same of a salvaged log, by the ids of the topics in the old one."""
    with open_log(folder) as log:
        return {
            (int(name.split("-")[1]), partition): rows
            for name in log.topics()
            for partition in range(log.topic(name).partitions)
            if (rows := rows_of(log, name, partition))
        }


def numbers(folder, topic="recovered-1"):
    with open_log(folder) as log:
        return log.read(topic)["n"].to_pylist()


def append(log, *values, producer=None, topic="t"):
    """A commit a row."""
    with producer or log.producer() as sender:
        for value in values:
            sender.send(topic, {"n": value}, timestamp_ms=value)
            sender.flush()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def log(folder):
    with open_log(folder) as log:
        log.create_topic("t", "n bigint", partitions=1, config={"retention.ms": -1})
        yield log


def lost(log):
    """The folder of a log that is closed and has lost its catalog."""
    log.close()
    lose_catalog(log.root)
    return log.root


@pytest.fixture(params=[0, 1], ids=["own", "shared"])
def frames(request):
    """Each partition has frames of its own in the files of slabs, or they share them."""
    with inline_slabs(request.param):  # no slab has as few bytes as one
        yield


@pytest.mark.usefixtures("frames")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_row_comes_back(folder, seed, record_property):
    """After all kinds of acts, the new log has every row that the old one had, as often, in its partition; the old one is left as it was."""
    with open_log(folder) as log:
        busy.create_topics(log)
        busy.work(log, random.Random(seed), 60)
        expected = contents(log)
    lose_catalog(folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = salvage(str(folder))

    found = salvaged_contents(done.target)
    for place, rows in expected.items():
        assert not Counter(rows) - Counter(found[place]), place
    record_property("tried", {"rows of logs without a catalog salvaged": done.rows})
    assert done.is_complete and done.rows == sum(map(len, found.values()))
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert check_folder(done.target, deep=True).is_clean


@pytest.mark.usefixtures("frames")
def test_without_maintenance_nothing_comes_twice(folder):
    """Where all slabs were committed and none rewritten, exactly the rows of the old log come back."""
    with open_log(folder) as log:
        busy.create_topics(log)
        for step in range(12):
            for act in (busy.append, busy.append_sequenced, busy.append_small):
                act(log, random.Random(step), "worker", step)
        expected = contents(log)
    lose_catalog(folder)

    assert {place: Counter(rows) for place, rows in salvaged_contents(salvage(str(folder)).target).items()} == {
        place: Counter(rows) for place, rows in expected.items()
    }


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_small_commits_come_once_wherever_they_are(folder, seed):
    """In the catalog, in files by a flush, in files merged of these, or in the trash of each: with the journal they come back, once."""
    chance = random.Random(seed)
    with inline_slabs(65_536), open_log(folder, clock := HandClock(1_700_000_000_000)) as log:
        log.settings = replace(log.settings, file_delete_delay_ms=chance.choice((1, 15_000, 600_000)))
        busy.create_topics(log)
        for step in range(30):
            act = chance.choice((busy.append, busy.append_sequenced, busy.append_small, None, None))
            if act is not None:
                act(log, chance, "worker", step)
            else:
                log.maintain()
                clock.advance(chance.choice((0, 2, 11_000, 16_000)))
        expected = contents(log)
    for file in [*folder.glob("catalog.db*"), *folder.glob("backups/*")]:
        file.unlink()

    found = salvaged_contents(salvage(str(folder)).target)
    assert {place: Counter(rows) for place, rows in found.items()} == {place: Counter(rows) for place, rows in expected.items()}


def test_rows_of_a_writer_keep_their_order(log):
    """Whatever the times of files say, what one producer committed later comes later."""
    ones, others = log.producer("ones"), log.producer("others")
    for number in range(10):
        ones.send("t", {"n": number})
        ones.flush()
        others.send("t", {"n": 100 + number})
        others.flush()
    root = lost(log)
    for file in Path(root).rglob("*.slab"):
        os.utime(file, ns=(0, hash(file.name)))
    found = numbers(salvage(root).target)

    assert [number for number in found if number < 100] == list(range(10))
    assert [number for number in found if number >= 100] == list(range(100, 110))


def test_writers_are_interleaved_by_the_times_of_their_files(log):
    """Between producers, the time at which a slab was written is the best there is."""
    for start in (0, 5, 10):
        append(log, *range(start, start + 5))

    assert numbers(salvage(lost(log)).target) == list(range(15))


def test_merged_rows_come_once(log):
    """Rows whose old files are still there beside the merged one come once, at their place before what came later."""
    append(log, *range(20))
    log.merge("t")
    append(log, *range(20, 25))
    done = salvage(lost(log))

    assert numbers(done.target) == list(range(25))
    assert done.topics[0].repeated > 0


def test_merges_of_merges_come_once(log):
    """Also when merged files were merged again, and only some of the old files are gone."""
    for start in range(0, 100, 10):
        append(log, *range(start, start + 10))
        log.merge("t")
        if start == 50:
            empty_trash(log.storage, log.catalog, NEVER_MS)
    assert numbers(salvage(lost(log)).target) == list(range(100))


def test_rows_before_rewritten_ones_stay_before_them(log):
    """A large file that no merge touched fills the offsets before the merged ones, and comes there."""
    with log.producer() as producer:
        producer.send_batch("t", [{"n": number} for number in range(50)])
    append(log, *range(50, 58))
    log.merge("t")
    append(log, 58)
    empty_trash(log.storage, log.catalog, NEVER_MS)
    assert len(log.catalog.manifest.extents(log.topic("t").id, 0)) == 3

    assert numbers(salvage(lost(log)).target) == list(range(59))


def test_a_staged_merge_costs_nothing(log):
    """A merge that was written and not committed is no reason to leave out the rows, nor to bring them twice."""
    append(log, *range(8))
    topic = log.topic("t")
    with armed("merge.slab_durable", crash), pytest.raises(SimulatedCrash):
        SegmentWriter(log.storage, log.catalog).rewrite(topic, log.catalog.manifest.extents(topic.id, 0))
    assert len(log.storage.list("slabs")) == 9

    assert numbers(salvage(lost(log)).target) == list(range(8))


def test_compacted_rows_fold_to_the_same(folder):
    """Of a compacted topic the newest row of each key is the last one of it; with the trash empty, exactly the rows left come back."""
    with open_log(folder) as log:
        busy.create_topics(log)
        chance = random.Random(3)
        for step in range(10):
            busy.change_keys(log, chance, "worker", step)
        log.compact("newest")
        kept = shutil.copytree(folder, folder.parent / "kept")
        empty_trash(log.storage, log.catalog, NEVER_MS)
        topic_id, expected = log.topic("newest").id, contents(log)
    for root in (kept, folder):
        lose_catalog(root)
        done = salvage(str(root))
        found = salvaged_contents(done.target)
        for place, rows in expected.items():
            if place[0] == topic_id:
                assert newest(found[place]) == newest(rows)
                assert found[place] == rows or (root is kept and done.topics[0].key_columns == ("key",))


def newest(rows):
    """The last row of each key, without those that are deletions."""
    last = {dict(row)["key"]: row for row in rows}
    return {key: row for key, row in last.items() if not dict(row).get("_deleted")}


def test_another_row_at_the_same_offset_is_another_row(log, folder, tmp_path):
    """Where a log was set back and offsets were given again, both rows come back."""
    append(log, *range(8))
    log.close()
    other = shutil.copytree(folder, tmp_path / "other")
    for root, values in ((folder, range(8, 16)), (other, range(108, 116))):
        with open_log(root) as one:
            append(one, *values)
            one.merge("t")
    shutil.copytree(other / "slabs", folder / "slabs", dirs_exist_ok=True)
    lose_catalog(folder)

    found = numbers(salvage(str(folder)).target)
    assert Counter(found) == Counter([*range(16), *range(108, 116)])


def test_topics_of_one_id_that_have_nothing_in_common_stay_apart(folder, tmp_path):
    """After a catalog was set back an id may be that of two topics; each is a topic of its own then."""
    for root, schema, row in ((folder, "n bigint", {"n": 1}), (tmp_path / "other", "n string", {"n": "one"})):
        with open_log(root) as log:
            log.create_topic("t", schema, partitions=1)
            with log.producer() as producer:
                producer.send("t", row)
    shutil.copytree(tmp_path / "other" / "slabs", folder / "slabs", dirs_exist_ok=True)
    lose_catalog(folder)
    done = salvage(str(folder))

    assert {topic.name for topic in done.topics} == {"recovered-1", "recovered-1-2"}
    assert {value for topic in done.topics for value in numbers(done.target, topic.name)} == {1, "one"}


def test_schema_is_that_of_all_frames(folder):
    """Columns that came later are null in older rows, and a column is as wide as its widest rows."""
    with open_log(folder) as log:
        log.create_topic("t", "n int", partitions=1)
        append(log, 1)
        log.alter_topic("t", schema="n bigint, more string")
        with log.producer() as producer:
            producer.send("t", {"n": 1 << 40, "more": "x"})
    lose_catalog(folder)
    done = salvage(str(folder))

    assert done.topics[0].schema == "n bigint, more string"
    with open_log(done.target) as log:
        assert log.read("recovered-1", ["n", "more"]).select(["n", "more"]).to_pylist() == [
            {"n": 1, "more": None},
            {"n": 1 << 40, "more": "x"},
        ]
        assert log.topic("recovered-1").setting("retention.ms") == "-1"


def test_columns_that_hold_nothing_come_along(log):
    """A column of the type void, in which all values are null, keeps nobody's rows from coming back."""
    topic = log.create_topic("empty", "n bigint, nothing void", partitions=1)
    for value in range(3):
        log.producer().send_batch("empty", [{"n": value, "nothing": None}]).result()
    SegmentWriter(log.storage, log.catalog).rewrite(topic, log.catalog.manifest.extents(topic.id, 0))

    assert numbers(salvage(lost(log)).target, f"recovered-{topic.id}") == [0, 1, 2]


def test_headers_deletions_and_times_come_along(folder):
    """A row is more than its columns."""
    with open_log(folder) as log:
        log.create_topic("t", "k string, n bigint", "k", partitions=1, config={"compression.type": "zstd"})
        with log.producer() as producer:
            producer.send_batch("t", [{"k": "a", "n": 1, "_headers": [("from", b"here")]}], timestamp_ms=7)
            producer.delete("t", {"k": "b"}, timestamp_ms=8)
        before = log.read("t", ["k", "n", "_headers", "_deleted"])
    lose_catalog(folder)
    done = salvage(str(folder))

    with open_log(done.target) as log:
        assert log.read("recovered-1", ["k", "n", "_headers", "_deleted"]) == before
        assert log.topic("recovered-1").compression == "zstd"
    assert done.topics[0].key_columns == ("k",)


def slab_with_frames(log):
    """A slab that holds several frames, and where they are."""
    references = [read_reference(log.storage, path) for path in log.storage.list("slabs")]
    return max(references, key=lambda reference: len(reference.frames))


def change(root, path, position, count=8):
    file = Path(root) / path
    data = bytearray(file.read_bytes())
    data[position : position + count] = bytes(255 - byte for byte in data[position : position + count])
    file.write_bytes(data)


def test_damage_costs_what_it_hit(folder):
    """A damaged frame is reported with its place and the others come back; without a footer, frames are found by their headers."""
    with open_log(folder) as log:
        log.create_topic("t", "n bigint", "n", partitions=4)
        with log.producer() as producer:
            producer.send_batch("t", [{"n": number} for number in range(400)])
        slab, before = slab_with_frames(log), log.read("t")
    lose_catalog(folder)
    change(folder, slab.path, slab.frames[1].position + 300)
    done = salvage(str(folder), str(folder.parent / "one"))
    assert [(one.path, one.position) for one in done.unreadable] == [(slab.path, slab.frames[1].position)]
    assert done.rows == before.num_rows - slab.frames[1].rows and not done.is_complete

    change(folder, slab.path, slab.size - 12)
    done = salvage(str(folder), str(folder.parent / "two"))
    assert [one.position for one in done.unreadable] == [None, slab.frames[1].position]
    assert done.rows == before.num_rows - slab.frames[1].rows


def test_a_cut_slab_gives_what_is_left(folder):
    """Of a file that ends early, the whole frames before the end come back."""
    with open_log(folder) as log:
        log.create_topic("t", "n bigint", "n", partitions=4)
        with log.producer() as producer:
            producer.send_batch("t", [{"n": number} for number in range(400)])
        slab = slab_with_frames(log)
    lose_catalog(folder)
    file = folder / slab.path
    for frames in range(len(slab.frames)):
        file.write_bytes(file.read_bytes()[: slab.frames[-1 - frames].position + 200])
        done = salvage(str(folder), str(folder.parent / f"{frames}"))
        assert done.rows == sum(frame.rows for frame in slab.frames[: -1 - frames]) and not done.is_complete


def test_copies_under_other_roots_are_read(folder, tmp_path):
    """Of a replicated log a frame comes back from whichever copy has it whole."""
    with open_log(folder) as log:
        log.set_storage([str(tmp_path / "second")], replication_factor=2)
        log.create_topic("t", "n bigint", partitions=1)
        append(log, *range(4))
        first, second, *_ = log.storage.list("slabs")
    lose_catalog(folder)
    change(folder, first, 300)
    (folder / second).unlink()
    assert not salvage(str(folder), str(tmp_path / "one")).is_complete

    done = salvage(str(folder), str(tmp_path / "both"), [str(tmp_path / "second")])
    assert done.is_complete and numbers(done.target) == list(range(4))


def test_what_was_staged_comes_too_and_is_reported(log):
    """Nothing tells a slab that was never committed from one that was; those of which it is not known are named."""
    producer = log.producer("p")
    append(log, 1, 2, producer=producer)
    dead = log.producer("q")
    dead.send("t", {"n": 3})
    dead._outbox._stage(dead._outbox._draft)
    staged = max(log.storage.list("slabs"))
    done = salvage(lost(log))

    assert sorted(numbers(done.target)) == [1, 2, 3]
    assert staged in done.unproven and len(done.unproven) == 2


def test_attempts_of_a_task_are_reported(log):
    """Slabs of one step with equal content are named, and nothing of them is left out."""
    append(log, 1)
    state, topic_id = log.catalog.producers.open(None), log.topic("t").id
    batch = log.read("t").select(["n", "_timestamp"]).combine_chunks().to_batches()[0]
    names = [SlabName(producer_writer(state.id), state.epoch, 1, fresh_token()) for _ in range(3)]
    for name, times in zip(names, (1, 1, 2), strict=True):
        write_slab(log.storage, name, [(topic_id, 0, batch)] * times)
    done = salvage(lost(log))

    assert done.alike == (max(name.path for name in names[:2]),)
    assert done.rows == 5


def test_salvaged_log_goes_on(log):
    """The new log is a log: it is written to, merged, backed up and checked like any."""
    append(log, *range(20))
    done = salvage(lost(log))
    with open_log(done.target) as new:
        append(new, 20, topic="recovered-1")
        new.maintain()
        assert new.read("recovered-1")["n"].to_pylist() == list(range(21))
        assert new.fsck(deep=True).is_clean


def test_nothing_is_overwritten(log, tmp_path):
    """Something at the target, a target inside the old log, and a folder without slabs are refused."""
    append(log, 1)
    root = lost(log)
    (tmp_path / "there").mkdir()
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ((root, str(tmp_path / "there")), "something at"),
        ((root, str(Path(root) / "new")), "inside of the old one"),
        ((str(tmp_path / "empty"),), "no slabs below"),
        (("postgresql://user@host/database",), "the storage directory"),
    ):
        with pytest.raises(ConfigError, match=message):
            salvage(*arguments)


def test_a_failure_leaves_nothing_behind(log, tmp_path, monkeypatch):
    """Without room for the new log there is none, not half of one."""
    append(log, 1)
    root = lost(log)

    def fail(*_):
        raise StorageFullError("no room")

    monkeypatch.setattr(salvage_module, "write_slab", fail)
    with pytest.raises(StorageFullError):
        salvage(root)
    assert [file.name for file in tmp_path.iterdir()] == ["log"]


def test_a_log_that_can_be_rebuilt_is_said_to_be(log):
    """While a journal is left, the way that brings names, keys and offsets back is named."""
    append(log, 1)
    log.close()
    (Path(log.root) / "catalog.db").unlink()

    assert "streamkit rebuild" in salvage(log.root).notes[0]
