"""Promises to logs that were written by earlier versions: each format that was ever kept opens, reads, goes on, and is rebuilt."""

from __future__ import annotations

import json
import random
import tarfile

import pytest

from streamkit.log.catalog.tables import FORMAT_VERSION
from streamkit.log.opening import open_log
from streamkit.log.rescue.findings import ERROR
from streamkit.log.rescue.rebuild import rebuild
from tests.kit import busy_database as busy
from tests.unit.log import golden

VERSIONS = sorted(int(file.name.removeprefix("format-").removesuffix(".tar.gz")) for file in golden.DATA.glob("format-*.tar.gz"))


@pytest.fixture(params=VERSIONS)
def kept(request, tmp_path):
    """The folder of a log of that format, and what was in it when it was written."""
    with tarfile.open(golden.file_of(request.param)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "log", json.loads((tmp_path / "contents.json").read_text())


def test_the_present_format_is_kept():
    """Whoever changes the format keeps a log of the new one; one of an older format is deleted only with the promise to read it."""
    assert VERSIONS[-1] == FORMAT_VERSION


def test_it_reads_what_was_written(kept):
    """Every topic, row, header, deletion, offset and group is there, and the deep check finds nothing."""
    folder, expected = kept
    with open_log(folder) as log:
        assert golden.contents(log) == expected
        assert [finding for finding in log.fsck(deep=True).findings if finding.severity == ERROR] == []


def test_it_goes_on(kept):
    """What is appended, merged, compacted and altered from then on is as in a log of its own time; what stays stays as it was."""
    folder, expected = kept
    kept_rows = expected["topics"]["typed-lz4"]["rows"]
    with open_log(folder) as log:
        busy.work(log, random.Random(4), 20, "later")
        log.compact("typed-lz4")
        found = golden.contents(log)["topics"]["typed-lz4"]["rows"]
        assert [row for row in found if row["k"] != "gone"] == [row for row in kept_rows if row["k"] != "gone"]
        assert [finding for finding in log.fsck(deep=True).findings if finding.severity == ERROR] == []


def test_its_catalog_is_rebuilt(kept):
    """Journal and copies of that format give the catalog back."""
    folder, expected = kept
    for file in folder.glob("catalog.db*"):
        file.unlink()
    assert rebuild(str(folder)).is_complete
    with open_log(folder) as log:
        assert golden.contents(log) == expected
