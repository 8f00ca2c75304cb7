"""A store is a view of its committed changelogs (law 6), however it is opened and whatever was left behind."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from random import Random

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError, EpochFailedError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import FileStorage
from streamkit.names import DELETED, TIMESTAMP, SlabName, fresh_token
from streamkit.state import rocksdb, task_state, tiered_store
from streamkit.state.changelog import CommittedChanges, PlanFile
from streamkit.state.key_group import changelog_partitions_of, key_group_range, task_of_key_group
from streamkit.state.run_folder import CHECKSUM_LENGTH, RUNS
from streamkit.state.store import MemoryStore
from streamkit.state.stores import DiskStores
from streamkit.state.task_state import Share, StorePosition, TaskState, open_state, read_state
from streamkit.state.tiered_store import TieredStore
from tests.kit.stored import put

TOPIC = 7
KEY_GROUPS = 8
PARTITIONS = 4
NO_MEMORY = 1  # so that everything moves to RocksDB


@dataclass
class Changelog:
    """A changelog on real files, and the dict it folds to."""

    storage: FileStorage
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    extents: list[Extent] = field(default_factory=list)
    tokens: dict[int, str] = field(default_factory=dict)
    folded: dict[bytes, bytes] = field(default_factory=dict)

    def commit(self, changes: Mapping[tuple[int, str], str | None]) -> CommittedChanges:
        """Append one epoch of changes, by (key group, key)."""
        epoch, token = len(self.tokens) + 1, fresh_token()
        for partition in range(PARTITIONS):
            own = sorted(
                (key_of(*key), value) for key, value in changes.items() if key[0] * PARTITIONS // KEY_GROUPS == partition
            )
            if own:
                self._append(epoch, partition, own)
        self.tokens[epoch] = token
        return self.changes()

    def changes(self) -> CommittedChanges:
        epoch = len(self.tokens)
        return CommittedChanges(
            epoch, self.tokens.get(epoch, ""), {TOPIC: dict(self.ends)}, {}, tuple(self.extents), dict(self.tokens)
        )

    def _append(self, epoch: int, partition: int, rows: Sequence[tuple[bytes, str | None]]) -> None:
        values = pa.array([None if value is None else value.encode() for _, value in rows], pa.binary())
        batch = pa.RecordBatch.from_pydict(
            {
                "key": pa.array([key for key, _ in rows], pa.binary()),
                "value": values,
                TIMESTAMP: pa.array(np.zeros(len(rows), np.int64)).cast(pa.timestamp("ms", tz="UTC")),
                DELETED: values.is_null(),
            }
        )
        slab = write_slab(self.storage, SlabName("a1", 1, epoch, fresh_token()), [(TOPIC, partition, batch)])
        frame, base = slab.frames[0], self.ends[partition]
        self.ends[partition] = base + len(rows)
        self.extents.append(
            Extent(TOPIC, partition, base, self.ends[partition], slab.path, frame.position, frame.length, 0, 0, frame.rows)
        )
        for key, value in rows:
            self.folded.pop(key, None)
            if value is not None:
                self.folded[key] = value.encode()


def key_of(group: int, key: str) -> bytes:
    return group.to_bytes(2, "big") + key.encode()


def share_of(task: int = 0, tasks: int = 1) -> Share:
    return Share(key_group_range(task, tasks, KEY_GROUPS), KEY_GROUPS, PARTITIONS, (TOPIC,))


def dump(state: TaskState) -> dict[bytes, bytes]:
    keys, values = state.scan([(b"", b"\xff\xff")])
    state.close()
    return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def own(folded: Mapping[bytes, bytes], share: Share) -> dict[bytes, bytes]:
    return {key: value for key, value in folded.items() if int.from_bytes(key[:2], "big") in share.groups}


@pytest.fixture
def log(tmp_path: Path) -> Changelog:
    return Changelog(FileStorage(str(tmp_path / "log")))


EPOCHS: list[dict[tuple[int, str], str | None]] = [
    {(0, "a"): "1", (3, "b"): "2", (7, "c"): "3"},
    {(0, "a"): "4", (3, "b"): None, (4, "d"): "5"},
    {(7, "c"): None, (0, "e"): "6"},
]


def test_an_open_store_is_the_fold_of_the_changelog(log: Changelog, tmp_path: Path) -> None:
    """After each epoch, opening the store shows exactly what the changelog folds to, deletions included."""
    for epoch in EPOCHS:
        changes = log.commit(epoch)
        assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes)) == log.folded


def test_a_store_that_was_away_catches_up(log: Changelog, tmp_path: Path) -> None:
    """A store three epochs behind, or deleted, comes to the same state."""
    changes = [log.commit(epoch) for epoch in EPOCHS]
    open_state(log.storage, tmp_path / "db", share_of(), changes[0]).close()
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes[-1])) == log.folded
    assert dump(open_state(log.storage, tmp_path / "new", share_of(), changes[-1])) == log.folded


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 8])
def test_tasks_share_the_state_without_gap_or_overlap(log: Changelog, tmp_path: Path, tasks: int) -> None:
    """Each task holds the keys of its key groups, all tasks together hold all."""
    changes = [log.commit(epoch) for epoch in EPOCHS][-1]
    together: dict[bytes, bytes] = {}
    for task in range(tasks):
        share = share_of(task, tasks)
        found = dump(open_state(log.storage, tmp_path / f"{task}-of-{tasks}", share, changes))
        assert found == own(log.folded, share)
        together |= found
    assert together == log.folded


def test_a_store_with_an_uncommitted_token_is_discarded(log: Changelog, tmp_path: Path) -> None:
    """State of an attempt that the catalog does not name is thrown away and restored."""
    changes = log.commit(EPOCHS[0])
    state = open_state(log.storage, tmp_path / "db", share_of(), replace(changes, token="0" * 32))
    state.close()
    store = TieredStore(tmp_path / "db")
    put(store, [key_of(1, "ghost")], [b"x"], store.position() or b"")
    store.close()
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes)) == log.folded


@pytest.mark.parametrize(
    ("known", "is_kept"),
    [
        ({1: "t1"}, True),
        ({1: "t1", 2: "t2"}, True),
        ({1: "t1", 2: "other"}, False),
        ({1: "other"}, False),
        ({1: "t1", 2: None}, True),
        ({}, False),
    ],
    ids=["forgotten", "known", "another attempt", "another generation", "known from a plan file", "all forgotten"],
)
def test_an_old_store_is_known_by_its_generation(
    log: Changelog, tmp_path: Path, known: dict[int, str | None], is_kept: bool
) -> None:
    """Where the token of its epoch is forgotten, a store is trusted by the first epoch of its generation, and by nothing else."""
    log.commit(EPOCHS[0])
    old = replace(log.commit(EPOCHS[1]), token="t2", generation_start=(1, "t1"))
    open_state(log.storage, tmp_path / "db", share_of(), old).close()
    new = log.commit(EPOCHS[2])
    PlanFile({}, old.extents, {1: "t1", 2: "t2"} if None in known.values() else {}).write(log.storage, "plans/a1/1-old.plan")
    tokens = {epoch: token for epoch, token in known.items() if token is not None} | {3: new.token}
    changes = replace(new, tokens=tokens, plan_files=("plans/a1/1-old.plan",))

    state = open_state(log.storage, tmp_path / "db", share_of(), changes)
    assert state.restored == sum(len(epoch) for epoch in (EPOCHS[2:] if is_kept else EPOCHS))
    assert dump(state) == log.folded


def test_a_store_is_not_known_by_a_generation_before_its_own(log: Changelog, tmp_path: Path) -> None:
    """A generation that began between the two says that the store's epoch may have been committed twice."""
    log.commit(EPOCHS[0])
    old = replace(log.commit(EPOCHS[1]), epoch=5, token="t5", generation_start=(1, "t1"))
    open_state(log.storage, tmp_path / "db", share_of(), old).close()
    new = replace(log.commit(EPOCHS[2]), epoch=9, token="t9", tokens={1: "t1", 4: "t4", 9: "t9"})
    state = open_state(log.storage, tmp_path / "db", share_of(), new)
    assert state.restored == sum(map(len, EPOCHS))
    state.close()


