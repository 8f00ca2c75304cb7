"""
What an expression of the ksql dialect means: the tree that the reader made, as calls of ksqlDB's functions (`expressions/ksql`).

Comparisons with null are false, whole numbers wrap, and an expression that fails is null in its column: it stands within `ksql_null_on_failure`.
Within it a cast that fails is null by itself, and so is an argument of a function that is a call or a field: `ksql_null_nested`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from streamkit.data_type import element_of, has_map
from streamkit.errors import TopologyError
from streamkit.expressions.aggregates import aggregate_named
from streamkit.expressions.aggregates.ksql import families as aggregates  # noqa: F401 - enters the aggregates
from streamkit.expressions.aggregates.ksql.signature import KSQL_AGGREGATES, KsqlAggregate
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.ksql import families  # noqa: F401 - enters the functions
from streamkit.expressions.ksql.failures import FALSE_ON_FAILURE, NULL_AS_A_WHOLE, NULL_INSIDE
from streamkit.expressions.ksql.function import KSQL_FUNCTIONS, nearest
from streamkit.expressions.ksql.java_maps import AS_READ
from streamkit.expressions.ksql.json import IDENTITY
from streamkit.expressions.ksql.operators import OPERATORS
from streamkit.expressions.ksql.refused import REFUSED, called
from streamkit.expressions.ksql.signature import has_times, ksql_type, nearest_type, without_times
from streamkit.expressions.ksql.times_of_day import AS_TIME
from streamkit.names import OFFSET, PARTITION, TIMESTAMP, WINDOW_END, WINDOW_START
from streamkit.plan.dotted_name import parts_of
from streamkit.plan.expression import Alias, Call, Cast, Expression, Lambda, Literal, PartReplacement, PythonCall, Reference
from streamkit.plan.expression_text import GROUP_VALUES, OF_KSQL, expression_text
from streamkit.plan.on_error import NULL_NESTED, NULL_ON_FAILURE
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.ksql.pseudo_times import as_millis

CONSTRUCTORS = ("array", "map", "struct", "named_struct")
_STRUCTS = ("struct", "named_struct")
TABLE_FUNCTIONS = ("explode", "cube_explode")
PSEUDO_COLUMNS = {  # what each record, or window, has beside its columns, and where it is
    "ROWTIME": TIMESTAMP, "ROWPARTITION": PARTITION, "ROWOFFSET": OFFSET, "WINDOWSTART": WINDOW_START, "WINDOWEND": WINDOW_END,
}  # fmt: skip
ANALYZER = ExpressionAnalyzer().of_records(have_places=True)
_WITH_UNIT = ("timestampadd", "timestampsub", "dateadd", "datesub", "timeadd", "timesub")
_SEEING_ORDER = ("map_keys", "map_values", "map_union", "entries", "reduce", "transform", "filter")  # and CAST
_MAPS_OF_GROUPS = (
    "histogram",
    "collect_list",
    "collect_set",
    "attr",
    "earliest_by_offset",
    "latest_by_offset",
    "topk",
    "topkdistinct",
)
WITHIN_AGGREGATE = "has an aggregate inside of another one; expected one of them, or a query in FROM"
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "between", "in", "eq_null_safe")


class MeaninglessExpressionError(TopologyError):
    """An expression that means nothing in ksqlDB; `part` is the part of its tree that is wrong."""

    def __init__(self, message: str, part: Expression) -> None:
        super().__init__(message)
        self.part = part


@dataclass(frozen=True)
class KsqlMeaning:
    """
    How expressions of the ksql dialect are meant.

    `is_nested_failure_null`: of ARRAY[…], MAP(…) and STRUCT(…) only what fails inside is null, as are casts, and calls and fields that are
    arguments of functions, as `ksql.nested.error.set.null` says.
    `order` numbers records in the order in which they came, for EARLIEST_BY_OFFSET and LATEST_BY_OFFSET; without it that is the order of their
    times. The limits are those of `ksql.functions.collect_list.limit` and `ksql.functions.collect_set.limit`; None is none.
    """

    is_nested_failure_null: bool = True
    collect_list_limit: int | None = None
    collect_set_limit: int | None = None
    order: Expression | None = None

    def hidden_arguments(self, name: str, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """What an aggregate is told behind its arguments: how many values it collects, or in which order records came."""
        limits = {"collect_list": self.collect_list_limit, "collect_set": self.collect_set_limit}
        if (limit := limits.get(name)) is not None:
            return (Literal(limit),)
        if self.order is None or name not in ("earliest_by_offset", "latest_by_offset"):
            return ()
        is_told = bool(arguments) and isinstance(arguments[-1], Literal) and isinstance(arguments[-1].value, bool)
        return (self.order,) if is_told else (Literal(True), self.order)


@dataclass(frozen=True)
class _Translation:
    """
    The way of trees from what is read to what is meant, over columns of these types.

    `keeps_times`: the arguments of aggregates stay times of the day where they are, instead of becoming what columns keep.
    `needs_order`: maps that are read come in the order of their keys' hashes, since a function around them sees it. `placed` is told each new
    part and the part that it is made of, and gives the new one. `widens`: columns of types that ksqlDB lacks are of the nearest that it has.
    """

    meaning: KsqlMeaning
    columns: Mapping[str, str]
    keeps_times: bool = False
    needs_order: bool = False
    knows_types: bool = True
    widens: bool = False
    placed: PartReplacement = lambda new, old: new

    def of(self, expression: Expression) -> Expression:
        """The tree with ksqlDB's functions; MeaninglessExpressionError names a function that there is not."""
        found = self.placed(self._changed(expression), expression)
        return self._null_nested(found, expression) if isinstance(expression, Cast) else found

    def _changed(self, expression: Expression) -> Expression:
        match expression:
            case Reference(name) if name not in self.columns and (column := PSEUDO_COLUMNS.get(parts_of(name)[-1])):
                return _pseudo_column(column)
            case Reference(name) if has_times(type := self.columns.get(name, "")):
                return self._ordered(Call(AS_TIME, (expression, Literal(type))), type)
            case Reference(name) if self.widens and (wide := nearest_type(self.columns.get(name, ""))) != self.columns.get(
                name, ""
            ):
                return self._ordered(Cast(expression, wide), wide)
            case Reference(name):
                return self._ordered(expression, self.columns.get(name, ""))
            case Literal(Decimal() as value) if value.copy_abs() < 1:  # 0.05 is a DECIMAL(3, 2), with a digit before the point
                scale = -int(value.as_tuple().exponent)
                return Cast(expression, f"decimal({scale + 1},{scale})")
            case Call(name, (values,)) if name == GROUP_VALUES:
                return replace(expression, arguments=(self._argument(values),))
            case Call(name, arguments):
                return self._call(expression, name.lower(), arguments)
            case Cast(inner, type):
                return Call("ksql_cast", (replace(self, needs_order=True).of(inner), Literal(type)))
            case Alias(inner, name):
                return Alias(self.of(inner), name)
            case Lambda(parameters, body):
                others = {name: type for name, type in self.columns.items() if name not in parameters}
                return replace(expression, body=replace(self, columns=others).of(body))
            case PythonCall(function, arguments):
                return PythonCall(function, tuple(self._null_on_failure(self.of(one)) for one in arguments))
        return expression

    def _call(self, expression: Expression, name: str, arguments: tuple[Expression, ...]) -> Expression:
        if aggregate := KSQL_AGGREGATES.get(name):
            if any(isinstance(one, Call) and one.function.lower() in KSQL_AGGREGATES for one in _all_parts(arguments)):
                raise MeaninglessExpressionError(f"{expression_text(expression)} {WITHIN_AGGREGATE}", expression)
            given = tuple(map(self._argument, arguments))
            if name == "count_distinct":
                given = tuple(Call(IDENTITY, (one,)) for one in given)
            found = Call(aggregate.called, (*given, *self.meaning.hidden_arguments(name, arguments)))
            found = Call(AS_READ, (found,)) if self.needs_order and name in _MAPS_OF_GROUPS else found
            return self._of_step(found, expression)
        if name in TABLE_FUNCTIONS:
            return self._of_step(self._exploded(name, arguments), expression)
        if name not in OPERATORS and name not in KSQL_FUNCTIONS and name not in _STRUCTS and name not in REFUSED:
            hint = nearest(name, {*KSQL_FUNCTIONS, *KSQL_AGGREGATES, *TABLE_FUNCTIONS})
            raise MeaninglessExpressionError(f"ksqlDB has no function {name.upper()}{hint}", expression)
        if (reason := REFUSED.get(name)) and (not arguments or name not in KSQL_FUNCTIONS):
            raise MeaninglessExpressionError(f"{called(name)} cannot be used: {reason}", expression)
        if name in _WITH_UNIT and arguments:
            arguments = (_unit(arguments[0]), *arguments[1:])
        if name in _COMPARISONS:
            arguments = as_millis(arguments)
        inside = replace(self, needs_order=True) if name in _SEEING_ORDER else self
        meant = tuple(map(inside.of, arguments))
        if name == "when" and any(isinstance(one, Call) and one.function == "explode" for one in _all_parts(meant)):
            raise MeaninglessExpressionError(
                "EXPLODE gives rows, so it cannot be in CASE; expected CASE inside of it", expression
            )
        if name in CONSTRUCTORS and self.meaning.is_nested_failure_null:
            meant = tuple(_null_inside(one) for one in meant)
        elif name in KSQL_FUNCTIONS or name == "concat_operator":
            meant = tuple(
                self._null_nested(one, given) if _is_call(given) else one for one, given in zip(meant, arguments, strict=True)
            )
        return Call(name if name in _STRUCTS else OF_KSQL + name, meant)

    def _ordered(self, column: Expression, type: str) -> Expression:
        """A column with its maps in the order in which Java has them, if a function around it sees the order."""
        return Call(AS_READ, (column,)) if self.needs_order and (has_map(type) or not self.knows_types) else column

    def _of_step(self, found: Expression, expression: Expression) -> Expression:
        """What a step of its own gives, such as an aggregate: as a column, which keeps integers for times of the day, or what they are."""
        if self.keeps_times or not self.knows_types:
            return found
        try:
            type = ksql_result_type(expression, self.columns, self.meaning)
        except TopologyError:  # which is told where the whole is looked at
            return found
        return Call(AS_TIME, (self.placed(found, expression), Literal(type))) if has_times(type) else found

    def _exploded(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        """EXPLODE of an array, which is what CUBE_EXPLODE is of the array of all combinations."""
        given = tuple(map(self._argument, arguments))
        return Call("explode", given if name == "explode" else (Call("ksql_cube", given),))

    def _argument(self, argument: Expression) -> Expression:
        """The argument of an aggregate or of a table function, which is null in the rows in which it fails."""
        meant = self.of(argument)
        return self.placed(_null_inside(meant) if self.keeps_times else self._null_on_failure(meant), argument)

    def _null_on_failure(self, expression: Expression) -> Expression:
        return null_on_failure(expression, self.meaning)

    def _null_nested(self, found: Expression, expression: Expression) -> Expression:
        """A part that gives null to the expression around it where it fails, if the setting says so."""
        return self.placed(_wrapped(NULL_NESTED, found), expression) if self.meaning.is_nested_failure_null else found


def _pseudo_column(name: str) -> Expression:
    """A column of a record; times are milliseconds."""
    column = Reference(name)
    return column if name in (PARTITION, OFFSET) else Call("ksql_unix_timestamp", (column,))


def _unit(argument: Expression) -> Expression:
    """A unit of time, which is written as a name."""
    return Literal(argument.name) if isinstance(argument, Reference) else argument


def _is_call(argument: Expression) -> bool:
    """Whether ksqlDB evaluates an argument apart from the call around it: a function, or a field of a struct."""
    match argument:
        case Call(name):
            return name.lower() in KSQL_FUNCTIONS or name.lower() in ("get_field", "concat_operator")
    return isinstance(argument, PythonCall)


def null_on_failure(expression: Expression, meaning: KsqlMeaning) -> Expression:
    """The expression as a column keeps it, null where it fails; what cannot fail as it is."""
    match expression:
        case Call(function, (column, _)) if function == AS_TIME and (isinstance(column, Reference) or _gives_rows(column)):
            return column
    return _wrapped(NULL_ON_FAILURE if meaning.is_nested_failure_null else NULL_AS_A_WHOLE, expression)


def as_a_whole(expression: Expression) -> Expression:
    """A meant expression that is null if any part of it fails, as group keys are."""
    return _around(NULL_AS_A_WHOLE, expression)


def as_condition(expression: Expression) -> Expression:
    """A meant condition, which holds for no row in which any part of it fails, but that a part which is BOOLEAN is false there."""
    return _around(FALSE_ON_FAILURE, expression)


def _around(function: str, expression: Expression) -> Expression:
    match expression:
        case Call(name, inner) if name == NULL_ON_FAILURE:
            return Call(function, inner)
        case Alias(inner, name):
            return Alias(_around(function, inner), name)
    return expression


def _null_inside(expression: Expression) -> Expression:
    """A part of an expression, null where it fails."""
    return _wrapped(NULL_INSIDE, expression)


def _wrapped(function: str, expression: Expression) -> Expression:
    match expression:
        case Reference() | Literal():
            return expression
        case Call(name) if name == GROUP_VALUES:
            return expression
        case Call(name, (inner,)) if name == NULL_NESTED:
            return Call(function, (inner,))
        case Alias(inner, name):
            return Alias(_wrapped(function, inner), name)
    return Call(function, (expression,))


def ksql_expression(
    expression: Expression,
    columns: Mapping[str, str] | None,
    meaning: KsqlMeaning = KsqlMeaning(),
    placed: PartReplacement = lambda new, old: new,
) -> Expression:
    """
    The tree that means what the expression means in ksqlDB, over columns of these types, and is null in the rows in which it fails.

    `placed` is told each new part and the part that it is made of, and gives the new one.
    A column of times of the day has the type `time` here, and keeps integers. Without types nothing is said of types.
    MeaninglessExpressionError says which part is wrong: an unknown function or column, or values of types that a function does not take.
    """
    translation = _Translation(meaning, columns or {}, knows_types=columns is not None, placed=placed)
    found = _whole(expression, translation)
    if columns is None:
        return found
    try:
        _check(expression, found, translation)
    except MeaninglessExpressionError:
        if all(nearest_type(type) == type for type in columns.values()):
            raise
        translation = replace(translation, widens=True)
        found = _whole(expression, translation)
        _check(expression, found, translation)
    return found


def _whole(expression: Expression, translation: _Translation) -> Expression:
    """The tree of a whole expression, null in the rows in which it fails."""
    found = translation.of(expression)
    return found if _gives_rows(found) else translation.placed(null_on_failure(found, translation.meaning), expression)


def _check(expression: Expression, found: Expression, translation: _Translation) -> None:
    """MeaninglessExpressionError with the innermost part of an expression whose types do not go together."""
    schema = _schema_of(translation.columns)
    for part in _all_parts((expression,)):
        if isinstance(part, Call) and (aggregate := KSQL_AGGREGATES.get(part.function.lower())):
            _check_types(part, aggregate, translation)
    if complaint := _complaint(found, schema):
        part, complaint = _innermost(expression, schema, translation, complaint)
        raise MeaninglessExpressionError(complaint, part)


def _check_types(call: Call, aggregate: KsqlAggregate, translation: _Translation) -> None:
    """MeaninglessExpressionError if an aggregate is of types that it does not take; arguments without a meaning are told of elsewhere."""
    try:
        types = [_result_type(one, replace(translation, keeps_times=True)) for one in call.arguments]
    except TopologyError:
        return
    if complaint := aggregate.complaint(types):
        raise MeaninglessExpressionError(complaint, call)


def _gives_rows(tree: Expression) -> bool:
    """Whether a tree is the call of an aggregate or of a table function, which a query computes by a step of its own."""
    return isinstance(tree, Call) and (tree.function == "explode" or aggregate_named(tree.function) is not None)


def ksql_result_type(expression: Expression, columns: Mapping[str, str], meaning: KsqlMeaning = KsqlMeaning()) -> str:
    """The type of an expression, or of an aggregate, in which times of the day are `time`; TopologyError as the analyzer has it."""
    translation = _Translation(meaning, columns, keeps_times=True)
    try:
        return _result_type(expression, translation)
    except TopologyError:
        if all(nearest_type(type) == type for type in columns.values()):
            raise
        return _result_type(expression, replace(translation, widens=True))


def _result_type(expression: Expression, translation: _Translation) -> str:
    """The type of an expression as a translation has it."""
    bare, schema = _without_steps(translation.of(expression), _schema_of(translation.columns))
    return ANALYZER.project(schema, [("", bare)])[0][1].type


def _schema_of(columns: Mapping[str, str]) -> Schema:
    """The columns as they are kept."""
    return Schema(tuple(SchemaColumn(name, without_times(type)) for name, type in columns.items()))


def is_ksql_aggregate(expression: Expression) -> bool:
    """Whether an expression, as it is read, is the call of an aggregate of ksqlDB."""
    return isinstance(expression, Call) and expression.function.lower() in KSQL_AGGREGATES


def _complaint(tree: Expression, schema: Schema) -> str:
    """What is wrong with the types of a tree; empty if they go together."""
    try:
        bare, columns = _without_steps(tree, schema)
        ANALYZER.project(columns, [("", bare)])
    except TopologyError as error:
        shown = error.message.partition("; the columns are ")[0]
        return shown.removesuffix(f", in {expression_text(tree)}")
    return ""


def _without_steps(tree: Expression, schema: Schema) -> tuple[Expression, Schema]:
    """The tree in which aggregates and table functions are columns of their types, and the schema with these."""
    steps: list[SchemaColumn] = []

    def changed(part: Expression) -> Expression:
        match part:
            case Call("explode", arguments):
                steps.append(SchemaColumn(f"\0{len(steps)}", _element_type(part, arguments, schema)))
                return Reference(f"`{steps[-1].name}`")
            case Call(name) if aggregate_named(name):
                (typed,) = ANALYZER.aggregates(schema, [("", part)])
                steps.append(SchemaColumn(f"\0{len(steps)}", typed.type))
                return Reference(f"`{steps[-1].name}`")
            case Call(_, arguments):
                return replace(part, arguments=tuple(map(changed, arguments)))
            case PythonCall(function, arguments):
                return PythonCall(function, tuple(map(changed, arguments)))
            case Alias(inner, name):
                return Alias(changed(inner), name)
        return part

    bare = changed(tree)
    return bare, Schema((*schema, *steps))


def _element_type(call: Expression, arguments: tuple[Expression, ...], schema: Schema) -> str:
    """The type of what a table function gives; TopologyError if it is not one of one array."""
    if len(arguments) != 1:
        raise TopologyError(f"EXPLODE takes one array; found {len(arguments)} arguments")
    ((_, typed),) = ANALYZER.project(schema, [("", arguments[0])])
    element = element_of(typed.type)
    if element is None:
        raise TopologyError(f"EXPLODE takes an ARRAY; found {ksql_type(typed.type)}")
    return element


def _innermost(expression: Expression, schema: Schema, translation: _Translation, complaint: str) -> tuple[Expression, str]:
    """The innermost part that is wrong by itself, and what is wrong there; parts of lambdas belong to the call that has them."""
    for part in _parts(expression):
        if found := _complaint(translation.of(part), schema):
            return _innermost(part, schema, translation, found)
    return expression, complaint


def _all_parts(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """Expressions and all parts of them, but lambdas."""
    for one in expressions:
        yield one
        yield from _all_parts(_parts(one))


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Call(_, arguments) | PythonCall(_, arguments):
            return tuple(part for part in arguments if not isinstance(part, Lambda))
        case Cast(inner, _) | Alias(inner, _):
            return (inner,)
    return ()
