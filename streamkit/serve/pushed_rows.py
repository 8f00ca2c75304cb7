"""Sends each new row of a query that goes on to a client of HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_text
from streamkit.serve.live import LISTEN_SECONDS, Live, heard_within
from streamkit.serve.refusals import RefusedError
from streamkit.sql.push.subscription import PushQuery

ROWS_AT_ONCE = 1_000  # in one text; who reads slowly is waited for between two


async def pushed_batches(live: Live, rows: PushQuery) -> AsyncIterator[pa.RecordBatch]:
    """
    The rows of a query after each commit, until it is closed or its limit is reached; RefusedError if the server ends before.

    Who reads them slowly gets all: the query goes on where it was.
    """
    while not live.is_ending:
        commit = live.commits.next()  # before the look, so that none is missed
        batch = await live.run_push(rows.poll, 0.0)
        for start in range(0, batch.num_rows if batch is not None else 0, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)  # type: ignore[union-attr]  # it has rows
        if rows.is_closed:
            return
        if batch is None:
            await heard_within(commit, LISTEN_SECONDS)
    raise RefusedError(
        503, "ServerEnds", "the server ends, and the query with it before its end", "ask again once a server is there"
    )


def row_texts(rows: pa.Table | pa.RecordBatch, *, has_decimals_as_numbers: bool = False) -> list[str]:
    """
    Each row as a JSON array of its values, which are printed as by --json; also of columns that have one name.

    ksqlDB writes decimals as numbers of JSON, with all their digits.
    """
    numbered = [str(number) for number in range(rows.num_columns)]
    batch = one_batch(rows) if isinstance(rows, pa.Table) else rows
    found = printed_rows(pa.RecordBatch.from_arrays(batch.columns, names=numbered)) if numbered else []
    has_decimals = has_decimals_as_numbers and any("decimal" in str(column.type) for column in batch.columns)
    text_of = _text_with_numbers if has_decimals else json_text
    return [text_of(list(row.values())) for row in found]


def _text_with_numbers(value: Any) -> str:
    """A value as JSON, with decimals, in it too, as numbers; Python's own writer has none of so many digits."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        names = [json_text({name: 0}).removeprefix("{").removesuffix(": 0}") for name in value]
        members = (f"{name}: {_text_with_numbers(one)}" for name, one in zip(names, value.values(), strict=True))
        return f"{{{', '.join(members)}}}"
    return f"[{', '.join(map(_text_with_numbers, value))}]" if isinstance(value, list | tuple) else json_text(value)
