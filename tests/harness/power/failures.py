"""
Power failures at any moment of a recorded run, and what the next process must find.

Whatever the disk held back: the log opens, holds what it held after the last step whose end a client was told, or after the
one in work, whole; it reads without an error; the step in work can be taken again; and again after a second failure of
power in the middle of that.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import apsw

from tests.harness.power.workload import NEWEST, SENDS, Client, Contents, Step, newest_of, steps_of
from tests.kit.disk_image import Image
from tests.kit.forgetful import ForgetfulDisk, ForgetfulVfs

VFS = "streamkit-power"
SECOND_FAILURE = 0.05  # the share of recoveries that lose their power too
CHECKPOINT_PAGES = 12  # so that a run of some steps goes through several, and a commit is not checkpointed at once


@dataclass
class Tally:
    """What was tried."""

    images: int = 0
    second_failures: int = 0
    came_through: int = 0  # images that held the step in work


@dataclass
class Recording:
    """A run: its steps, what the log held after each, and the trace of its disk."""

    steps: list[Step]
    contents: list[Contents]
    disk: ForgetfulDisk


def record(folder: Path, seed: int, steps_count: int) -> Recording:
    """Run the steps of a seed in a new folder, and keep what happened."""
    folder.mkdir()
    steps = steps_of(seed, steps_count)
    disk = ForgetfulDisk(str(folder), _fails_now_and_then())
    with recorded(disk) as vfs:
        client = Client(str(folder / "log"), vfs)
        contents = [client.contents()]
        for step in steps:
            client.take(step)
            disk.note("acknowledged")
            contents.append(client.contents())
            check_step(step, contents[-1])
        client.close()
    return Recording(steps, contents, disk)


def check_step(step: Step, contents: Contents) -> None:
    """What a client was told is so: its rows are there once, or not at all if it gave them up."""
    copies = 0 if step.kind == "abort" else 1
    for topic, values in step.rows.items() if step.kind in SENDS else ():
        held = [value for partition in contents[topic].values() for value in partition]
        values = newest_of(values) if topic == NEWEST else values
        assert {held.count(value) for value in values} == {copies}, (
            f"{step.kind} to {topic}: {held} hold not {copies} of {values}"
        )


def _fails_now_and_then() -> Callable[[str], bool]:
    """Every fifth sync of a slab fails."""
    calls = count(1)
    return lambda path: path.endswith(".slab") and next(calls) % 5 == 0


@contextmanager
def recorded(disk: ForgetfulDisk) -> Iterator[str]:
    """Keep what happens to the disk in the block, by way of SQLite too; gives the name of its VFS."""
    vfs = ForgetfulVfs(disk, VFS, is_default=True)
    try:
        with checkpoints(CHECKPOINT_PAGES), disk.recorded():
            yield VFS
    finally:
        vfs.unregister()


@contextmanager
def checkpoints(pages: int) -> Iterator[None]:
    """Connections that are opened in the block write the catalog itself after so many pages of its write-ahead log."""

    def soon(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(pages)

    apsw.connection_hooks.append(soon)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(soon)


def images_of(
    disk: ForgetfulDisk, random: Random, per_moment: int, moments: Container[int] | None = None
) -> Iterator[tuple[Image, int]]:
    """Images of these moments of a run (all, unless given), each once, with the number of steps that were acknowledged by then."""
    acknowledged, seen = 0, set()
    for moment, (state, operation) in enumerate(zip(disk.moments(), [None, *disk.trace], strict=True)):
        acknowledged += operation is not None and operation.kind == "note"
        if moments is not None and moment not in moments:
            continue
        for _ in range(per_moment):
            image = state.image(random)
            if (image.fingerprint, acknowledged) not in seen:
                seen.add((image.fingerprint, acknowledged))
                yield image, acknowledged


def torment(seed: int, images: int, *, steps: int = 12, per_moment: int = 12) -> Tally:
    """Let the power fail over and over in the run of a seed; AssertionError says what was lost, and how to see it again."""
    tally, random = Tally(), Random(f"power {seed}")
    with _scratch() as folder:
        recording = record(folder / "run", seed, steps)
        _check_model(recording.disk, folder / "run")
        found = list(images_of(recording.disk, random, per_moment))
        for image, acknowledged in found if len(found) <= images else random.sample(found, images):
            try:
                _recover(folder / "next", recording, image, acknowledged, seed, random, tally)
            except Exception as error:
                raise AssertionError(f"seed {seed}, after {acknowledged} steps: {type(error).__name__}: {error}") from error
            tally.images += 1
    return tally


def _check_model(disk: ForgetfulDisk, folder: Path) -> None:
    """The model of the disk, if all survives, is the disk: nothing was written past the recording."""
    *_, last = disk.moments()
    real = Image.read(str(folder))
    assert last.everything() == real, "files were written in a way that the recording does not see"


def _recover(
    folder: Path, recording: Recording, image: Image, acknowledged: int, seed: int, random: Random, tally: Tally
) -> None:
    image.write(str(folder))
    if random.random() < SECOND_FAILURE:
        again = ForgetfulDisk(str(folder))
        with recorded(again) as vfs:
            _go_on(folder, recording, acknowledged, vfs)
        second, _ = random.choice(list(images_of(again, random, 1)))
        second.write(str(folder))
        tally.second_failures += 1
    tally.came_through += _go_on(folder, recording, acknowledged)


def _go_on(folder: Path, recording: Recording, acknowledged: int, vfs: str | None = None) -> bool:
    """Open, compare, take the next step (again), compare; whether the step in work had come through."""
    client = Client(str(folder / "log"), vfs)
    try:
        found, expected = client.contents(), recording.contents[acknowledged : acknowledged + 2]
        assert found in expected, f"found {_sizes(found)}, expected one of {[_sizes(one) for one in expected]}"
        if acknowledged < len(recording.steps):
            client.take(recording.steps[acknowledged])
            found_then = client.contents()
            assert found_then == expected[-1], f"found {_sizes(found_then)} then, expected {_sizes(expected[-1])}"
        return found != expected[0]
    finally:
        client.close()


def _sizes(contents: Contents) -> dict[str, dict[int, int]]:
    return {topic: {partition: len(values) for partition, values in held.items()} for topic, held in contents.items()}


@contextmanager
def _scratch() -> Iterator[Path]:
    ram = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="streamkit-power-", dir=ram if ram.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
