"""Turns the arguments of verbs into the fields of nodes."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streamkit.data_type import array_of, struct_of
from streamkit.dsl.callback import A_ROW, check_arity
from streamkit.dsl.endpoint import Endpoint, topic_of
from streamkit.errors import SchemaError, TopologyError
from streamkit.expressions.core.column import Column, expression_name, to_expression
from streamkit.formats.codec import declare_format, format_of_keys
from streamkit.formats.format import Schemas
from streamkit.log.dead_letter import json_text
from streamkit.names import DELETED
from streamkit.plan.encoding import Encoding
from streamkit.plan.expression import Alias, Call, Expression, Reference
from streamkit.plan.expression_size import TOO_DEEP
from streamkit.plan.join_window import JoinWindow
from streamkit.plan.location import user_location
from streamkit.plan.node import Node, check_distinct
from streamkit.plan.on_error import OnError, checked_on_error
from streamkit.plan.operators.function_aggregate import Folding
from streamkit.plan.operators.process import ProcessNode
from streamkit.plan.operators.row_function import FlatMap, FlatMapValues, MapBatches, MapNode, PythonColumns
from streamkit.plan.processing import declared_schedules, is_plain_function
from streamkit.plan.python_function import (
    BATCH,
    BATCHES,
    EFFECT,
    FOLD,
    PROCESSOR,
    RECORD,
    RECORDS,
    PythonFunction,
    python_function,
)
from streamkit.plan.store_definition import StoreDefinition
from streamkit.plan.window_kinds import CALLED
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, check_user_schema

if TYPE_CHECKING:
    from streamkit.dsl.topology import Topology

AnyNode = TypeVar("AnyNode", bound=Node)
NamedExpression = tuple[str, Expression]
_STYLES = {"row": RECORD, "batch": BATCH}
_EXPLODING = ("explode", "explode_outer", "posexplode", "posexplode_outer")


def selected(columns: Iterable[Column | str], named: Mapping[str, Column | str]) -> tuple[NamedExpression, ...]:
    """Names and expressions of columns; a text is the name of a column, also as name="column"; one list holds them all, as in PySpark."""
    given = tuple(columns)
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = tuple(given[0])
    for column in given:
        if not isinstance(column, (str, Column, Expression)):
            raise TopologyError(
                f"found {column!r}; expected names of columns, or columns; F.lit(…) is a constant", user_location()
            )
    return (
        *(_with_own_name(to_expression(column)) for column in given),
        *((name, to_expression(value) if isinstance(value, str) else _column(name, value)) for name, value in named.items()),
    )


def source_topics(given: Any) -> tuple[str | Endpoint, ...]:
    """The topics that one stream reads; TopologyError for a pattern, for none, and for one that occurs twice."""
    if isinstance(given, re.Pattern):
        raise TopologyError(
            f"stream() was given the pattern {given.pattern!r}, and a topology names its topics before it runs; expected "
            'stream(["one", "other"]) of topics with the same columns',
            user_location(),
        )
    topics = tuple(given) if isinstance(given, list | tuple) else (given,)
    names = [topic_of(one) for one in topics]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if not topics or twice is not None:
        found = "no topic" if not topics else f"the topic {twice!r} twice"
        raise TopologyError(f"stream() was given {found}; expected the names of topics, each once", user_location())
    return topics


def timestamp_column(given: Any) -> str | None:
    """The name of the column that has the event time of records; TopologyError if it is none."""
    if given is None or (isinstance(given, str) and given):
        return given
    raise TopologyError(
        f"timestamp={given!r}; expected the name of a column with the event time of the records, such as 'at'", user_location()
    )


def with_on_error(node: AnyNode, on_error: OnError | None) -> AnyNode:
    """The node with what becomes of records that make it fail; TopologyError if that is nothing there is."""
    if on_error is None:
        return node
    return replace(node, on_error=checked_on_error(on_error, user_location()))


def told_apart(on_error: OnError | Column | None, named: Mapping[str, Any]) -> tuple[OnError | None, dict[str, Any]]:
    """What becomes of failing records, and the named columns, one of which may be called `on_error`."""
    return (None, {**named, "on_error": on_error}) if isinstance(on_error, Column) else (on_error, dict(named))


def store_told_apart(store: str | Column | None, named: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The name of a store, and the named columns, one of which may be called `store`."""
    return (None, {**named, "store": store}) if isinstance(store, Column) else (store, dict(named))


