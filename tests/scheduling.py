"""
Which tests run, in which order, and which share a worker.

All tests that use the session of Spark share one worker, since a run has one JVM; every other test goes to whoever is free. What is long
comes first, so that no worker is alone with it in the end. Of the bugs that a harness is shown to catch, a run takes one, unless the
harness or what it guards has changed since all were caught, its file is named, or it is torture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

SESSION = "spark"


def needs_session(item: pytest.Item) -> bool:
    """Whether a test uses the session of the run, or is marked because it asks for it while it runs."""
    return SESSION in getattr(item, "fixturenames", ()) or item.get_closest_marker(SESSION) is not None


def share_a_worker(items: Iterable[pytest.Item]) -> None:
    """Tests that use the session of Spark go to one worker."""
    for item in items:
        if needs_session(item):
            item.add_marker(pytest.mark.xdist_group(SESSION))


def long_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Those with the session, then those that are slow, then the rest; in each the order stays."""
    return sorted(items, key=lambda item: (not needs_session(item), item.get_closest_marker("slow") is None))


def further_bugs(items: Iterable[pytest.Item], takes_all: Callable[[Path], bool]) -> list[pytest.Item]:
    """The tests of a parameter `bug` but for the first bug of each function, save in files of which all are taken."""
    seen: set[tuple[Path, str]] = set()
    further: list[pytest.Item] = []
    for item in items:
        if not isinstance(item, pytest.Function) or "bug" not in getattr(getattr(item, "callspec", None), "params", ()):
            continue
        function = (item.path, item.originalname)
        if function in seen and not takes_all(item.path):
            further.append(item)
        seen.add(function)
    return further


def named_files(arguments: Iterable[str], folder: Path) -> set[Path]:
    """The files among the arguments of a run; those of folders are not named."""
    paths = ((folder / argument.partition("::")[0]).resolve() for argument in arguments)
    return {path for path in paths if path.is_file()}