def test_a_position_of_before_generations_is_read() -> None:
    """A store that an older StreamKit wrote has no generation, and is trusted by its epoch alone."""
    position = StorePosition.decode(b'{"epoch": 3, "token": "t", "first_group": 0, "last_group": 8, "offsets": {"7": {"0": 5}}}')
    assert position == StorePosition(3, "t", 0, 8, {7: {0: 5}})
    assert StorePosition.decode(replace(position, generation_start=(2, "s")).encode()) == replace(
        position, generation_start=(2, "s")
    )


def test_a_store_ahead_of_the_catalog_is_discarded(log: Changelog, tmp_path: Path) -> None:
    """A catalog set back to an older backup does not leave newer state in the store."""
    old = log.commit(EPOCHS[0])
    folded = dict(log.folded)
    open_state(log.storage, tmp_path / "db", share_of(), log.commit(EPOCHS[1])).close()
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), old)) == folded


def test_a_damaged_store_is_restored(log: Changelog, tmp_path: Path) -> None:
    """Garbage in RocksDB's own files costs a restore, never a wrong answer."""
    changes = log.commit(EPOCHS[0])
    open_state(log.storage, tmp_path / "db", share_of(), changes).close()
    for file in (tmp_path / "db").glob("MANIFEST*"):
        file.write_bytes(b"garbage")
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes)) == log.folded


