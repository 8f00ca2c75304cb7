"""A log with copies on several storage roots, for the tests of replication and of whose a root is."""

from __future__ import annotations

import pytest

from streamkit.log.opening import open_log
from streamkit.log.storage.replicated_storage import ReplicatedStorage


@pytest.fixture
def folders(tmp_path):
    return [tmp_path / name for name in ("log", "second", "third")]


@pytest.fixture
def log(folders):
    """A log with copies of everything on two further roots."""
    with open_log(folders[0]) as log:
        log.create_topic("t", "v bigint", partitions=2)
        log.set_storage([str(folder) for folder in folders[1:]])
        yield log


def values(log):
    return sorted(log.read("t")["v"].to_pylist())


def damage(file):
    data = bytearray(file.read_bytes())
    data[200] = (data[200] + 1) % 256
    file.chmod(0o600)
    file.write_bytes(data)


def send(log, first=0, producer=None):
    """Ten rows in one slab; of a producer with a name, opened again, if one is given."""
    with log.producer(producer) as opened:
        opened.send_batch("t", [{"v": value} for value in range(first, first + 10)])


def slabs_of(*folders):
    return [file for folder in folders for file in (folder / "slabs").rglob("*.slab")]


def unusable(log):
    """Why roots cannot be used now, by folder."""
    assert isinstance(log.storage.files, ReplicatedStorage)
    return log.storage.files.unusable()


def contents(*folders):
    """Every file below these folders, with its bytes."""
    return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}
