"""Names and functions of other SQL, with what stands for them here."""

from __future__ import annotations

from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES
from streamkit.expressions.analysis.refused_functions import OF_WINDOWS
from streamkit.expressions.ksql.function import KSQL_FUNCTIONS
from streamkit.sql.ksql.expressions import PSEUDO_COLUMNS, TABLE_FUNCTIONS

_WINDOW_CLAUSE = (
    "in a query that goes on, WINDOW TUMBLING (SIZE 1 HOUR) before WHERE and GROUP BY puts records into windows; one that is run once can "
    "GROUP BY date_trunc('hour', time)"
)
_TIME_OF_RECORD = "the time of a record is _timestamp, and ROWTIME in the ksql dialect"
_CLOCK = f"its value depends on when it runs, so the same input would not give the same output; {_TIME_OF_RECORD}"
OTHER_NAMES = dict.fromkeys(("current_timestamp", "current_date", "localtimestamp"), _TIME_OF_RECORD) | {
    "array": "an array is written array(1) here, and ARRAY[1] in the ksql dialect"
}
OTHER_FUNCTIONS = {  # which Spark's dialect lacks, though other SQL has them
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp", "current_date", "curdate", "getdate", "sysdate"), _CLOCK),
    **dict.fromkeys((*OF_WINDOWS, "tumble", "hop"), _WINDOW_CLAUSE),
    "unnest": "EXPLODE(array) AS name in SELECT gives a row for each element",
}


def advice_on_name(name: str) -> str:
    """How to write what a name that is no column begins elsewhere; nothing of most names."""
    return f"; {OTHER_NAMES[name.lower()]}" if name.lower() in OTHER_NAMES else ""


def advice_on_column(name: str) -> str:
    """How to write what a name means that is no column in Spark's dialect, or that it is one in the ksql dialect; nothing of most names."""
    return _of_ksql(name) if name.upper() in PSEUDO_COLUMNS else advice_on_name(name)


def advice_on_function(name: str) -> str:
    """That a function which Spark's dialect lacks is one of the ksql dialect; nothing of others."""
    return _of_ksql(name) if name.lower() in {*KSQL_FUNCTIONS, *KSQL_AGGREGATES, *TABLE_FUNCTIONS} else ""


def _of_ksql(name: str) -> str:
    return f"; {name.upper()} is of the ksql dialect: SET 'streamkit.sql.dialect' = 'ksql'"