def test_a_store_whose_values_are_damaged_is_restored(log: Changelog, tmp_path: Path) -> None:
    """Damage that RocksDB finds only in a block that is read costs a restore: at once where a position is, else when it is opened again."""
    changes = log.commit(EPOCHS[0])
    open_state(log.storage, tmp_path / "db", share_of(), changes, NO_MEMORY).close()
    garble_blocks(tmp_path / "db")
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes, NO_MEMORY)) == log.folded

    garble_blocks(tmp_path / "db")
    store = TieredStore(tmp_path / "db")
    with pytest.raises(
        CorruptionError, match=r"the local store in .* cannot be used: .*it is discarded when its application opens it again"
    ):
        store.scan(b"", b"\xff")
    store.close()
    assert dump(open_state(log.storage, tmp_path / "db", share_of(), changes)) == log.folded


def test_a_folder_that_another_task_holds_is_not_the_task_s(log: Changelog, tmp_path: Path) -> None:
    """Two folders that were swapped while both are open: the epoch is run again, and each store is restored once they are closed."""
    changes = log.commit(EPOCHS[0])
    for task in range(2):
        open_state(log.storage, tmp_path / str(task), share_of(task, 2), changes).close()
    states = [open_state(log.storage, tmp_path / str(task), share_of(task, 2), changes) for task in range(2)]
    (tmp_path / "0").rename(tmp_path / "aside")
    (tmp_path / "1").rename(tmp_path / "0")
    (tmp_path / "aside").rename(tmp_path / "1")
    for task in range(2):
        with pytest.raises(EpochFailedError, match="another task or process has it open; run the epoch again"):
            open_state(log.storage, tmp_path / str(task), share_of(task, 2), changes)
    for state in states:
        state.close()
    for task in range(2):
        share = share_of(task, 2)
        assert dump(open_state(log.storage, tmp_path / str(task), share, changes)) == own(log.folded, share)


