"""What a statement gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from streamkit.log.catalog.sql_sources import StoredSource

if TYPE_CHECKING:
    from streamkit.sql.push.subscription import PushQuery


@dataclass(frozen=True, eq=False)
class StatementResult:
    """
    The result of a statement: a `message` that says what it has changed, a `table` of rows, or a `subscription` to the rows of a query that goes on.

    `text` is the statement. `query_id` is that of the persistent query that it made or changed. `source` is the stream or table that DESCRIBE is
    about, as the catalog had it. `note` is what is to be known besides: that nobody runs the query that was made.
    """

    text: str
    message: str = ""
    table: pa.Table | None = None
    subscription: PushQuery | None = None
    query_id: str | None = None
    source: StoredSource | None = None
    note: str = ""

    def __repr__(self) -> str:
        if self.table is not None:
            return f"StatementResult({self.table.num_rows} rows of {', '.join(self.table.column_names)})"
        return f"StatementResult({self.message!r})"
