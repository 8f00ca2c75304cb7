"""`streamkit store`: rows of an application's stores, and whether these are what their changelogs say."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from streamkit.cli.applications import ApplicationArgument
from streamkit.cli.terminal import completion
from streamkit.cli.terminal.key_command import KeyCommand
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.cli.verification import verify
from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import cell_text
from streamkit.description.stores import store_description
from streamkit.errors import ConfigError
from streamkit.log.opening import open_existing_log
from streamkit.plan.duration import duration_text
from streamkit.query.store_rows import AskedKey, StoreSelection, absence_of_key, changes_of_key, rows_of_key, view_as_of
from streamkit.state.hot_keys import load_of
from streamkit.state.view import open_view, open_views

program = typer.Typer(help="Look into the stores of applications.", no_args_is_help=True, rich_markup_mode=None)

TABLE_ROWS = 20
StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="The store's name.", autocompletion=completion.stores)]
KeyArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY",
        help="The key, as it is printed; if it has several columns, a value for each but those of --null, and none if --null names all. "
        "A text that begins with - is written behind --.",
        show_default=False,
    ),
]
NullColumnOption = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="COLUMN", help="A key column that is null, as often as there are such.", show_default=False),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", "--max", metavar="N", min=1, help=f"Rows at most; {TABLE_ROWS} for a table, all otherwise.", show_default=False
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="WHEN",
        help="The number of an epoch, or a time of the host such as 2026-01-31T12:00:00Z: the rows as the store had them then.",
        show_default=False,
    ),
]
ValidAtOption = Annotated[
    str | None,
    typer.Option(
        "--valid-at",
        metavar="TIME",
        help="An event time such as 2026-01-31T12:00:00Z: of a store that keeps versions, the rows that were valid then.",
        show_default=False,
    ),
]


@program.callback()
def options() -> None:
    """Look into the stores of applications."""


@program.command("list")
def list_stores(
    app: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="The application's name; else all.", autocompletion=completion.applications),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the stores of an application, or of all.

    It says how their rows are kept, by which key and with which columns.
    The changelog's size counts replaced rows, too, until compaction removes them.
    """
    with open_existing_log(log) as opened:
        names = [state.name for state in opened.catalog.applications.every()] if app is None else [app]
        found = [store_description(opened, view).to_json() for name in names for view in open_views(opened, name)]
    if as_json:
        show_json(found)
        return
    rows = [
        (one["application"], one["store"], _kind(one), one["key"], one["columns"], one["changelog_rows"], one["changelog_bytes"])
        for one in found
    ]
    show_table(("application", "store", "layout", "key", "columns", "changelog rows", "bytes"), rows)


@program.command("get", cls=KeyCommand)
def get_row(
    app: ApplicationArgument,
    store: StoreArgument,
    key: KeyArgument = None,
    null: NullColumnOption = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="START",
            help="For a windowed store, the window that starts at this time, as in 2026-01-31T12:00:00Z, or milliseconds since 1970; else all.",
        ),
    ] = None,
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the row of a key, or of each of its windows.

    It is the row of the last committed epoch, unless --as-of names another. Tables round numbers to six decimals, because sums and means of doubles have up to
    17 digits; JSON has all of them. JSON is a list of rows, of a store without
    windows too.
    """
    asked = AskedKey(tuple(key or ()), tuple(null or ()))
    with open_existing_log(log) as opened:
        view = open_view(opened, app, store)
        with view_as_of(view, as_of) as seen:
            table = rows_of_key(seen, asked, window, valid_at)
        if not table.num_rows:
            raise ConfigError(absence_of_key(view, asked, window, valid_at))
    if as_json:
        show_json(printed_rows(table))
        return
    show_table(table.column_names, [tuple(row.values()) for row in printed_rows(table)], thousands="")


@program.command("history", cls=KeyCommand)
def show_history(
    app: ApplicationArgument,
    store: StoreArgument,
    key: KeyArgument = None,
    null: NullColumnOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the history of the rows of a key.

    It shows the changes that the changelog still has, each with the epoch that made it. Compaction leaves the newest one of each row.
    """
    with open_existing_log(log) as opened:
        table = changes_of_key(open_view(opened, app, store), AskedKey(tuple(key or ()), tuple(null or ())))
    if as_json:
        show_json(printed_rows(table))
        return
    show_table(table.column_names, [tuple(row.values()) for row in printed_rows(table)], thousands="")


