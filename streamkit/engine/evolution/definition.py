"""
What a store holds, in words: by it a start tells whether state of before can go on.

The bytes of a row do not say what they mean: a sum and a count are both 64 bits. So a store that an earlier program kept is
compared with the one that the new program keeps, part by part. What is the same in another order takes the order in which it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from streamkit.data_type import element_of
from streamkit.expressions.aggregates import AGGREGATES, state_columns
from streamkit.expressions.aggregates.ksql.kept_values import AS_THEY_COME
from streamkit.names import OFFSET
from streamkit.plan.duration import duration_text
from streamkit.plan.earlier_program import GROUP_SUFFIX
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.operator import Operator
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.operators.event_times import EventTimes
from streamkit.plan.origin import Origin, Origins
from streamkit.plan.program import Program, ProgramStore
from streamkit.schema import Schema, SchemaColumn

Named = TypeVar("Named", TypedAggregate, SchemaColumn)
AGGREGATE = "the aggregate"  # begins the parts that are aggregates
COLUMN = "the column"  # begins those that are columns of stored rows
ROWS = "the source of its rows"
OTHER_KEY = "the key of input"  # begins the parts that are keys of further inputs
TOPIC = "the topic"  # begins the parts that are topics of streams
KEPT = "the time for which it keeps records"
MADE_OF = " = "  # between the type of a column and what it is made of
OF_VALUES = ", of "  # between how an aggregate is kept and the types of its values
BY_OFFSET = f"coalesce({OFFSET}, -1)"  # the order that EARLIEST_BY_OFFSET and LATEST_BY_OFFSET have of records
FOR = "-for-"  # in the name of a copy of a table that joins of another stage look up


@dataclass(frozen=True)
class Difference:
    """A part of a store's definition that is not as it was; None where there was none, or is none."""

    part: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.part} was added: {self.now}"
        if self.now is None:
            return f"{self.part} was removed: {self.before}"
        return f"{self.part} was {self.before}, and is {self.now}"


@dataclass(frozen=True)
class Telling:
    """
    What a definition tells: `argument_types` tells apart aggregates that keep the same columns now and did not in state of the format before.

    `origins` tells where rows come from, as programs of format 1 do not; `code` tells functions of users by their code, which another
    version of Python compiles otherwise. The topics that are `gone` are others than those of their names now. `since_1970`: sources leave out
    records before 1970 while they read, which a filter behind them did once.
    """

    argument_types: bool = False
    origins: bool = True
    code: bool = True
    gone: frozenset[str] = frozenset()
    since_1970: bool = False


def definition(program: Program, store: ProgramStore, telling: Telling = Telling()) -> dict[str, str]:
    """What a store holds: what its key is, its aggregates or columns by name, its windows, its rows; text by part, in the stored order."""
    keeper = program.keeper(store.name)
    taken = Origins(program, telling.code, telling.gone, telling.since_1970).taken_by(keeper) if telling.origins else []
    rows = taken[0] if taken and (keeper.traits.follows_rows or keeper.traits.holds_back) else None
    # The steps before a stream's aggregation may change, so its columns are as they come. What stands within it counts, with the code of functions.
    records = Origin("records", with_code=telling.code) if rows is None else rows
    parts = {"the kind of operator": keeper.stored_kind, "the layout of its keys": store.layout}
    parts["the key"] = ", ".join(_key_texts(program, keeper, store, rows, records))
    aggregates = keeper.aggregates_in(store.name)
    for one in aggregates:
        parts[f"{AGGREGATE} {one.name!r}"] = _aggregate_text(one, keeper, records, telling.argument_types)
    if not aggregates:
        listed = keeper.traits.keeps_lists
        for column in store.value:
            one_row = replace(column, type=element_of(column.type) or column.type) if listed else column
            parts[_column_part(column)] = _column_text(one_row, rows)
    parts |= _window_texts(keeper, store)
    if rows is not None:
        return {**parts, ROWS: rows.rows, **keeper.definition(rows)}
    parts |= dict(_other_keys(program, keeper, records))
    for number, origin in enumerate(taken, 1):
        parts |= {f"{TOPIC} {topic}" + (f" of input {number}" if number > 1 else ""): "read" for topic in origin.topics}
    return parts


def reads_since_1970(program: Program) -> bool:
    """Whether a source of the program leaves out records before 1970 while it reads."""
    return any(isinstance(one, EventTimes) and one.since_1970 for one in program.operators)


