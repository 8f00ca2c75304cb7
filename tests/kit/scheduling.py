"""
Which tests run, in which order, and which share a worker.

All tests that use the session of Spark share one worker, since a run has one JVM, and so do those of a foreign system, which is
started once, and those of a file whose set-up takes seconds; every other test goes to whoever is free. What is long
comes first, so that no worker is alone with it in the end. Of the bugs that a harness is shown to catch, a run takes one, and of the
catalogs SQLite's, unless the harness or what it guards has changed since all were taken, its file is named, or it is torture. So it is
with combinations, of which a run takes few that have each case of each list, and with tests that are `TAKEN_CASES`.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.kit.sampling import covering

SESSION = "spark"
TOGETHER = (  # files whose tests share what takes seconds to make, or would slow each other down, such as notebooks with a JVM each
    "tests/unit/engine/evolution/test_migration.py",
    "tests/unit/log/test_permissions.py",
    "tests/unit/log/rescue/test_rebuild.py",
    "tests/unit/notebooks/test_notebooks.py",
    "tests/unit/site/test_build.py",
    "tests/unit/spark/dataframe/test_store.py",
    "tests/unit/state/test_earlier_epochs.py",
    "tests/unit/state/test_view_beside_an_application.py",
    "tests/unit/state/test_view_verbs.py",
    "tests/unit/state/test_verification.py",
    "tests/harness/simulation/test_simulation.py",
    "tests/unit/test_layers.py",
    "tests/unit/test_tidy.py",
    "tests/unit/topologies/test_flight_data.py",
    "tests/unit/topologies/test_loading.py",
    "tests/unit/wheel/test_wheel.py",
)
LAST_OF_LONG = "tests/unit/notebooks/test_notebooks.py"  # its JVMs start when those of Spark, Kafka and PostgreSQL's tests have
PLACES = {"place", "shared_place"}
TAKEN_CASES = {  # how many cases a run takes of tests that have many dear ones: seeds, or histories that only chance tells apart
    "tests/harness/conformance/test_conformance.py::test_all_records_at_once_give_what_the_rules_say": 40,
    "tests/harness/conformance/test_conformance.py::test_every_record_gives_what_kafka_streams_gives": 20,
    "tests/harness/crash/test_query_runner.py::test_runners_that_are_killed_at_any_time": 1,
    "tests/harness/crash/test_query_runner.py::test_the_next_runner_goes_on": 3,
    "tests/unit/engine/runs/test_other_windows.py::test_windows_of_another_size_come_once": 6,
    "tests/unit/engine/runs/test_rebuilt_twins.py::test_a_rebuilt_application_gives_what_its_twin_gives": 11,
    "tests/unit/engine/runs/test_waiting_results.py::test_results_come_once": 6,
    "tests/unit/engine/test_all_times.py::test_each_window_has_its_final_result": 15,
    "tests/unit/serve/test_kafka_rest.py::test_all_doors_that_write_agree": 5,
    "tests/unit/state/test_window_changelog.py::test_a_restore_finds_what_is_left": 4,
    "tests/unit/testing/test_trace_of_log.py::test_a_trace_of_a_log_is_a_run_over_it": 4,
}


def needs_session(item: pytest.Item) -> bool:
    """Whether a test uses the session of the run, or is marked because it asks for it while it runs."""
    return SESSION in getattr(item, "fixturenames", ()) or item.get_closest_marker(SESSION) is not None


def system_of(item: pytest.Item) -> str | None:
    """What a test needs that a run starts once: Spark's session, or the foreign system that its mark names."""
    mark = item.get_closest_marker("foreign")
    return SESSION if needs_session(item) else mark.args[0] if mark else None


def write_session_tests(file: Path, items: Iterable[pytest.Item]) -> None:
    """Write down, for the scheduler, which tests need what is started once; every worker writes the same."""
    systems = {item.nodeid: system_of(item) for item in items}
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(json.dumps({nodeid: system for nodeid, system in systems.items() if system}), encoding="utf-8")
    part.replace(file)


def read_session_tests(file: Path) -> dict[str, str]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def scope_of(nodeid: str, systems: Mapping[str, str]) -> str:
    """What is run by one worker: all tests that need the same system, all of a file with a long set-up, else the test alone."""
    file = nodeid.partition("::")[0]
    return systems.get(nodeid) or (file if file in TOGETHER else nodeid)


