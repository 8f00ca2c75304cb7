"""A local store is proven to be the fold of its changelogs, or where it is not: which keys, and what each side says."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.errors import ConfigError, CorruptionError, StoreNotFoundError
from streamkit.log.log import Log
from streamkit.log.rescue.findings import Findings
from streamkit.names import store_folder
from streamkit.state import verification
from streamkit.state.check import check_stores
from streamkit.state.key_hashes import KeyHashes
from streamkit.state.layout import LAYOUTS
from streamkit.state.rocksdb import RocksStore, is_in
from streamkit.state.run_folder import RunFolder
from streamkit.state.sorted_run import SortedRun, hash_keys
from streamkit.state.stores import ON_DISK
from streamkit.state.tiered_store import TieredStore
from streamkit.state.verification import VerifiedStore, VerifiedTask, verify_stores
from tests.kit.engine_run import Run, append, execute
from tests.kit.sampling import TAKES_ALL
from tests.kit.stored import put
from tests.kit.waiting import wait_until

PLAYERS = 300
TASKS = 2
TIERS = {"runs": 256 << 20, "RocksDB": 1}  # and the memory with which a store is in them


def topology() -> sk.Topology:
    """An application with a store of each layout, named as the layout, save `held-since`."""
    app = sk.Topology("kept")
    keyed = app.stream("games").group_by("player")
    counts = keyed.agg(points=F.sum("points"), store="key")
    counts.suppress(until=sk.time_limit("1 day"), name="held").to("held_back")
    windows = {
        "window": sk.tumbling("1 minute", grace="0 s"),
        "sliding": sk.sliding("1 minute", grace="0 s"),
        "session": sk.session("1 minute", grace="0 s"),
        "kept_session": sk.cumulative("1 hour", step="30 minutes", grace="0 s"),
    }
    for name, one in windows.items():
        keyed.windowed_by(one).agg(n=F.count("*"), store=name).emit("every").to(f"{name}_out")
    return app


def play(log: Log, start_ms: int = 0) -> None:
    append(log, "games", [{"player": f"p{n:03}", "points": n, "ts": start_ms + n} for n in range(PLAYERS)])


def run(log: Log) -> None:
    execute(log, compile(topology(), log), Run(tasks=TASKS, drain=False), ON_DISK)


@pytest.fixture(scope="module", params=TIERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a log on which the application has run two epochs, with its stores in runs, or in RocksDB."""
    root = tmp_path_factory.mktemp("made") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMKIT_STORE_MEMORY_BYTES", str(TIERS[request.param]))
        with sk.open_log(root) as log:
            log.create_topic("games", "player string, points bigint", key="player", partitions=1)
            for start_ms in (0, 90_000, 180_000):
                play(log, start_ms)
                run(log)
    folders = [owner.parent for owner in root.glob("stores/**/OWNER")]
    assert len(folders) == TASKS * len({store.stage for store in program_of(root).stores})
    assert all(is_in(folder) == (request.param == "RocksDB") for folder in folders)
    return root


@pytest.fixture
def log(made: Path, tmp_path: Path) -> Iterator[Log]:
    with sk.open_log(shutil.copytree(made, tmp_path / "log")) as log:
        yield log


def program_of(root: Path) -> sk.Program:
    with sk.open_log(root) as log:
        return compile(topology(), log)


def stage_of(log: Log, store: str) -> int:
    return compile(topology(), log).store(store).stage


def folder_of(log: Log, store: str, task: int = 0) -> Path:
    return Path(log.root, store_folder("kept", stage_of(log, store), task, TASKS))


def change(log: Log, store: str, spoil: Callable[[list[bytes], list[bytes]], tuple[bytes, bytes | None]]) -> bytes:
    """Write one pair into the files of a store's first task, at the position that it has; `spoil` makes it from what the store has there."""
    number = log.catalog.applications.get("kept").stores[store].number
    opened = TieredStore(folder_of(log, store))
    try:
        pairs = zip(*opened.scan(b"", b"\xff\xff"), strict=True)
        own = [(key, value) for key, value in pairs if int.from_bytes(key[2:4], "big") == number]
        position = opened.position()
        assert own and position
        key, value = spoil([key for key, _ in own], [value for _, value in own])
        put(opened, [key], [value], position)
    finally:
        opened.close()
    return key


