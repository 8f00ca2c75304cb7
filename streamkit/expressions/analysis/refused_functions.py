"""
Why a function cannot be called: which kind of function it is in Spark, or that Spark has none of that name.

Spark's names come from pyspark itself. Their kinds stand here, for they only choose the message; what StreamKit evaluates is looked for first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from streamkit.errors import Location, TopologyError, UnknownFunctionError, UnsupportedExpressionError
from streamkit.expressions.aggregates import AGGREGATES, aggregate_named
from streamkit.expressions.core.operation import FUNCTIONS
from streamkit.plan.expression_text import OF_KSQL

OTHER_AGGREGATES = frozenset(
    """
approxCountDistinct bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or corr countDistinct
count_min_sketch covar_pop covar_samp every grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis listagg
listagg_distinct mode product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
schema_of_variant_agg skewness some string_agg string_agg_distinct sumDistinct sum_distinct theta_intersection_agg theta_sketch_agg
theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
""".split()  # noqa: SIM905 - a list literal would have a line for each name
)
OF_CONTEXT = frozenset(
    """
curdate current_catalog current_database current_date current_schema current_time current_timestamp
current_user input_file_block_length input_file_block_start input_file_name localtimestamp monotonically_increasing_id now
rand randn random randstr session_user shuffle spark_partition_id uniform user uuid version
""".split()  # noqa: SIM905
)
GENERATORS = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple".split()  # noqa: SIM905
)
OF_PYTHON_ALONE = frozenset(
    ("bitwiseNOT", "col", "column", "create_map", "expr", "lit", "toDegrees", "toRadians")
)  # SQL has none of these
OF_WINDOWS = frozenset(("window", "session_window", "window_time", "time_bucket"))
OF_TIMES_OF_DAY = frozenset(
    """
make_time to_time try_make_time try_to_time time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
time_to_seconds time_trunc
""".split()  # noqa: SIM905
)
_WINDOWS = {
    "window": 'sk.tumbling("1 hour", grace="5 minutes")',
    "session_window": 'sk.session("30 minutes", grace="5 minutes")',
}
_DEPENDS_ON_CONTEXT = "its value depends on when or where it runs, so the same input would not give the same output"


def is_aggregate(name: str) -> bool:
    """Whether Spark has an aggregate of that name, in any case; StreamKit may not evaluate it."""
    is_known = aggregate_named(name) is not None and not name.lower().startswith(OF_KSQL)
    return is_known or name.lower() in OTHER_AGGREGATES


def called_aggregates() -> str:
    """The aggregates that can be called, for messages."""
    return ", ".join(name for name, one in AGGREGATES.items() if one.is_called)


def unknown_function(function: str, text: str, at: Location | None) -> TopologyError:
    """Why a name cannot be called in an expression, with the nearest that can."""
    name = function.lower()
    if is_aggregate(name) or aggregate_named(name) is not None:
        return TopologyError(
            f"{text} has an aggregate; expected aggregates in agg(…) of groups, or in SELECT beside GROUP BY, and none inside of another",
            at,
        )
    if name in OF_CONTEXT:
        return unsupported(name, text, _DEPENDS_ON_CONTEXT, at)
    if name in OF_WINDOWS:
        reason = "windows are declared on groups; use windowed_by(), whose rows have window_start and window_end"
        return unsupported(name, text, reason, at)
    if name in OF_TIMES_OF_DAY:
        return unsupported(name, text, "StreamKit has no type TIME; use a timestamp", at)
    if name in GENERATORS:
        return UnsupportedExpressionError(
            f"{text} gives more or fewer rows than it is given; expected one value per row, or flat_map()", at
        )
    if name in {one.lower() for one in _names_of_spark() - OF_PYTHON_ALONE}:
        return unsupported(name, text, "StreamKit cannot evaluate it yet", at)
    return no_function(function, at)


def no_function(function: str, at: Location | None) -> TopologyError:
    """That nobody has a function of that name, with the nearest that can be called."""
    known = (one for one in {*FUNCTIONS, *AGGREGATES} if not one.startswith(OF_KSQL))
    close = difflib.get_close_matches(function.lower(), sorted(known), 3)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    return UnsupportedExpressionError(f"{'Spark' if _names_of_spark() else 'StreamKit'} has no function {function!r}{hint}", at)


def unsupported(function: str, text: str, reason: str, at: Location | None) -> UnsupportedExpressionError:
    """The error of a function that Spark has and that cannot be used in an expression."""
    return UnsupportedExpressionError(f"{function.lower()} cannot be used in {text}: {reason}", at)


def missing_handle(name: str, handles: Iterable[str], at: Location | None) -> UnknownFunctionError | UnsupportedExpressionError:
    """
    Why streamkit.functions, which has `handles`, has no function of that name.

    UnknownFunctionError if PySpark has none either, else UnsupportedExpressionError.
    """
    spark = _names_of_spark()
    close = ", ".join(f"F.{other}" for other in difflib.get_close_matches(name, sorted(handles), 3))
    if name not in spark | OTHER_AGGREGATES | OF_CONTEXT | OF_WINDOWS | OF_TIMES_OF_DAY | GENERATORS:
        missing = (
            f"has no {name!r}, and so streamkit.functions has none either"
            if spark
            else f"is not installed; streamkit.functions has no {name!r}"
        )
        return UnknownFunctionError(f"pyspark.sql.functions {missing}{f'; did you mean {close}?' if close else ''}", at)
    if name in OF_CONTEXT:
        return UnsupportedExpressionError(f"F.{name} cannot be used: {_DEPENDS_ON_CONTEXT}", at)
    if name in _WINDOWS:
        return UnsupportedExpressionError(
            f"Spark has F.{name}; windows stand behind groups here: expected group_by(…).windowed_by({_WINDOWS[name]})", at
        )
    if name in OTHER_AGGREGATES:
        expected = f"one of the aggregates {called_aggregates()}"
    else:
        expected = f"one that it can, {f'such as {close}' if close else 'as help(streamkit.functions) shows them'}"
    return UnsupportedExpressionError(f"Spark has F.{name}; StreamKit cannot evaluate it yet; expected {expected}", at)


def _names_of_spark() -> frozenset[str]:
    """The names of pyspark.sql.functions; none if pyspark is not installed."""
    from streamkit.expressions.analysis.catalyst import function_names  # here, since it loads the reader of SQL

    return function_names()
