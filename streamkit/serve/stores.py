"""Stores of applications: the row of a key, and pages of rows, as of the last committed epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array
from streamkit.description.stores import StoreDescription, store_description
from streamkit.log.values.keys import encode_keys
from streamkit.names import WINDOW_START
from streamkit.query.key_text import key_text
from streamkit.query.store_rows import AskedKey, StoreSelection, absence_of_key, changes_of_key, rows_of_key, view_as_of
from streamkit.serve.answers import RowsAnswer
from streamkit.serve.applications import application_state
from streamkit.serve.cursors import cursor_place, cursor_text
from streamkit.serve.forms import ROW_FORMS
from streamkit.serve.refusals import RefusedError, bad_request
from streamkit.serve.resource import Asked, Parameter, Resource
from streamkit.state.view import StoreView, open_view, open_views

ROWS = 100
MOMENTS = ("as_of", "valid_at")
QUESTION = ("prefix", "starts_with", "start", "end", "null", *MOMENTS)  # which all pages have in common
_TEXT = (str, type(None))
SKIPPED_ROWS_MAX = 100_000  # of one first key, or of windows that start together, before the page


def stores(asked: Asked) -> list[dict[str, Any]]:
    """All of an application."""
    application_state(asked.log, asked.path["app"])
    return [store_description(asked.log, view).to_json() for view in open_views(asked.log, asked.path["app"])]


def store(asked: Asked) -> Any:
    """The row of the key, or of each of its windows; without a key, what the store is."""
    with _view(asked) as view:
        if not asked.others and not asked["null"] and all(asked[name] is None for name in ("window", *MOMENTS)):
            return store_description(asked.log, view).to_json()
        key = _key(view, asked)
        with view_as_of(view, asked["as_of"]) as seen:
            rows = rows_of_key(seen, key, asked["window"], asked["valid_at"])
        if not rows.num_rows:
            absence = absence_of_key(view, key, asked["window"], asked["valid_at"])
            raise RefusedError(404, "NotFound", absence, "look at the rows of the store, by List on its page or at …/rows")
    return RowsAnswer("rows", _bounded(asked, rows), {})


def rows(asked: Asked) -> RowsAnswer:
    """A page of rows, in the order of the store."""
    limit = asked.rows("limit", "ask for the rest with the cursor of the answer")
    question = {"application": asked.path["app"], "store": asked.path["store"], **{name: asked[name] for name in QUESTION}}
    first, skipped = asked["start"], 0
    if asked["cursor"] is not None:
        place = cursor_place(asked["cursor"], {"first": _TEXT, "skip": int, "question": dict})
        for name, value in question.items():
            if place["question"].get(name) != value:
                raise bad_request(
                    f"found {name}={value}, and a cursor of {name}={place['question'].get(name)}; expected the same question as for the page before",
                    "leave the cursor out to begin at the beginning",
                )
        first, skipped = place["first"], place["skip"]
        if not 0 <= skipped <= SKIPPED_ROWS_MAX:
            raise RefusedError(
                413, "TooMany", f"the page lies behind {skipped:,} rows of one key column; expected at most {SKIPPED_ROWS_MAX:,}",
                "ask for a part with prefix, start and end",
            )  # fmt: skip
    with _view(asked) as view:
        selection = StoreSelection(
            tuple(asked["prefix"]), asked["starts_with"], first, asked["end"], asked["valid_at"], tuple(asked["null"])
        )
        with view_as_of(view, asked["as_of"]) as seen:
            found = selection.rows(seen, skipped + limit + 1).slice(skipped)
        page = _bounded(asked, found.slice(0, limit))
        is_complete = page.num_rows == found.num_rows
        cursor = None if is_complete else cursor_text({**_behind(asked, view, page, first, skipped), "question": question})
    return RowsAnswer("rows", page, {"cursor": cursor, "is_complete": is_complete})


def count(asked: Asked) -> dict[str, Any]:
    """How many rows there are now."""
    with _view(asked) as view:
        return {"application": asked.path["app"], "store": view.store.name, "rows": view.count()}


def history(asked: Asked) -> RowsAnswer:
    """What became of a key."""
    with _view(asked) as view:
        found = changes_of_key(view, _key(view, asked))
    newest = found.slice(max(0, found.num_rows - asked.rows("limit", "there is no way to more")))
    return RowsAnswer("changes", _bounded(asked, newest), {"is_complete": newest.num_rows == found.num_rows})


@contextmanager
def _view(asked: Asked) -> Iterator[StoreView]:
    """The store of the path; its files are given back behind the block."""
    application_state(asked.log, asked.path["app"])
    view = open_view(asked.log, asked.path["app"], asked.path["store"])
    with closing(view.reader):
        yield view


def _key(view: StoreView, asked: Asked) -> AskedKey:
    """The values of the key columns, in their order."""
    given, nulls = asked.others, asked["null"]
    for columns in (view.key.names, view.store.key.names):
        if sorted([*given, *nulls]) == sorted(columns):
            return AskedKey(tuple(given[name] for name in columns if name in given), tuple(nulls))
    unknown = sorted({*given, *nulls} - {*view.key.names, *view.store.key.names})
    said = (
        f"found the parameter {unknown[0]!r}, which is no key column"
        if unknown
        else f"found {', '.join([*given, *(f'{name} null' for name in nulls)]) or 'no key column'}"
    )
    raise bad_request(
        f"{said}; the store {view.store.name!r} has the key {', '.join(view.key.names)}; expected a value for each, or null=NAME for one that is null"
    )


def _bounded(asked: Asked, found: pa.Table) -> pa.Table:
    """As many of the rows as an answer may have bytes; one at least."""
    while found.num_rows > 1 and found.nbytes > asked.limits.bytes:
        found = found.slice(0, max(1, min(found.num_rows - 1, found.num_rows * asked.limits.bytes // found.nbytes)))
    return found


def _behind(asked: Asked, view: StoreView, page: pa.Table, first: str | None, skipped: int) -> dict[str, Any]:
    """
    Where the next page begins: at the window, or first key column, of the last row, behind the rows of it that were shown.

    Where rows cannot be bounded by it, as behind a prefix, with the beginning of a text, or in sessions, it is behind all rows that were shown.
    """
    has_starts = view.store.window_size_ms is not None
    name = WINDOW_START if has_starts else view.key.names[0]
    has_prefix = bool(asked["prefix"] or asked["null"])
    is_bounded = not asked["starts_with"] and (has_starts or not (view.has_windows or has_prefix))
    if not is_bounded or name not in page.column_names or not page[name][-1].is_valid:
        return {"first": first, "skip": skipped + page.num_rows}
    values, text = encode_keys([one_array(page[name])]), key_text(page[name][-1])
    others = np.flatnonzero(pc.not_equal(values, values[-1]).to_numpy(zero_copy_only=False))
    same = len(values) - (int(others[-1]) + 1 if len(others) else 0)
    return {"first": text, "skip": same + (skipped if same == len(values) and text == first else 0)}


AS_OF = Parameter(
    "as_of", str, "the number of an epoch, or a time of the host such as 2026-01-31T12:00:00Z: rows as the store had them then"
)
VALID_AT = Parameter(
    "valid_at", str, "an event time such as 2026-01-31T12:00:00Z: of a store that keeps versions, the rows that were valid then"
)
NULL = Parameter("null", str, "a key column that is null, by its name; as often as there are such", is_list=True)
KEY_COLUMNS = "the value of each key column, by its name, or by key.NAME where a parameter has that name"
PAGING = (
    AS_OF,
    VALID_AT,
    Parameter("start", str, "from this value of the first key column on; or windows that start then or later"),
    Parameter("end", str, "before this value of the first key column; or windows that start before"),
    Parameter("prefix", str, "only rows whose first key column has this value; the next one by a second prefix", is_list=True),
    Parameter("null", str, "a column of the prefix that is null, by its name; prefix has the values of the others", is_list=True),
    Parameter("starts_with", str, "only rows whose key column after the prefix begins with this"),
    Parameter("limit", int, "rows at most", ROWS, least=1),
    Parameter("cursor", str, "go on where an answer ended"),
)
RESOURCES = (
    Resource(
        "/api/v1/applications/{app}/stores",
        "The stores of an application, as streamkit store list --json.",
        stores,
        list[StoreDescription],
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/stores/{store}",
        "The row of a key, or of each of its windows, as of the last committed epoch; without a key, what the store is.",
        store,
        StoreDescription | dict[str, Any],
        (Parameter("window", str, "the window that starts then, such as 2026-01-31T12:00:00Z; else all"), NULL, AS_OF, VALID_AT),
        ROW_FORMS,
        is_of_application=True,
        takes_others=KEY_COLUMNS,
    ),
    Resource(
        "/api/v1/applications/{app}/stores/{store}/count",
        "How many rows a store has, as streamkit store count --json.",
        count,
        dict[str, Any],
        is_of_application=True,
    ),
    Resource(
        "/api/v1/applications/{app}/stores/{store}/history",
        "The history of a key: the newest changes of its rows that the changelog still has, each with its epoch, oldest first.",
        history,
        dict[str, Any],
        (NULL, Parameter("limit", int, "changes at most", ROWS, least=1)),
        ROW_FORMS,
        is_of_application=True,
        takes_others=KEY_COLUMNS,
    ),
    Resource(
        "/api/v1/applications/{app}/stores/{store}/rows",
        "Rows of a store, in its order, as of the last committed epoch.",
        rows,
        dict[str, Any],
        PAGING,
        ROW_FORMS,
        is_of_application=True,
    ),
)