def exploded(column: Any, names: str | Iterable[str] | None) -> tuple[str, Expression, tuple[str, ...]]:
    """The function of a flat_map, what it takes, and the names it gives; TopologyError if it is not one that gives rows."""
    expression = to_expression(column)
    alias = (expression.name,) if isinstance(expression, Alias) else ()
    inner = expression.expression if isinstance(expression, Alias) else expression
    given = (names,) if isinstance(names, str) else tuple(names) if names is not None else alias
    if isinstance(inner, Reference):
        return "explode", inner, given
    if isinstance(inner, Call) and inner.function in _EXPLODING and len(inner.arguments) == 1:
        return inner.function, inner.arguments[0], given
    raise TopologyError(
        f"flat_map() was given {column!r}; expected the name of a column, or F.explode(…), F.explode_outer(…), F.posexplode(…)",
        user_location(),
    )


def keyworded(named: Mapping[str, Column]) -> tuple[NamedExpression, ...]:
    """Names and expressions of name=column arguments; TopologyError if a value is not a column."""
    return tuple((name, _column(name, value)) for name, value in named.items())


def aliased(columns: Iterable[Column], what: str) -> tuple[NamedExpression, ...]:
    """Names and expressions of columns; TopologyError if one has no alias."""
    return tuple(_alias(column, what) for column in columns)


