"""`streamkit store`: rows of an application's stores."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from streamkit.cli.query.moment import parse_moment
from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.connectors.files.far_times import printed_rows
from streamkit.errors import ConfigError
from streamkit.log.opening import open_existing_log
from streamkit.schema import Column
from streamkit.state.view import StoreView, open_view

program = typer.Typer(help="Look into the stores of applications.", no_args_is_help=True, rich_markup_mode=None)


@program.callback()
def options() -> None:
    """Look into the stores of applications."""


@program.command("get")
def get_row(
    app: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", autocompletion=completion.applications)],
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store's name.", autocompletion=completion.stores)],
    key: Annotated[list[str], typer.Argument(metavar="KEY", help="The key; if it has several columns, a value for each.")],
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="START",
            help="Of a windowed store, the window that starts then, as in 2026-01-31T12:00:00Z, or milliseconds since 1970; else all.",
        ),
    ] = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Show the row of a key, or of each of its windows.

    It is that of the last committed epoch. Tables round numbers to six decimals; JSON is a list of rows, of a store without
    windows too.
    """
    with open_existing_log(log) as opened:
        view = open_view(opened, app, store)
        values = _typed_key(view, key)
        if window is None and view.store.window_size_ms is not None:
            table = _windows_of(view, values)
        else:
            table = view.find(**values, window_start=None if window is None else parse_moment(window))
    if not table.num_rows:
        raise ConfigError(
            f"the store {store!r} has no row of the key {', '.join(key)}{f' in the window from {window}' if window else ''}"
        )
    if as_json:
        show_json(printed_rows(table))
        return
    show_table(table.column_names, [tuple(row.values()) for row in printed_rows(table)], thousands="")


def _typed_key(view: StoreView, key: list[str]) -> dict[str, Any]:
    columns = list(view.store.key)
    if len(key) != len(columns):
        raise ConfigError(
            f"found {len(key)} values of a key; expected {len(columns)}: {', '.join(column.name for column in columns)}"
        )
    return {column.name: _typed(text, column) for text, column in zip(key, columns)}


def _typed(text: str, column: Column) -> Any:
    try:
        return pa.array([text]).cast(column.arrow.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(f"the key column {column.name} is {column.type}; found {text!r}") from None


def _windows_of(view: StoreView, values: dict[str, Any]) -> pa.Table:
    table = view.to_arrow()
    for name, value in values.items():
        table = table.filter(pc.equal(table[name], pa.scalar(value, table.schema.field(name).type)))
    return table.sort_by("window_start")