def _window_texts(keeper: Operator, store: ProgramStore) -> dict[str, str]:
    """The length of a store's windows and its retention, as the topology declares them."""
    if (window := keeper.windowing) is not None:
        times: dict[str, int | None] = {}
        if not keeper.traits.closes_windows:
            times = {"its grace": window.grace_ms, KEPT: store.retention_ms}
        return {**keeper.declared_times, **{part: duration_text(time) for part, time in times.items() if time is not None}}
    parts = {}
    if store.window_size_ms is not None:
        parts["the size of its windows"] = duration_text(store.window_size_ms)
    if store.retention_ms is not None:
        parts["its retention"] = duration_text(store.retention_ms)
    return parts


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    """What differs between two definitions, whatever their order."""
    parts = dict.fromkeys([*before, *now])
    found = [Difference(part, before.get(part), now.get(part)) for part in parts if before.get(part) != now.get(part)]
    found = [one for one in found if not _goes_by_arrival_now(one)]
    # The key of a further input that came or went did so with its topics.
    found = [one for one in found if None not in (one.before, one.now) or not one.part.startswith(OTHER_KEY)]
    found = [one for one in found if one.part != KEPT] or found  # it follows from the others
    topics = [one for one in found if one.part.startswith(TOPIC)]
    if (
        len({one.before for one in topics}) < 2
    ):  # an operator goes on with more topics, or with fewer; with others it would count for them
        return [one for one in found if one not in topics]
    return found


def hindrance(
    program: Program, store: str, different: Sequence[Difference], renamed: tuple[str, str] | None = None
) -> str | None:
    """
    Why the rows of a store cannot go on although these parts differ; None if they can: aggregates or columns were added, or left out.

    One that was left out while the same was added may have been renamed: that would lose its state. It is empty if other parts differ, and no
    word helps. `renamed` says that the step may get another name, in words, and what drops its stores then.
    """
    keeper = program.keeper(store)
    if not all(one.part.startswith((AGGREGATE, COLUMN)) and None in (one.before, one.now) for one in different):
        if renamed is None:
            follows = ""
        elif keeper.traits.holds_back:
            follows = f"{renamed[0]} it holds back the changes from then on, and {renamed[1]} deletes what is stored"
        elif keeper.traits.follows_rows:
            follows = (
                f"{renamed[0]} its store begins with the rows that were read before, and {renamed[1]} deletes what is stored"
            )
        else:
            follows = f"{renamed[0]} its store begins empty, and {renamed[1]} deletes this one"
        if keeper.traits.holds_back or keeper.traits.follows_rows:
            return follows
        if any(one.part.startswith(TOPIC) for one in different):
            return "; ".join(filter(None, ["it would continue with state that was made from other topics", follows]))
        if any(_is_of_other_values(one) for one in different):
            why = (
                "its values are stored in the form of their type: cast the column back before the group, as in "
                "with_columns(v=F.col('v').cast('int'))"
            )
            return "; ".join(filter(None, [why, follows]))
        return ""
    if keeper.traits.takes_rows_away:
        why = "it would have to subtract rows that it never added: groups of a table cannot get or lose an aggregate"
        begins = renamed and f"{renamed[0]} they begin with the table's rows, and {renamed[1]} deletes this one"
        return "; ".join(filter(None, [why, begins]))
    added, removed = (
        [one for one in different if one.before is None],
        {_kept_as(one.part, one.before) for one in different if one.now is None},
    )
    if renamed_parts := [one.part for one in added if _kept_as(one.part, one.now) in removed]:
        return f"{renamed_parts[0]} may be a removed part under another name, whose state would be lost: start once without it, then with it"
    required = {_column_part(column) for column in program.store(store).value if not column.nullable}
    if unfilled := [one.part for one in added if one.part in required]:
        return f"{unfilled[0]} is NOT NULL, and the rows that are stored already would have null there"
    return None


def _kept_as(part: str, text: str | None) -> str:
    """What a part is kept as, without what its column is made of."""
    return (text or "").partition(MADE_OF)[0] if part.startswith(COLUMN) else text or ""


def _goes_by_arrival_now(one: Difference) -> bool:
    """Whether an aggregate compared offsets before, and takes records as they arrive now. Its stored records stay, as the earlier ones."""
    if one.before is None or one.now is None or not one.part.startswith(AGGREGATE):
        return False
    return BY_OFFSET in one.before and one.before.replace(BY_OFFSET, str(AS_THEY_COME)) == one.now


def _is_of_other_values(one: Difference) -> bool:
    """Whether an aggregate is the same of values of another type."""
    before, now = ((text or "").partition(OF_VALUES) for text in (one.before, one.now))
    return one.part.startswith(AGGREGATE) and before[:2] == now[:2] and bool(before[1])


def in_stored_order(program: Program, before: Program, stores: Iterable[str]) -> Program:
    """The program, whose stores are defined as in the one before, with aggregates and columns of stores in the order of that one."""
    for name in stores:
        keeper, earlier = program.keeper(name), before.keeper(name)
        if aggregates := keeper.aggregates_in(name):
            program = _with_aggregates(program, keeper, _ordered(aggregates, earlier.aggregates_in(name)), name)
        else:
            program = _with_columns(program, name, _ordered(program.store(name).value, before.store(name).value))
    return program