def verified(log: Log, store: str | None = None) -> list[VerifiedTask]:
    return list(verify_stores(log, "kept", store))


def different(tasks: list[VerifiedTask]) -> list[tuple[int, VerifiedStore]]:
    return [(task.task, store) for task in tasks for store in task.stores if store.differences]


def test_sound_stores_of_every_layout_are_equal(log: Log) -> None:
    """Each store of each task is compared with rows of its own, all of them, and nothing differs."""
    layouts = {store.name: store.layout for store in compile(topology(), log).stores}
    assert set(layouts.values()) == set(LAYOUTS)
    found = verified(log)
    assert [task.situation for task in found] == ["equal"] * len(found)
    assert {(task.local_epoch, task.epoch) for task in found} == {(2, 3)}
    for name in layouts:
        shares = [store for task in found for store in task.stores if store.store == name]
        assert len(shares) == TASKS and all(store.rows and store.bytes > store.rows for store in shares)
    rows = log.store("kept", "key").to_arrow().num_rows
    assert sum(store.rows for task in found for store in task.stores if store.store == "key") == rows == PLAYERS


SPOILT = {
    "another value": lambda keys, values: (keys[1], values[1][:-1] + bytes([values[1][-1] ^ 1])),
    "a missing key": lambda keys, values: (keys[1], None),
    "an additional key": lambda keys, values: (keys[1] + b"\x01", values[1]),
}


@pytest.mark.parametrize("way", SPOILT)
@pytest.mark.parametrize("layout", LAYOUTS if TAKES_ALL else ["key", "sliding"])
def test_what_no_checksum_sees_is_found(log: Log, layout: str, way: str) -> None:
    """A value that is changed, a key that is taken away and one that is added, written as a store writes, are each found, in that task and store alone."""
    name = "held-since" if layout == "since" else layout
    key = change(log, name, SPOILT[way])
    ((task, store),) = different(verified(log))
    assert (task, store.store, store.differences) == (0, name, 1)
    (difference,) = store.first
    assert difference.key == key
    assert (difference.here is None) == (way == "a missing key")
    assert (difference.in_changelog is None) == (way == "an additional key")
    assert difference.here != difference.in_changelog
    assert [one.situation for one in verified(log, name)] == ["different", "equal"]


@pytest.mark.parametrize("key", [b"\x00\x01\x77\x77stray", b"\x00\x7f\x00\x01other task", b"", b"\xfe\xff"])
def test_keys_of_no_store_are_found(log: Log, key: bytes) -> None:
    """A key outside the key groups of a task, or of a store that there is not, is found, but not where one store is asked for."""
    change(log, "key", lambda keys, values: (key, values[0]))
    ((task, store),) = different(verified(log))
    assert (task, store.store, [one.key for one in store.first]) == (0, None, [key])
    assert not different(verified(log, "key"))


def test_all_differences_are_counted_and_the_first_are_named(log: Log) -> None:
    """Of many differences the number is told, and the first keys in their order."""
    place = folder_of(log, "key")
    opened = TieredStore(place)
    keys, _ = opened.scan(b"", b"\xff\xff")
    number = log.catalog.applications.get("kept").stores["key"].number
    own = [key for key in keys if int.from_bytes(key[2:4], "big") == number]
    put(opened, own, [b"wrong"] * len(own), opened.position() or b"")
    opened.close()
    ((_, store),) = different(verified(log))
    assert store.differences == store.rows == len(own)
    assert [one.key for one in store.first] == sorted(own)[: verification.FIRST_DIFFERENCES]