@pytest.mark.parametrize("name", ["*.run", "RUNS"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_a_store_whose_runs_are_damaged_is_restored(log: Changelog, tmp_path: Path, name: str, damage: str) -> None:
    """Whatever happened to the files of runs is found when they are opened, before anything of them is shown."""
    changes = log.commit(EPOCHS[0])
    open_state(log.storage, tmp_path / "db", share_of(), changes).close()
    (file,) = (tmp_path / "db").glob(name)
    data = file.read_bytes()
    for place in range(0, len(data), 7) if damage == "flipped" else [len(data) // 2]:
        flipped = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        file.write_bytes({"flipped": flipped, "cut": data[:place], "empty": b"", "gone": b""}[damage])
        if damage == "gone":
            file.unlink()
        found = read_state(log.storage, tmp_path / "db", share_of(), changes)
        assert dump(found) == log.folded
    state = open_state(log.storage, tmp_path / "db", share_of(), changes, stores=DiskStores())
    assert state.restored == len(log.folded) and dump(state) == log.folded


def damage_a_run(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    (file,) = folder.glob("*.run")
    file.write_bytes(file.read_bytes()[:-1])
    return changes


def damage_blocks(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    garble_blocks(folder)
    return changes


def damage_blocks_and_notice(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """Damage that is found while the store is used: the next opening tells it."""
    garble_blocks(folder)
    store = TieredStore(folder)
    with pytest.raises(CorruptionError):
        store.scan(b"", b"\xff")
    store.close()
    return changes


def make_newer(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """The list of a later version, whose checksum is right."""
    text = (folder / RUNS).read_bytes()[CHECKSUM_LENGTH + 1 :].replace(b'"format": 1', b'"format": 2')
    (folder / RUNS).write_bytes(b"%08x %b" % (google_crc32c.value(text), text))
    return changes


def lose_what_is_below(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """RocksDB goes, on which the runs were written."""
    (folder / "CURRENT").unlink()
    return changes


def set_the_catalog_back(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    return replace(changes, epoch=0, token="", extents=(), ends={}, tokens={})


def commit_it_again(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """The epoch was committed by another attempt."""
    return replace(changes, token="other", tokens={1: "other"})


def purge(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """Compaction has dropped deletions behind the store's position."""
    return replace(
        changes, epoch=2, token="new", tokens={**changes.tokens, 2: "new"}, purged_below={TOPIC: dict.fromkeys(range(4), 9)}
    )


def give_to_another_task(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """The store is that of a task with other key groups."""
    store = TieredStore(folder)
    position = StorePosition.decode(store.position() or b"")
    put(store, [], [], replace(position, first_group=5).encode())
    store.close()
    return changes


def give_to_another_stage(folder: Path, changes: CommittedChanges) -> CommittedChanges:
    """The store has changes of a changelog that was dropped."""
    store = TieredStore(folder)
    position = StorePosition.decode(store.position() or b"")
    put(store, [], [], position.moved({(99, 0): 1}).encode())
    store.close()
    return changes


DISCARDED = {  # why a store is: what happened to it, its memory, and what is logged
    "damaged, a run": (damage_a_run, 1 << 20, "the file .* is damaged"),
    "damaged, RocksDB": (damage_blocks, NO_MEMORY, "was found to be damaged: .*Corruption"),
    "damaged, found in use": (damage_blocks_and_notice, NO_MEMORY, "was found to be damaged: .*Corruption"),
    "newer format": (make_newer, 1 << 20, "has format 2; expected 1"),
    "half-written": (lose_what_is_below, NO_MEMORY, "lacks what its runs were written upon"),
    "stale, the catalog was set back": (
        set_the_catalog_back,
        1 << 20,
        "has committed 0: it is of an application of that name that is gone, or",
    ),
    "stale, below a purge": (purge, 1 << 20, "lacks deletions that compaction has removed"),
    "foreign, another attempt": (commit_it_again, 1 << 20, "its epoch 1 is not the one that was committed"),
    "foreign, another task": (
        give_to_another_task,
        1 << 20,
        "it has the key groups from 5 up to 8, and the task those from 0 up to 8",
    ),
    "foreign, another stage": (give_to_another_stage, 1 << 20, "no changelogs of this stage any more, with the ids 99"),
}


@pytest.mark.parametrize("why", DISCARDED)
def test_why_a_store_is_discarded_is_logged(log: Changelog, tmp_path: Path, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """One line names the task, what is wrong with its store, and that it is restored."""
    happen, memory_bytes, reason = DISCARDED[why]
    folder = tmp_path / "stores" / "points" / "3" / "0-of-1"
    changes = log.commit(EPOCHS[0])
    open_state(log.storage, folder, share_of(), changes, memory_bytes).close()
    changes = happen(folder, changes)
    caplog.clear()
    state = open_state(log.storage, folder, share_of(), changes, memory_bytes, DiskStores())
    (line,) = [record.getMessage() for record in caplog.records]
    assert re.search(reason, line)
    assert line.startswith("points, stage 3, task 0 of 1: ")
    assert (
        str(folder) in line
        and "\n" not in line
        and line.endswith(f"{rocksdb.DISCARDED}; then its stores are restored from their changelogs")
    )
    assert dump(state) == (log.folded if changes.epoch else {})


def test_a_folder_that_goes_while_its_store_is_opened_is_logged(
    log: Changelog, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes the folder between two writes: a line says so, and the store is restored into a new one."""
    folder, changes = tmp_path / "stores" / "points" / "3" / "0-of-1", log.commit(EPOCHS[0])
    monkeypatch.setattr(task_state, "CHANGES_PER_WRITE", 1)
    points: list[str] = []

    def delete(point: str) -> None:
        points.append(point)
        if points == ["state.between_writes"]:
            shutil.rmtree(folder)

    monkeypatch.setattr(task_state, "reach", delete)
    state = open_state(log.storage, folder, share_of(), changes, NO_MEMORY)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("points, stage 3, task 0 of 1: ") and "were deleted while it was used" in line
    assert dump(state) == log.folded


def garble_blocks(folder: Path) -> None:
    files = list(folder.glob("*.sst"))
    assert files
    for file in files:
        file.write_bytes(b"\xff" * 40 + file.read_bytes()[40:])


def test_a_busy_store_is_read_beside_its_writer(log: Changelog, tmp_path: Path) -> None:
    """While another handle has the write lock, the missing changes stay in memory and reads are complete."""
    first = log.commit(EPOCHS[0])
    open_state(log.storage, tmp_path / "db", share_of(), first).close()
    holder = TieredStore(tmp_path / "db")
    changes = [log.commit(epoch) for epoch in EPOCHS[1:]][-1]
    state = open_state(log.storage, tmp_path / "db", share_of(), changes)
    assert state.get(pa.array([key_of(0, "a"), key_of(3, "b"), key_of(4, "d")])).to_pylist() == [b"4", None, b"5"]
    assert dump(state) == log.folded
    holder.close()


@pytest.mark.parametrize("keys_per_get", [1, 2, 3, 4])
def test_many_keys_are_asked_for_in_parts(
    log: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys_per_get: int
) -> None:
    """However many keys are asked for together, each has its value; of none there is none."""
    changes = [log.commit(epoch) for epoch in EPOCHS][-1]
    state = open_state(log.storage, tmp_path / "db", share_of(), changes, NO_MEMORY)
    monkeypatch.setattr(rocksdb, "KEYS_AT_ONCE", keys_per_get)
    assert state.get(pa.array([key_of(0, "a"), key_of(3, "b"), key_of(4, "d")])).to_pylist() == [b"4", None, b"5"]
    assert state.get(pa.array([], pa.binary())) == pa.array([], pa.binary())
    state.close()


def test_reading_writes_nothing(log: Changelog, tmp_path: Path) -> None:
    """A view needs no local store and makes none."""
    changes = log.commit(EPOCHS[0])
    assert dump(read_state(log.storage, tmp_path / "db", share_of(), changes)) == log.folded
    assert not (tmp_path / "db").exists()


def test_what_came_before_the_plan_is_in_the_manifest(log: Changelog, tmp_path: Path) -> None:
    """A store that is further behind than the plan reaches reads the rest from the manifest file."""
    old = log.commit(EPOCHS[0])
    PlanFile({}, old.extents, old.tokens).write(log.storage, "plans/a1/1-old.plan")
    new = [log.commit(epoch) for epoch in EPOCHS[1:]][-1]
    recent = tuple(extent for extent in new.extents if extent not in old.extents)
    tokens = {epoch: token for epoch, token in new.tokens.items() if epoch > 1}
    short = replace(new, extents=recent, starts=old.ends, tokens=tokens, plan_files=("plans/a1/1-old.plan",))
    open_state(log.storage, tmp_path / "old", share_of(), old).close()
    assert dump(open_state(log.storage, tmp_path / "old", share_of(), short)) == log.folded
    assert dump(open_state(log.storage, tmp_path / "new", share_of(), short)) == log.folded


@pytest.mark.parametrize("tasks", [1, 2, 3, 5, 8])
def test_key_groups_and_partitions_have_one_owner(tasks: int) -> None:
    """The range of a task and the task of a key group are inverses, and its partitions cover the range."""
    for group in range(KEY_GROUPS):
        assert group in key_group_range(task_of_key_group(group, tasks, KEY_GROUPS), tasks, KEY_GROUPS)
    for task in range(tasks):
        groups = key_group_range(task, tasks, KEY_GROUPS)
        needed = {group * PARTITIONS // KEY_GROUPS for group in groups}
        assert set(changelog_partitions_of(groups, KEY_GROUPS, PARTITIONS)) == needed


@pytest.mark.parametrize("kept", [1, 4, 100])
def test_the_first_of_a_range_are_found_beside_what_is_missing(kept: int) -> None:
    """A limited scan gives the first entries as they are now: those that changes in memory delete do not count, those they add do."""
    store = MemoryStore()
    put(store, [bytes([number]) for number in range(0, 20, 2)], [b"stored"] * 10, b"")
    missing = {bytes([number]): b"missing" if number % kept == 3 % kept else None for number in range(12)}
    state = TaskState(store, missing, 0)
    expected = [number for number in range(20) if (number % kept == 3 % kept if number < 12 else number % 2 == 0)]
    for limit in (0, 1, 2, 5, 30, None):
        keys, _ = state.scan([(b"\x00", b"\xff"), (b"\x0b", b"\x10")], [limit, 1])
        second = [number for number in expected if 11 <= number < 16][:1]
        assert keys.to_pylist() == [bytes([number]) for number in [*expected[:limit], *second]]


@pytest.mark.parametrize("newest", [0, 3, 1_000], ids=["runs", "runs and newest", "newest"])
@pytest.mark.parametrize("is_below", [False, True], ids=["above", "below"])
def test_ranges_are_scanned_as_a_dict_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: int, is_below: bool
) -> None:
    """Puts and deletions at random over many writes: every range has what is left of them, in order, the first entries where it has a limit."""
    monkeypatch.setattr(tiered_store, "NEWEST_ROWS", newest)
    for seed in range(12):
        chance, expected = Random(seed), dict[bytes, bytes]()
        store = TieredStore(tmp_path / str(seed), memory_bytes=NO_MEMORY if is_below else 64 << 20)
        bounds = [b"", *sorted(bytes(chance.choices(b"\0ab", k=chance.randrange(1, 5))) for _ in range(7)), b"\xff"]
        together = list(zip(bounds[::2], bounds[1::2], strict=False))
        for number in range(chance.randrange(12)):
            keys = {bytes(chance.choices(b"\0abc", k=chance.randrange(1, 20))) for _ in range(chance.randrange(12))}
            changes = {
                key: None if chance.random() < 0.4 else b"%d" % number for key in keys | {*expected} if chance.random() < 0.5
            }
            store.write(pa.array(list(changes), pa.binary()), pa.array(list(changes.values()), pa.binary()), b"%d" % number)
            expected = {key: value for key, value in (expected | changes).items() if value is not None}
            ranges = chance.choice([together, together[::-1], [(b"", b"c"), (b"a", b"\xff")], []])
            limits = chance.choice(
                [None, [chance.choice([None, 0, 1, 3]) for _ in ranges], [2] * len(ranges), [50] * len(ranges)]
            )
            state = TaskState(store, {}, 0)
            wanted = [
                [key for key in sorted(expected) if start <= key < end][:limit]
                for (start, end), limit in zip(ranges, limits or [None] * len(ranges), strict=True)
            ]
            found, values = state.scan(ranges, limits)
            assert found.to_pylist() == list(chain(*wanted)), (seed, number)
            assert values.to_pylist() == [expected[key] for key in found.to_pylist()], (seed, number)
            if limits is None:
                assert state.scan_keys(ranges).equals(found), (seed, number)
        store.close()