def keeping_ahead(program: Program, before: Program, stores: Iterable[str]) -> Program:
    """The program, whose operators look for what these stores have ahead of stream time if that may be there since the program before."""
    ahead = {
        program.keeper(name).id
        for name in stores
        if before.keeper(name).keeps_ahead and program.keeper(name).windowing is not None
    }
    if not ahead:
        return program
    operators = (one.keeping_ahead() if one.id in ahead and not one.keeps_ahead else one for one in program.operators)
    return replace(program, operators=tuple(operators))


def original_of(program: Program, store: str) -> str | None:
    """
    The store that this one is a copy of; None if it is none, or not the program's.

    The compiler copies a table that joins of several stages look up; the copy, and its operator, are called after it and the join.
    """
    if all(one.name != store for one in program.stores):
        return None
    keeper = program.keeper(store)
    for one in program.stores:
        join = store.removeprefix(f"{one.name}{FOR}")
        if join != store and keeper.id == f"{program.keeper(one.name).id}{FOR}{join}":
            return one.name
    return None


def _column_part(column: SchemaColumn) -> str:
    return f"{COLUMN} {column.name!r}"


def _key_texts(program: Program, keeper: Operator, store: ProgramStore, rows: Origin | None, records: Origin) -> Iterator[str]:
    if rows is not None:
        yield from (f"{column.name} {_column_text(column, rows)}" for column in store.key)
        return
    computed = _computed(program, f"{keeper.id}{GROUP_SUFFIX}")
    for column in store.key:
        yield f"{column.name} {column.type}{_made_of(column.name, computed, records)}"


def _other_keys(program: Program, keeper: Operator, records: Origin) -> Iterator[tuple[str, str]]:
    """By what the further streams of a cogroup are grouped; the types are those of the first one's key."""
    for place, key in enumerate(keeper.keys[1:] if isinstance(keeper, Aggregate) else (), 1):
        computed = _computed(program, f"{keeper.id}{GROUP_SUFFIX}-{place}")
        yield f"{OTHER_KEY} {place + 1}", ", ".join(f"{name}{_made_of(name, computed, records)}" for name in key)


def _computed(program: Program, step: str) -> Mapping[str, TypedExpression]:
    """The columns that a step computes; none if the program does not have it."""
    number = program.numbers.get(step)
    return {} if number is None else dict(program.operators[number].columns)  # type: ignore[attr-defined]


def _made_of(name: str, computed: Mapping[str, TypedExpression], records: Origin) -> str:
    """The expression that a group's column is computed by; empty if it is a column of the records."""
    expression = computed.get(name)
    if expression is None or (expression.name, expression.value) == ("column", name):
        return ""
    return f"{MADE_OF}{records.text(expression)}"


def _column_text(column: SchemaColumn, rows: Origin | None) -> str:
    """The type of a column of rows, and what it is made of."""
    made = column.name if rows is None else rows.of(column.name)
    return column.type if made == column.name else f"{column.type}{MADE_OF}{made}"


def _aggregate_text(one: TypedAggregate, keeper: Operator, records: Origin, with_argument_types: bool) -> str:
    argument = "*" if one.argument is None else records.text(one.argument)
    if with_argument_types and one.argument is not None:
        argument = f"{argument} {one.argument.type}"
    kept = ", ".join(column.type for column in state_columns(one))
    if one.argument is not None and _has_bytes(one, keeper):
        kept = f"{kept}{OF_VALUES}{', '.join(_types_behind(one.argument)) or one.argument.type}"
    return f"{one.function}({argument}), kept as {kept}"


def _has_bytes(one: TypedAggregate, keeper: Operator) -> bool:
    """Whether the values of an aggregate are kept as bytes, which are others if the values have another type."""
    function = AGGREGATES[one.function]
    return function.has_bytes or (keeper.traits.takes_rows_away and function.members is not None)


def _types_behind(expression: TypedExpression) -> Iterator[str]:
    """The types of the columns that an expression is made of; of what it casts, that which it casts them to."""
    if expression.name in ("column", "cast", "python"):
        yield expression.type
        return
    for argument in expression.arguments:
        yield from _types_behind(argument)


def _ordered(values: Iterable[Named], order: Iterable[Named]) -> tuple[Named, ...]:
    by_name = {value.name: value for value in values}
    return tuple(by_name[one.name] for one in order)


def _with_aggregates(program: Program, keeper: Operator, aggregates: Sequence[TypedAggregate], store: str) -> Program:
    """The program whose aggregation, and the fold in front of it, keep the aggregates in this order."""
    changed = {keeper.id, f"{keeper.id}:fold"}
    operators = tuple(one.with_aggregates(tuple(aggregates)) if one.id in changed else one for one in program.operators)
    columns = [column for one in aggregates for column in state_columns(one)]
    return _with_columns(replace(program, operators=operators), store, columns)


def _with_columns(program: Program, store: str, columns: Sequence[SchemaColumn]) -> Program:
    stores = tuple(replace(one, value=Schema(tuple(columns))) if one.name == store else one for one in program.stores)
    return replace(program, stores=stores)