class OneSessionScheduling(LoadScopeScheduling):
    """Tests that use the session are one scope, so are those of some files; every other test is its own. Scopes begin in the order of their first tests."""

    def __init__(self, config: pytest.Config, log: Any, session_tests: Path) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._file = session_tests

    @cached_property
    def _with_session(self) -> dict[str, str]:
        return read_session_tests(self._file)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, self._with_session)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self.registered_collections[node] = Places(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """What is done is forgotten: else all of it, thousands of scopes, is counted after each test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


class Places(list[str]):
    """Tests in the order of a worker, which are looked up as often as there are tests."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(self)}

    def index(self, name: str, *_: Any) -> int:
        return self._places[name]


def long_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those with the session, then those of foreign systems, those that keep a worker for long, notebooks last, and the rest; in each the order stays."""

    def rank(item: pytest.Item) -> tuple[bool, bool, bool, bool]:
        system, file = system_of(item), item.nodeid.partition("::")[0]
        return system != SESSION, system is None, not is_long(item), file == LAST_OF_LONG

    return sorted(items, key=rank)


def is_long(item: pytest.Item) -> bool:
    """Whether a worker has to do with it for long: with the test alone, or with all of its file."""
    return item.get_closest_marker("slow") is not None or item.nodeid.partition("::")[0] in TOGETHER


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    """The parameters of a test by their names; none if it has none."""
    return getattr(getattr(item, "callspec", None), "params", {})


def places_of(item: pytest.Item) -> list[str]:
    """The kinds of place that a test is for."""
    return [value for name, value in parameters_of(item).items() if name in PLACES]


def further_bugs(items: Iterable[pytest.Item], takes_all: Callable[[Path], bool]) -> list[pytest.Item]:
    """The tests of a parameter `bug` but for the first bug of each function, save in files of which all are taken."""
    seen: set[tuple[Path, str]] = set()
    further: list[pytest.Item] = []
    for item in items:
        if not isinstance(item, pytest.Function) or "bug" not in parameters_of(item):
            continue
        function = (item.path, item.originalname)
        if function in seen and not takes_all(item.path):
            further.append(item)
        seen.add(function)
    return further


def further_catalogs(items: Iterable[pytest.Item], takes_all: Callable[[Path], bool]) -> list[pytest.Item]:
    """The tests whose place is one of PostgreSQL, but for those marked `every_catalog`, save in files of which all are taken."""
    return [
        item
        for item in items
        if "postgres" in places_of(item) and item.get_closest_marker("every_catalog") is None and not takes_all(item.path)
    ]


def further_combinations(items: Iterable[pytest.Item], takes_all: Callable[[Path], bool]) -> list[pytest.Function]:
    """
    The tests of a function whose lists of cases are multiplied, but for few that have each case of each list, save in files of which all are taken.

    What has a place is taken on each of them.
    """
    further: list[pytest.Function] = []
    for tests in functions_of(items):
        if len(lists_of(tests[0])) > 1 and not places_of(tests[0]) and not takes_all(tests[0].path):
            kept = {*covering(tests, cases_of)}
            further += [test for test in tests if test not in kept]
    return further


def further_cases(
    items: Iterable[pytest.Item], takes_all: Callable[[Path], bool], sampled: Mapping[str, int] = TAKEN_CASES
) -> list[pytest.Item]:
    """The tests of a function of many dear cases, but for so many, evenly from all, save in files of which all are taken."""
    further: list[pytest.Item] = []
    for tests in functions_of(items):
        count = sampled.get(tests[0].nodeid.partition("[")[0], len(tests))
        if count < len(tests) and not takes_all(tests[0].path):
            kept = {number * len(tests) // count for number in range(count)}
            further += [test for number, test in enumerate(tests) if number not in kept]
    return further


def functions_of(items: Iterable[pytest.Item]) -> list[list[pytest.Function]]:
    """The tests of each function that has parameters, in their order."""
    functions: dict[Hashable, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and parameters_of(item):
            functions[item.path, item.cls, item.originalname].append(item)
    return [*functions.values()]


def lists_of(item: pytest.Item) -> list[tuple[str, ...]]:
    """The names that each list of cases gives a value: those of each `parametrize`, and each parameter of a fixture."""
    lists = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        lists.append(tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names))
    named = {name for names in lists for name in names}
    return [*lists, *((name,) for name in parameters_of(item) if name not in named)]


def cases_of(item: pytest.Item) -> set[Hashable]:
    """Which case of each list a test has: the values themselves, which all tests of a case share, since some have no hash."""
    values = parameters_of(item)
    return {(names, tuple(id(values.get(name)) for name in names)) for names in lists_of(item)}


def named_files(arguments: Iterable[str], folder: Path) -> set[Path]:
    """The files among the arguments of a run; those of folders are not named."""
    paths = ((folder / argument.partition("::")[0]).resolve() for argument in arguments)
    return {path for path in paths if os.path.isfile(path)}  # not of a text that is too long for a path
