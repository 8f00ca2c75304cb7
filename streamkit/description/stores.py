"""A store as plain values: how its rows are kept, by which key, with which columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from streamkit.data_type import from_arrow
from streamkit.log.log import Log
from streamkit.state.layout import layout_of
from streamkit.state.view import StoreView


@dataclass(frozen=True)
class StoreDescription:
    """A store; a store that was reset has no changelog until the next start. Its size counts rows that later ones replaced, until compaction."""

    application: str
    store: str
    layout: str
    window_size_ms: int | None
    retention_ms: int | None
    history_ms: int | None
    key: str
    columns: str
    changelog_rows: int
    changelog_bytes: int

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def store_description(log: Log, view: StoreView) -> StoreDescription:
    """What there is to say of the store of a view."""
    store, layout = view.store, layout_of(view.store)
    state = log.catalog.applications.get(view.application).stores.get(store.name)
    changelog = log.catalog.manifest.statistics(state.changelog_topic_id) if state else ()
    values = [field for field in view.schema if field.name not in (*store.key.names, *layout.columns)]
    return StoreDescription(
        application=view.application,
        store=store.name,
        layout=layout.name,
        window_size_ms=store.window_size_ms,
        retention_ms=store.retention_ms,
        history_ms=view.history_ms,
        key=", ".join(f"{column.name} {column.type}" for column in store.key),
        columns=", ".join(f"{field.name} {from_arrow(field.type)}" for field in values),
        changelog_rows=sum(partition.records for partition in changelog),
        changelog_bytes=sum(partition.bytes for partition in changelog),
    )
