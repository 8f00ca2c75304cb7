"""Promises of the programs that the catalog remembers: one for each start that changed what an application does."""

from __future__ import annotations

import shutil
import tarfile

import pytest

from streamkit.clock import HandClock
from streamkit.log.catalog import programs
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.opening import open_log
from streamkit.log.rescue.findings import ERROR
from streamkit.log.rescue.rebuild import rebuild
from streamkit.names import fresh_token
from tests.unit.log import golden


@pytest.fixture
def clock():
    return HandClock(1_000)


@pytest.fixture
def catalog(place, clock):
    """A catalog of every kind."""
    opened = Catalog(place.open(), clock)
    yield opened
    opened.close()


def start(catalog, number, program="", name="app", tasks=None):
    """Start an application with a program that is told from others by its number; the text may have more in it."""
    text = f'{{"number": {number}{program}}}' if number is not None else None
    return catalog.applications.start(
        name, tasks=tasks, default_tasks=2, key_groups=8, program_hash=f"h{number}", program=text, stores=[]
    )


def known(catalog, state):
    return [(one.generation, one.started_ms, one.tasks, one.text) for one in catalog.applications.programs(state.id)]


def test_a_start_with_another_program_is_remembered(catalog, clock):
    """Each has its generation, the time of the log's clock, its tasks and its text; one that differs in lines alone has none."""
    start(catalog, 1)
    clock.advance(10)
    start(catalog, 1, ', "lines": {}')
    clock.advance(10)
    state = start(catalog, 2, tasks=5)
    start(catalog, 2)
    clock.advance(10)
    start(catalog, 1)

    assert known(catalog, state) == [
        (5, 1_030, 5, '{"number": 1}'),
        (3, 1_020, 5, '{"number": 2}'),
        (1, 1_000, 2, '{"number": 1}'),
    ]


def test_a_start_that_is_refused_is_not_remembered(catalog):
    """What the transaction of a start undoes, it undoes here too."""
    state = start(catalog, 1)
    with pytest.raises(Exception, match="key groups"):
        catalog.applications.start("app", tasks=None, default_tasks=2, key_groups=9, program_hash="h2", program="{}", stores=[])
    assert [one.generation for one in catalog.applications.programs(state.id)] == [1]


def test_the_last_ones_are_kept(catalog):
    """Of more starts than are kept, the oldest are forgotten, of each application its own."""
    other = start(catalog, 0, name="other")
    for number in range(programs.KEPT + 5):
        state = start(catalog, number)

    assert [one.generation for one in catalog.applications.programs(state.id)] == list(range(programs.KEPT + 5, 5, -1))
    assert len(catalog.applications.programs(other.id)) == 1


def test_the_program_of_an_epoch_is_remembered(catalog, clock):
    """A start that keeps the program before changes nothing here; the epoch that has brought state forward has the program, once."""
    start(catalog, 1)
    state = start(catalog, None)
    assert [one.generation for one in catalog.applications.programs(state.id)] == [1]
    clock.advance(7)
    epoch = EpochCommit(
        state.id, state.generation, 1, fresh_token(), {}, {}, None, False, (), {}, 0, program='{"number": 2}', program_hash="h2"
    )
    for _ in range(2):
        catalog.epochs.commit(epoch)
    assert known(catalog, state) == [(2, 1_007, 2, '{"number": 2}'), (1, 1_000, 2, '{"number": 1}')]
    assert catalog.applications.program_of("app") == '{"number": 2}'


def test_they_outlast_a_reset_and_go_with_the_application(catalog):
    """A reset forgets what an application has read, not what it was; who removes the application removes its programs."""
    state = start(catalog, 1)
    catalog.applications.reset("app")
    start(catalog, 2)
    assert [one.generation for one in catalog.applications.programs(state.id)] == [3, 1]

    catalog.applications.remove("app")
    with catalog.database.read() as transaction:
        assert transaction.execute("SELECT count(*) FROM application_program") == [(0,)]


@pytest.fixture
def older(tmp_path):
    """The folder of a log of format 5, with applications that have programs, and the name of one."""
    with tarfile.open(golden.file_of(5)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "log"


def test_an_older_log_begins_with_its_next_start(older):
    """A log from before has no programs; its next start is the first that is remembered, even of the same one, and a rebuild brings it back."""
    with open_log(older) as log:
        state = log.catalog.applications.every()[0]
        assert log.catalog.applications.programs(state.id) == []
        start(log.catalog, 1, name=state.name)
        found = log.catalog.applications.programs(state.id)
        assert [one.generation for one in found] == [state.generation + 1]
    for file in older.glob("catalog.db*"):
        file.unlink()
    assert rebuild(str(older)).is_complete
    with open_log(older) as log:
        assert log.catalog.applications.programs(state.id) == found
        assert [finding for finding in log.fsck(deep=True).findings if finding.severity == ERROR] == []


def test_an_older_log_that_is_only_read_has_none(older):
    """A catalog that may not be written stays as it is, and says that it remembers no program."""
    from streamkit.log.database.sqlite import SqliteDatabase

    database = SqliteDatabase(str(older / "catalog.db"), read_only=True)
    try:
        catalog = Catalog(database)
        assert [catalog.applications.programs(state.id) for state in catalog.applications.every()][:1] == [[]]
    finally:
        database.close()


def test_a_backup_has_them(tmp_path):
    """A backup that is opened as a log has the programs of its time."""
    with open_log(tmp_path / "log") as log:
        state = start(log.catalog, 1)
        log.backup(tmp_path / "backup")
        start(log.catalog, 2)
    shutil.rmtree(tmp_path / "log")
    with open_log(tmp_path / "backup") as log:
        assert [one.text for one in log.catalog.applications.programs(state.id)] == ['{"number": 1}']
