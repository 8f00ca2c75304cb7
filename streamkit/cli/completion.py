"""What a shell may complete: names of topics, groups and applications of the log that a command is pointed at."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from streamkit.cli.location import open_existing_log
from streamkit.errors import StreamKitError
from streamkit.log.log import Log


def completing(names: Callable[[Log], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """A completion by the names of a log; without a log that can be opened there are none."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            with open_existing_log(context.params.get("log")) as log:
                return [name for name in names(log) if name.startswith(incomplete)]
        except StreamKitError:
            return []  # a completion must not print

    return complete


topics = completing(lambda log: log.topics(internal=True))
groups = completing(lambda log: log.groups())
applications = completing(lambda log: [state.name for state in log.catalog.applications()])