@program.command("scan")
def scan_store(
    app: ApplicationArgument,
    store: StoreArgument,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            "--prefix",
            metavar="VALUE",
            help="Only rows whose first key column has this value; the next one by a second --prefix.",
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null",
            metavar="COLUMN",
            help="A column of the prefix that is null, as often as there are such; --prefix has the values of the others.",
            show_default=False,
        ),
    ] = None,
    starts_with: Annotated[
        str | None,
        typer.Option(
            "--starts-with",
            metavar="TEXT",
            help="Only rows in which the key column after the --prefix (without it the first one) begins with this.",
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BOUND",
            help="Windows that start then or later; without windows, rows from this value of the first key column on.",
        ),
    ] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="BOUND", help="As --from, but the rows before it.")] = None,
    limit: LimitOption = None,
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the rows of a store, or some of them.

    Some: by the beginning of their keys, by a range of keys, or by when their windows start. They are those of the last committed
    epoch, unless --as-of names another, by windows, then by keys.
    """
    most = limit if as_json or limit is not None else TABLE_ROWS
    scan = StoreSelection(tuple(prefix or ()), starts_with, first, before, valid_at, tuple(null or ()))
    with open_existing_log(log) as opened, view_as_of(open_view(opened, app, store), as_of) as seen:
        table = scan.rows(seen, None if most is None else most + 1)
    rows = table if most is None else table.slice(0, most)
    if as_json:
        show_json(printed_rows(rows))
        return
    show_table(rows.column_names, [tuple(row.values()) for row in printed_rows(rows)], thousands="")
    if table.num_rows > rows.num_rows:
        print(f"There are more rows than these {rows.num_rows}: see --limit.", file=sys.stderr)


@program.command("count")
def count_rows(app: ApplicationArgument, store: StoreArgument, as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show how many rows a store has, as of the last committed epoch."""
    with open_existing_log(log) as opened:
        found = open_view(opened, app, store).count()
    show_json({"application": app, "store": store, "rows": found}) if as_json else print(found)


program.command("verify")(verify)


@program.command("stats")
def show_load(
    app: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", autocompletion=completion.applications)],
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The store's name; else all.", autocompletion=completion.stores)
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show which keys and key groups have the newest changes.

    It looks at the newest 500,000 changes of each store; a key counts once in each epoch. A key group with more than four times an even
    share is hot. The busiest task is shown too: where one key has most of the changes, more tasks do not help.
    """
    with open_existing_log(log) as opened:
        names = [view.store.name for view in open_views(opened, app)] if store is None else [store]
        found = [load_of(opened, app, name) for name in names]
    if as_json:
        show_json([asdict(one) | {"hot_key_groups": one.hot_key_groups, "busiest_task": one.busiest_task} for one in found])
        return
    rows = [
        (
            one.store, one.changes, ", ".join(f"{group} ({one.by_key_group[group] / one.changes:.0%})" for group in one.hot_key_groups) or "none",
            f"{one.busiest_task:.1f}", "; ".join(f"{', '.join(str(cell_text(value)) for value in hot.key.values())} ({hot.share:.1%})" for hot in one.hottest),
        )
        for one in found
    ]  # fmt: skip
    show_table(("store", "changes", "hot key groups", "busiest task, of an even share", "hottest keys"), rows)


def _kind(described: dict[str, Any]) -> str:
    size = described["window_size_ms"]
    return described["layout"] if size is None else f"{described['layout']} of {duration_text(size)}"