def renamed(pairs: Mapping[str, str] | None, named: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of (old, new) names; TopologyError if one is not a name."""
    both: dict[Any, Any] = {**(pairs or {}), **named}
    for old, new in both.items():
        if not isinstance(old, str) or not isinstance(new, str) or not new:
            raise TopologyError(f"cannot rename {old!r} to {new!r}; expected names: rename(old='new')", user_location())
    return tuple(both.items())


def joined(on: Any) -> tuple[tuple[str, str], ...] | None:
    """Pairs of (stream column, table column) from `on=`; TopologyError if one is not a name."""
    if on is None:
        return None
    pairs: list[tuple[Any, Any]]
    if isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    else:
        pairs = [(name, name) for name in (on if isinstance(on, Iterable) and not isinstance(on, Column) else [on])]
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        raise TopologyError(
            f"on={on!r} is not a column name; expected a name, a list of names, or {{stream column: table column}}",
            user_location(),
        )
    return tuple(pairs)


def join_window(within: Any) -> JoinWindow:
    """The window of a join of streams; TopologyError if it is none."""
    if isinstance(within, JoinWindow):
        return within
    found = "two streams are joined without within=" if within is None else f"within={within!r} is no window of a join"
    raise TopologyError(
        f"{found}; expected how far apart in time two records may be and how long to wait for late ones, "
        'such as within=sk.within("5 seconds", grace="1 minute"), or sk.within(before=…, after=…, grace=…)',
        user_location(),
    )


def handle_node(handle: object, topology: Topology, verb: str, expected: str) -> Node:
    """The node behind a handle on a stream or table; TopologyError if it is something else, or of another topology."""
    node, owner = getattr(handle, "node", None), getattr(handle, "topology", None)
    if not isinstance(node, Node):
        raise TopologyError(f"cannot {verb} {handle!r}; expected {expected}", user_location())
    if owner is not topology:
        raise TopologyError(
            f"cannot {verb} a {node.relation.replace('_', ' ')} of another topology; expected {expected}", user_location()
        )
    return node


def windowed(window: Any, own: WindowKind | None) -> WindowKind:
    """The windows of groups; TopologyError if they are none, or the groups have windows of their `own` already."""
    if not isinstance(window, WindowKind):
        raise TopologyError(f"windowed_by() was given {window!r}; expected {CALLED}", user_location())
    if own is not None:
        raise TopologyError(f"the groups have windows already: {own}; expected windowed_by() once", user_location())
    return window


def windows_read(window: Any, topic: str) -> WindowKind | None:
    """The windows in the keys of a topic; TopologyError if they are none."""
    if window is not None and not isinstance(window, WindowKind):
        raise TopologyError(
            f"table({topic!r}) was given windowed={window!r}; expected the windows of the topic's keys: {CALLED}", user_location()
        )
    return window


def names(columns: Iterable[Any], verb: str) -> tuple[str, ...]:
    """Column names; TopologyError if one is not a name."""
    values = tuple(columns)
    for value in values:
        if not isinstance(value, str):
            raise TopologyError(f"{verb}() was given {value!r}; expected names of columns", user_location())
    return values


def python_columns(
    node: Node,
    function: Any,
    schema: str | None,
    verb: str,
    by: str = "row",
    tombstones: bool | None = None,
    name: str | None = None,
) -> PythonColumns:
    """The step that gives value columns, or a key, by a Python function; TopologyError if it is no function, or its schema is none."""
    _check_function(function, verb, by)
    if by not in _STYLES:
        raise TopologyError(f"{verb}(by={by!r}); expected one of {', '.join(map(repr, _STYLES))}", user_location())
    if tombstones and by != "row":
        raise TopologyError(f"{verb}(by={by!r}, tombstones=True): a batch has no tombstones; expected by='row'", user_location())
    columns = _declared(schema, verb)
    value = _typed_function(function, columns, _STYLES[by])
    is_key, at = verb == "select_key", user_location()
    return PythonColumns(node, value, tombstones, _required(columns), is_key, name=name, at=at)


def key_function(node: Node, given: Sequence[Any], schema: Any, tombstones: Any, named: Mapping[str, Any]) -> PythonColumns:
    """The step of select_key by a Python function; TopologyError if columns are named beside it, or as `python_columns`."""
    beside = [*map(repr, given[1:]), *named, *(["tombstones"] if not isinstance(tombstones, bool | None) else [])]
    if beside:
        raise TopologyError(
            f"select_key() was given a Python function, and beside it {', '.join(beside)}; expected columns, or a function with schema= alone",
            user_location(),
        )
    return python_columns(node, given[0], schema, "select_key", tombstones=tombstones)


def mapped(
    node: Node,
    function: Any,
    schema: str | None,
    key: str | Iterable[str] | None,
    verb: str,
    tombstones: bool | None = None,
    name: str | None = None,
) -> MapNode:
    """The step of map, flat_map or map_batches; TopologyError as `python_columns`."""
    _check_function(function, verb, "batch" if verb == "map_batches" else "row")
    columns = _declared(schema, verb)
    kind, style = {"map": (MapNode, RECORD), "flat_map": (FlatMap, RECORDS), "map_batches": (MapBatches, BATCHES)}[verb]
    given = None if key is None else key_names(key, verb)
    value = _typed_function(function, columns, style, with_mark=style != BATCHES)
    return kind(node, value, tombstones, _required(columns), given, name=name, at=user_location())


def flat_mapped_values(node: Node, function: Any, schema: str | None, tombstones: bool | None, name: str | None) -> FlatMapValues:
    """The step of flat_map_values; TopologyError as `python_columns`."""
    _check_function(function, "flat_map_values")
    columns = _declared(schema, "flat_map_values")
    value = _typed_function(function, columns, RECORDS)
    return FlatMapValues(node, value, tombstones, _required(columns), name=name, at=user_location())


def processed(
    node: Node,
    processor: Any,
    schema: str | None,
    key: str | Iterable[str] | None,
    stores: tuple[StoreDefinition, ...],
    verb: str,
    by: str,
    name: str | None,
) -> ProcessNode:
    """The step of process or process_values; TopologyError if the processor, its schema or its stores are none."""
    at = user_location()
    is_function = is_plain_function(processor, at)
    schedules = () if is_function else declared_schedules(processor, at)
    columns = Schema(()) if schema is None else _declared(schema, verb)
    type = struct_of([(column.name, column.type) for column in columns]) if len(columns) else "void"
    given = None if key is None else key_names(key, verb)
    function = python_function(processor, type, PROCESSOR)
    keeps_key = verb == "process_values"
    return ProcessNode(node, function, columns, given, keeps_key, is_function, by, stores, schedules, name=name, at=at)


def key_names(key: Any, verb: str) -> tuple[str, ...]:
    """The names of key columns, of one name or several; TopologyError if they are none."""
    found = names((key,) if isinstance(key, str) or not isinstance(key, Iterable) else key, verb)
    check_distinct(found, "key column", user_location())
    if not found:
        raise TopologyError(f"{verb}() was given an empty key=; expected at least one column", user_location())
    return found


def is_function(value: object) -> bool:
    """Whether a value is a Python function, and no column."""
    return callable(value) and not isinstance(value, Column)


def _check_function(function: Any, verb: str, by: str = "row") -> None:
    if not is_function(function):
        raise TopologyError(
            f"{verb}() was given {function!r}; expected a Python function of a row, or with_columns(…) for columns",
            user_location(),
        )
    check_arity(function, f"{verb}()", "a batch" if by == "batch" else A_ROW)


def _declared(schema: str | None, verb: str) -> Schema:
    """The columns that a function gives."""
    if schema is None:
        raise TopologyError(
            f"{verb}() of a function needs a schema of what it gives; expected schema='region string'", user_location()
        )
    try:
        return check_user_schema(Schema.parse(schema))
    except SchemaError as error:
        raise TopologyError(str(error), user_location()) from None


def _typed_function(function: Any, columns: Schema, style: str, with_mark: bool = False) -> PythonFunction:
    """The function with the type it gives: structs of these columns, with the mark of tombstones if it may set that."""
    mark = [(DELETED, "boolean")] if with_mark else []
    type = struct_of([*((column.name, column.type) for column in columns), *mark])
    try:
        return python_function(function, array_of(type) if style in (RECORDS, BATCHES) else type, style)
    except SchemaError as error:
        raise TopologyError(str(error), user_location()) from None


def _required(columns: Schema) -> tuple[str, ...]:
    return tuple(column.name for column in columns if not column.nullable)


def effect(function: Any, verb: str) -> PythonFunction:
    """A function that is called for what it does; TopologyError if it is none."""
    if not callable(function) or isinstance(function, Column):
        raise TopologyError(f"{verb}() was given {function!r}; expected a Python function of a row", user_location())
    check_arity(function, f"{verb}()", A_ROW)
    return python_function(function, "void", EFFECT)


def folding(
    verb: str, initial: object, updates: Iterable[PythonFunction], schema: str, merge: object, tombstones: bool
) -> Folding:
    """How functions fold records into a state; TopologyError if one is no function, or the schema is none."""
    try:
        columns = check_user_schema(Schema.parse(schema))
        struct_of((column.name, column.type) for column in columns)
    except SchemaError as error:
        raise TopologyError(str(error), user_location()) from None
    begins = initial if callable(initial) else _constant(_checked_state(verb, initial, columns))
    return Folding(
        tuple(updates),
        folding_function(begins, verb, 0),
        columns.ddl(),
        None if merge is None else folding_function(merge, verb, 2),
        tombstones,
    )


def folding_function(function: Any, verb: str, count: int) -> PythonFunction:
    """A function that an aggregation calls with so many arguments; TopologyError if it cannot be called so."""
    if not callable(function) or isinstance(function, Column):
        raise TopologyError(f"{verb}() was given {function!r}; expected a Python function", user_location())
    check_arity(function, f"{verb}()", *("a state", A_ROW)[:count])
    return python_function(function, "void", FOLD)


def _checked_state(verb: str, state: object, columns: Schema) -> dict[str, Any] | None:
    """A state that is given as it is; TopologyError if it is not a dict of these columns, or None."""
    if state is not None and not isinstance(state, dict):
        raise TopologyError(
            f"{verb}() was given the initial state {state!r}; expected a dict of the columns {', '.join(columns.names)}, None, "
            "or a function that gives one",
            user_location(),
        )
    for name in state or {}:
        if name not in columns:
            raise TopologyError(
                f"the initial state has the column {name!r}; declared are {', '.join(columns.names)}", user_location()
            )
    return state


def _constant(state: dict[str, Any] | None) -> Callable[[], dict[str, Any] | None]:
    """A function that gives copies of a state."""
    kept = copy.deepcopy(state)

    def initial() -> dict[str, Any] | None:
        return copy.deepcopy(kept)

    return initial


def printing(label: str | None) -> PythonFunction:
    """The function that prints a row."""
    if label is not None and not isinstance(label, str):
        raise TopologyError(f"print() was given {label!r}; expected a text as label", user_location())
    return replace(python_function(partial(print_row, label), "void", EFFECT), name="print")


def print_row(label: str | None, row: dict[str, Any]) -> None:
    """Print a row as JSON; values that JSON has not are texts."""
    line = json_text(row)
    sys.stdout.write(f"{line}\n" if label is None else f"{label}: {line}\n")
    sys.stdout.flush()


def _with_own_name(expression: Expression) -> NamedExpression:
    inner = expression.expression if isinstance(expression, Alias) else expression
    try:
        return expression_name(expression), inner
    except RecursionError:
        raise TopologyError(TOO_DEEP, user_location()) from None


def _column(name: str, value: object) -> Expression:
    if not isinstance(value, Column):
        of_step = "; a step that makes columns has no name of its own, and each name= is a column" if name == "name" else ""
        raise TopologyError(
            f"{name}={value!r} is not a column{of_step}; expected F.col(…), F.lit(…) for a constant, or F.expr(…) for Spark SQL",
            user_location(),
        )
    inner = value.expression
    return inner.expression if isinstance(inner, Alias) else inner


def _alias(column: object, what: str) -> NamedExpression:
    if isinstance(column, Column) and isinstance(column.expression, Alias):
        return column.expression.name, column.expression.expression
    if isinstance(column, Mapping):
        raise TopologyError(f"found {column!r}; expected agg(total=F.sum('column'))", user_location())
    raise TopologyError(f"the {what} {column!r} has no name; expected name=… or .alias('name')", user_location())


def encoding(
    value_format: str | None,
    value_schema: Schemas | None,
    key_format: str | None,
    settings: Mapping[str, Any] | None,
    topic: str,
    timestamp: str | None = None,
    timestamp_format: str | None = None,
    since_1970: bool = False,
) -> Encoding | None:
    """How rows become the bytes of an opaque topic; None of a topic that has columns."""
    if value_format is None:
        if any(one is not None for one in (value_schema, settings, key_format, timestamp, timestamp_format)):
            raise TopologyError(
                f"value_schema=, key_format=, format_settings= and timestamp= of to({topic!r}) were given without value_format=; expected "
                "value_format= too",
                user_location(),
            )
        return None
    value = declare_format(value_format, value_schema, settings, needs_schema=False)
    keys = None if key_format is None else format_of_keys(key_format, value, settings)
    return Encoding(value, keys, timestamp=timestamp_column(timestamp), timestamp_format=timestamp_format, since_1970=since_1970)
