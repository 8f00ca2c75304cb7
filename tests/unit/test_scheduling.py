"""Promises of which tests run, in which order, and together: on tests that are collected from a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.scheduling import (
    LAST_OF_LONG,
    SESSION,
    TOGETHER,
    OneSessionScheduling,
    cases_of,
    further_bugs,
    further_cases,
    further_catalogs,
    further_combinations,
    long_first,
    named_files,
    read_session_tests,
    scope_of,
    write_session_tests,
)

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.parametrize("bug", ["first", "second"])
@pytest.mark.parametrize("seed", [0, 1])
def test_caught(bug, seed):
    pass

@pytest.fixture(params=["file", "postgres"])
def place(request):
    pass

def test_placed(place):
    pass

@pytest.mark.every_catalog
def test_anywhere(place):
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.fixture
def spark():
    pass

@pytest.fixture
def programs(spark):
    pass

def test_session(programs):
    pass

@pytest.mark.spark
def test_marked():
    pass

@pytest.mark.foreign("kafka")
def test_broker():
    pass

@pytest.mark.foreign("kafka")
def test_broker_again():
    pass

@pytest.mark.parametrize(("low", "high"), [(1, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("options", [{}, {"a": 1}])
def test_combined(low, high, options):
    pass

@pytest.mark.parametrize("seed", range(10))
def test_seeds(seed):
    pass
"""


class Collector:
    """Takes the items of a run that collects."""

    def pytest_collection_finish(self, session):
        self.items = session.items


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """The tests of the file, collected once."""
    folder = tmp_path_factory.mktemp("few")
    file = folder / "test_few.py"
    file.write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = \n  spark\n  slow\n  every_catalog\n  foreign\n")
    collector = Collector()
    pytest.main(
        ["--collect-only", "--import-mode=importlib", "-p", "no:terminal", "-p", "no:cacheprovider", str(file)],
        plugins=[collector],
    )
    return collector.items


def names(items):
    return [item.name for item in items]


def test_one_bug_of_each_function_is_taken(items):
    """The tests of further bugs are found, unless all of their file are wanted."""
    assert len(further_bugs(items, lambda file: False)) == 3
    assert {name.partition("[")[0] for name in names(further_bugs(items, lambda file: False))} == {"test_caught"}
    assert further_bugs(items, lambda file: file.name == "test_few.py") == []


def test_most_tests_need_one_catalog(items):
    """Those on PostgreSQL are found, save those that are marked, and unless all of their file are wanted."""
    assert names(further_catalogs(items, lambda file: False)) == ["test_placed[postgres]"]
    assert further_catalogs(items, lambda file: True) == []


def test_few_combinations_have_each_case(items):
    """Of lists that are multiplied, each case of each is met, a pair of names as the pair it is; each place and each case of one list stays."""
    further = further_combinations(items, lambda file: False)
    kept = [item for item in items if item not in further and item.originalname == "test_combined"]

    assert {item.originalname for item in further} == {"test_combined", "test_caught"}
    assert len(kept) == 3
    assert {case for item in kept for case in cases_of(item)} == {
        case for item in items if item.originalname == "test_combined" for case in cases_of(item)
    }
    assert further_combinations(items, lambda file: True) == []


def test_few_cases_are_taken_evenly(items):
    """So many cases of a function that is named are taken, from its whole list, unless all of its file are wanted."""
    (name,) = {item.nodeid.partition("[")[0] for item in items if item.originalname == "test_seeds"}
    further = names(further_cases(items, lambda file: False, {name: 4}))

    assert [name for name in names(items) if name.startswith("test_seeds") and name not in further] == [
        f"test_seeds[{seed}]" for seed in (0, 2, 5, 7)
    ]
    assert further_cases(items, lambda file: True, {name: 4}) == further_cases(items, lambda file: False, {}) == []


def test_what_is_long_comes_first(items):
    """Tests with the session of Spark are first, then those of a foreign system, then those that are slow."""
    assert names(long_first(items))[:5] == [
        "test_session",
        "test_marked",
        "test_broker",
        "test_broker_again",
        "test_slow",
    ]


def test_notebooks_come_behind_all_else_that_is_long():
    """Their JVMs do not start beside those of the first tests, and yet no worker is alone with them in the end."""
    files = [LAST_OF_LONG, *(file for file in TOGETHER if file != LAST_OF_LONG), "tests/unit/test_short.py"]
    found: list[Any] = [SimpleNamespace(nodeid=f"{file}::test_one", get_closest_marker=lambda name: None) for file in files]

    assert [item.nodeid for item in long_first(found)] == [item.nodeid for item in (*found[1:-1], found[0], found[-1])]
    assert LAST_OF_LONG in TOGETHER and (ROOT / LAST_OF_LONG).exists()


def test_the_session_has_one_worker(items, tmp_path):
    """Tests that use the session of Spark by way of any fixture, or ask for it while they run, are one scope; others are each their own."""
    write_session_tests(tmp_path / "session.json", items)
    with_session = read_session_tests(tmp_path / "session.json")
    scopes = {item.name: scope_of(item.nodeid, with_session) for item in items}

    assert {name for name, scope in scopes.items() if scope == SESSION} == {"test_session", "test_marked"}
    assert {name for name, scope in scopes.items() if scope == "kafka"} == {"test_broker", "test_broker_again"}
    assert len({*scopes.values()}) == len(items) - 2


def test_named_files(tmp_path):
    """A file is named by its path or that of a test in it, and not by its folder or an option."""
    file = tmp_path / "test_few.py"
    file.touch()

    assert named_files(["-q", "test_few.py::test_slow[a]"], tmp_path) == named_files([str(file)], Path("/")) == {file}
    assert named_files([".", "-x", "-k", "one or another " * 50], tmp_path) == set()


def test_a_long_set_up_is_shared():
    """The tests of a file whose set-up takes seconds share a worker, unless they use the session; such a file exists."""
    for file in TOGETHER:
        assert (ROOT / file).is_file()
        assert scope_of(f"{file}::test_one", {}) == scope_of(f"{file}::test_two", {}) == file
        assert scope_of(f"{file}::test_one", {f"{file}::test_one": SESSION}) == SESSION


class Worker:
    """A worker that notes what it is told to run."""

    gateway = SimpleNamespace(id="gw")
    shutting_down = False

    def __init__(self):
        self.told: list[int] = []

    def send_runtest_some(self, places):
        self.told += places

    def shutdown(self):
        self.shutting_down = True


def test_what_is_done_is_forgotten(request, tmp_path, monkeypatch):
    """Each test goes to one worker, and what was done is not counted again after each that follows."""
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda config: [1, 2])
    (tmp_path / "session.json").write_text("{}")
    scheduling = OneSessionScheduling(request.config, SimpleNamespace(loadscopesched=lambda *_: None), tmp_path / "session.json")
    names, workers = [f"test_few.py::test_{number}" for number in range(20)], [Worker(), Worker()]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, [*names])
    scheduling.schedule()
    done: list[int] = []
    while any(worker.told for worker in workers):
        for worker in workers:
            for place in worker.told[:1]:
                scheduling.mark_test_complete(worker, worker.told.pop(0))
                done.append(place)
            assert len(scheduling.assigned_work[worker]) <= 4
    assert sorted(done) == [*range(20)] and not scheduling.has_pending
