"""The rows that a Delta table refuses: nulls where there may be none, and what its constraints forbid."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.delta.table import errors, library
from streamkit.names import ROW_NUMBER

CONSTRAINT = "delta.constraints."


def refused_rows(table: Any, rows: pa.Table, deleted: pa.ChunkedArray) -> dict[int, str]:
    """Why each row is refused, by its number; empty if neither nullability nor a constraint that can be evaluated says so."""
    found: dict[int, str] = {}
    for number, reason in (*_nulls(table, rows), *_forbidden(table, rows)):
        if not deleted[number].as_py():
            found.setdefault(number, reason)
    return dict(sorted(found.items()))


def _nulls(table: Any, rows: pa.Table) -> Iterator[tuple[int, str]]:
    for column in table.schema().fields:
        if not column.nullable:
            missing = rows[column.name].is_null() if column.name in rows.column_names else pa.nulls(rows.num_rows).is_null()
            for number in pc.indices_nonzero(missing).to_pylist():
                yield number, f"the column {column.name!r} of the Delta table must not be null, and the row has no value for it"


def _forbidden(table: Any, rows: pa.Table) -> Iterator[tuple[int, str]]:
    """What the table's constraints forbid, asked of the library's own SQL over a table without constraints."""
    constraints = {
        name.removeprefix(CONSTRAINT): condition
        for name, condition in table.metadata().configuration.items()
        if name.startswith(CONSTRAINT)
    }
    if not constraints:
        return
    numbered = rows.append_column(ROW_NUMBER, pa.array(np.arange(rows.num_rows)))
    with tempfile.TemporaryDirectory() as folder:
        library().write_deltalake(folder, numbered)
        query = library().QueryBuilder().register("streamkit_rows", library().DeltaTable(folder))
        for name, condition in constraints.items():
            try:
                answer = query.execute(f"SELECT {ROW_NUMBER} FROM streamkit_rows WHERE ({condition}) IS NOT TRUE")
                numbers = pa.table(answer.read_all())[ROW_NUMBER].to_pylist()
            except (errors().DeltaError, ValueError, OSError):
                continue  # a condition of other columns, or of Spark's functions: then the rows are found by halves
            for number in numbers:
                yield number, f"the constraint {name} of the Delta table forbids it: expected {condition}"