def test_pieces_make_no_difference(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a changelog partition is compared a key group at a time, and folded in many steps, the same is found."""
    key, whole = change(log, "window", SPOILT["another value"]), verified(log)
    monkeypatch.setattr(verification, "PIECE_BYTES", 1)
    monkeypatch.setattr(verification, "CHANGES_PER_WRITE", 3)
    assert verified(log) == whole
    assert [one.key for _, store in different(whole) for one in store.first] == [key]


def test_damage_is_told_from_difference(log: Log) -> None:
    """A file whose checksum is wrong is reported as damaged, with the reason, and other tasks are verified."""
    folder = folder_of(log, "key")
    suffix = "*.sst" if is_in(folder) else "*.run"
    for path in folder.glob(suffix):
        path.write_bytes(b"\xff" * 40 + path.read_bytes()[40:])
    found = {task.folder: task for task in verified(log)}
    assert found[folder].situation == "damaged" and not found[folder].is_sound
    assert found[folder].reason and "restored" in found[folder].reason
    assert {task.situation for other, task in found.items() if other != folder} == {"equal"}


def wrong_hash(run: SortedRun) -> SortedRun:
    hashes = run.hashes.copy()
    hashes[1] ^= np.uint64(1 << 60)
    order = np.argsort(hashes)
    return SortedRun(hashes[order], run.keys.take(pa.array(order)), run.values.take(pa.array(order)), run.position)


def out_of_order(run: SortedRun) -> SortedRun:
    order = np.append(np.arange(1, len(run)), 0)
    return SortedRun(run.hashes[order], run.keys.take(pa.array(order)), run.values.take(pa.array(order)), run.position)


def twice(run: SortedRun) -> SortedRun:
    order = np.append([0], np.arange(len(run)))
    return SortedRun(run.hashes[order], run.keys.take(pa.array(order)), run.values.take(pa.array(order)), run.position)


PLANTED = {
    "a wrong hash": (wrong_hash, "1 of .* hashes are not those of their keys"),
    "out of order": (out_of_order, "its hashes are not in order"),
    "twice": (twice, "1 keys are there twice"),
}


@pytest.mark.parametrize("made", ["runs"], indirect=True)
@pytest.mark.parametrize("way", PLANTED)
def test_keys_that_look_ups_do_not_find_are_damage(log: Log, way: str) -> None:
    """A run with right checksums and rows, whose hashes do not lead to its keys: verify and `fsck --deep` say so, and what to do."""
    spoil, message = PLANTED[way]
    folder = folder_of(log, "key")
    files = RunFolder(folder)
    runs, listed = files.read() or ([], None)
    assert runs and listed and listed.below is None
    files.write([*runs[:-1], spoil(runs[-1])], None, None)
    found = {task.folder: task for task in verified(log)}
    assert found[folder].situation == "damaged" and found[folder].is_unseen and not found[folder].is_sound
    assert re.search(message, found[folder].reason)
    assert {task.situation for other, task in found.items() if other != folder} == {"equal"}
    assert_fsck_finds(log, folder, message)


@pytest.mark.parametrize("made", ["RocksDB"], indirect=True)
@pytest.mark.parametrize("way", ["missing", "out of order"])
def test_hashes_without_a_key_of_rocksdb_are_damage(log: Log, way: str) -> None:
    """The file of hashes has every key that RocksDB has, in order: else a look-up says that there is none."""
    folder = folder_of(log, "key")
    keys, _ = (below := RocksStore(folder, read_only=True)).scan(*verification.EVERYTHING)
    position = below.position()
    below.close()
    whole = KeyHashes.none().with_keys(hash_keys(pa.array(keys, pa.binary())))
    files = RunFolder(folder)
    files.write([], position, whole)
    assert {task.situation for task in verified(log, "key")} == {"equal"}
    files.write([], position, KeyHashes(whole.prefixes[1:] if way == "missing" else whole.prefixes[::-1].copy()))
    message = "has keys whose hashes it lacks" if way == "missing" else "hashes of keys .* are not in order"
    found = {task.folder: task for task in verified(log, "key")}
    assert found[folder].situation == "damaged" and re.search(message, found[folder].reason)
    assert_fsck_finds(log, folder, message)


def assert_fsck_finds(log: Log, folder: Path, message: str) -> None:
    findings = Findings()
    check_stores(log.root, log.storage, log.catalog.database, findings)
    (finding,) = [one for one in findings.report(log.root, True).findings if one.severity == "error"]
    assert finding.where == str(folder) and re.search(message, finding.message)
    assert "delete the folder" in finding.action


def test_a_damaged_changelog_is_an_error(log: Log) -> None:
    """What is wrong with a changelog is no fault of the folder: nothing is said of the store."""
    changelog = log.catalog.applications.get("kept").stores["key"].changelog_topic_id
    with log.catalog.database.write() as transaction:
        transaction.execute("UPDATE extent SET position = position + 8 WHERE topic_id = ? AND partition = 0", (changelog,))
    with pytest.raises(CorruptionError, match=r"the frame of topic .* partition 0, offset 0, .* is damaged"):
        verified(log, "key")


def test_what_is_not_here_is_nothing_wrong(log: Log) -> None:
    """A task without a folder, and one whose folder holds nothing yet, are named as such; the others are verified."""
    shutil.rmtree(folder_of(log, "key", 1))
    shutil.rmtree(folder_of(log, "key", 0))
    TieredStore(folder_of(log, "key", 0)).close()
    found = verified(log, "key")
    assert [task.situation for task in found] == ["absent", "absent"]
    assert "holds nothing yet" in found[0].reason and "no local store on this host" in found[1].reason
    assert all(task.is_sound and not task.stores[0].rows for task in found)


def test_a_store_that_will_be_discarded_is_untrusted(log: Log) -> None:
    """A folder of another history than the catalog's says why it cannot be trusted, and is no difference."""
    with log.catalog.database.write() as transaction:
        transaction.execute("UPDATE epoch SET token = ?", ("0" * 32,))
    found = verified(log, "key")
    assert [task.situation for task in found] == ["untrusted", "untrusted"]
    assert all("is not the one that was committed" in task.reason and task.is_sound for task in found)


@pytest.fixture
def behind(log: Log) -> Log:
    """The log, with two epochs behind what the stores have in their files, which changed half of the keys."""
    append(log, "games", [{"player": "p000", "points": 5, "ts": 400_000}])
    run(log)  # it applies the epoch before
    kept = shutil.copytree(Path(log.root, "stores"), Path(log.root).parent / "kept")
    append(log, "games", [{"player": f"p{n:03}", "points": 5, "ts": 400_000} for n in range(0, PLAYERS, 2)])
    run(log)
    shutil.rmtree(Path(log.root, "stores"))
    os.rename(kept, Path(log.root, "stores"))
    return log


@pytest.mark.parametrize("odd", [0, 1])
def test_a_store_behind_is_compared_at_its_own_position(behind: Log, odd: int) -> None:
    """What was committed after the files is left out on both sides, so later changes of a key hide nothing that is wrong with it."""
    found = verified(behind)
    assert {task.situation for task in found} == {"equal"}
    assert all(task.local_epoch < task.epoch for task in found)
    change(behind, "key", lambda keys, values: spoilt_of(keys, values, odd))
    assert [store.differences for _, store in different(verified(behind))] == [1]


def spoilt_of(keys: list[bytes], values: list[bytes], odd: int) -> tuple[bytes, bytes]:
    """Another value for a player with an odd number, or with an even one."""
    key, value = next(pair for pair in zip(keys, values, strict=True) if pair[0].rstrip(b"\0")[-1] % 2 == odd)
    return key, value[:-1] + bytes([value[-1] ^ 1])


def test_what_compaction_took_is_no_difference(behind: Log) -> None:
    """Where older records of keys that changed since are gone, such keys are passed over, and all others are compared."""
    for topic in filter(lambda name: name.endswith("-changelog"), behind.topics(internal=True)):
        behind.compact(topic)
    changelog = behind.catalog.applications.get("kept").stores["key"].changelog_topic_id
    assert not all(one.is_dense for at in range(16) for one in behind.catalog.manifest.extents(changelog, at))
    assert {task.situation for task in verified(behind, "key")} == {"equal"}
    change(behind, "key", lambda keys, values: spoilt_of(keys, values, 1))
    assert [store.differences for _, store in different(verified(behind, "key"))] == [1]


def test_a_running_application_is_verified(log: Log) -> None:
    """While epochs are committed, stores move on and slabs are merged, each look finds the stores equal, and none ahead of the catalog."""
    app, done = topology(), 0
    running = sk.run(app, log=log, engine="local", tasks=TASKS, trigger="20 ms")
    try:
        for turn in range(6 if TAKES_ALL else 3):
            play(log, 1_000_000 * (turn + 1))
            wait_until(lambda: running.records() > done)  # noqa: B023
            done = running.records()
            found = verified(log)
            assert {task.situation for task in found} <= {"equal", "absent"}, found
    finally:
        running.stop()
    assert {task.situation for task in verified(log)} == {"equal"}


def test_what_there_is_not_is_named(log: Log) -> None:
    """An application and a store that do not exist are errors that name those which do."""
    with pytest.raises(ConfigError, match="there are kept"):
        list(verify_stores(log, "nobody"))
    with pytest.raises(StoreNotFoundError, match=r"it has .*session"):
        verified(log, "nothing")
