"""What the catalog wants of an application of persistent queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.log.catalog.sql_queries import RUNNING, StoredQuery
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.script.settings import ENGINE


@dataclass(frozen=True)
class WantedApplication:
    """
    An application and its queries, in the order in which they were made.

    `is_built` says that it is built beside the application of its query, and is to take the place of that.
    """

    name: str
    queries: tuple[StoredQuery, ...]
    is_built: bool = False

    @property
    def versions(self) -> tuple[tuple[str, int], ...]:
        """The id and version of each query; a run goes on as long as they are the same."""
        return tuple((one.id, one.version) for one in self.queries)

    @property
    def runs(self) -> bool:
        """Whether it is to run: no query of it is paused."""
        return all(one.wanted == RUNNING for one in self.queries)

    @property
    def engine(self) -> str | None:
        """The engine that the setting `streamkit.engine` has chosen; None leaves that to the runner."""
        chosen = (one.settings.get("set", {}).get(ENGINE) for one in self.queries)
        return next((str(one) for one in chosen if one is not None), None)

    @property
    def has_failed(self) -> bool:
        """Whether the catalog knows what ended the last run of one of its queries."""
        return any(one.failure for one in self.queries)


def wanted_applications(queries: Iterable[StoredQuery]) -> dict[str, WantedApplication]:
    """The applications of queries, and those that are built beside, by their names."""
    found: dict[str, list[StoredQuery]] = {}
    built: dict[str, WantedApplication] = {}
    for query in queries:
        found.setdefault(query.application, []).append(query)
        if (beside := built_beside(query)) is not None:
            built[beside.application] = WantedApplication(beside.application, (beside,), is_built=True)
    return {name: WantedApplication(name, tuple(of_it)) for name, of_it in found.items()} | built
