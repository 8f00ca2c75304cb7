"""What a shell may complete: the names that the log a command is pointed at has, and words that are always the same."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, suppress

import typer

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.opening import existing_location, open_catalog
from streamkit.log.topic.formats import FORMATS
from streamkit.log.topic.settings import SETTINGS

Completion = Callable[[typer.Context, str], list[str]]


def completing(names: Callable[[Catalog, typer.Context], Iterable[str]]) -> Completion:
    """
    A completion by names of the log's catalog, which is opened read-only.

    It prints nothing and never fails: without a log, or with a damaged one, there are no names.
    """

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        with suppress(Exception), redirect_stderr(io.StringIO()):
            catalog = open_catalog(existing_location(context.params.get("log")))
            try:
                return [name for name in names(catalog, context) if name.startswith(incomplete)]
            finally:
                catalog.close()
        return []

    return complete


def choosing(words: Iterable[str]) -> Completion:
    """A completion by words that are always the same."""
    known = list(words)

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def _stores(catalog: Catalog, context: typer.Context) -> Iterable[str]:
    return catalog.applications.get(context.params["app"]).stores


topics = completing(lambda catalog, _: [topic.name for topic in catalog.topics.every()])
groups = completing(lambda catalog, _: catalog.groups.names())
applications = completing(lambda catalog, _: [state.name for state in catalog.applications.every()])
stores = completing(_stores)
settings = choosing(f"{name}=" for name in SETTINGS)
setting_names = choosing(SETTINGS)
formats = choosing(FORMATS)
bounds = choosing(("earliest", "latest"))
