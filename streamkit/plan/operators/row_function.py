"""Steps that are a user's function of whole rows: it is given a row, or a batch of them, and gives columns, or rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.data_type import element_of, fields_of, normalise_type, struct_of
from streamkit.errors import TopologyError
from streamkit.names import DELETED
from streamkit.plan.analysis import Analyzer
from streamkit.plan.expression import PythonCall, Reference, TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.keys import make_schema
from streamkit.plan.node import LATER
from streamkit.plan.operator import Key, Names, Operator, listed, referenced
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.origin import Origin
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.stateless import StatelessStep
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.schema import Schema, SchemaColumn


@dataclass(frozen=True)
class RowFunctionResult:
    """
    What a step gives: columns that stay as they are, the names of its key, and by which of them its rows are partitioned.

    `keeps_values`: the values stay too, and with them tombstones stay tombstones.
    """

    kept: Key
    key: Key
    partition_by: Key
    keeps_values: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class RowFunctionNode(StatelessStep):
    """
    A step that is a function of whole rows.

    The function's type is a struct of the columns it gives, or an array of such structs. With `tombstones` it is called with the key
    columns of tombstones, and makes records of them; False lets them pass. None lets them pass too, but asks the function for the key
    of each if that would else be lost. `required` are columns that may not be null.
    """

    none_deletes: ClassVar[bool] = False
    function: PythonFunction
    tombstones: bool | None = field(default=None, metadata=LATER)
    required: Key = field(default=(), metadata=LATER)

    @property
    def verb(self) -> str:
        """What users call the step."""
        return self.kind

    @property
    def declared(self) -> tuple[tuple[str, str], ...]:
        """The names and types of the columns that the function gives."""
        fields = fields_of(element_of(self.function.type) or self.function.type) or ()
        return tuple(pair for pair in fields if pair[0] != DELETED)

    def result(self, rows: Step) -> RowFunctionResult:
        """What stays of the rows, and the key behind the step."""
        raise NotImplementedError

    @property
    def may_repeat_key(self) -> bool:
        """Whether the function gives value columns alone, beside which it may give the key columns as they are."""
        return False

    def _type_without(self, key: Key) -> str:
        """The function's type without the columns of the key."""
        values = struct_of([pair for pair in self.declared if pair[0] not in key])
        return values if element_of(self.function.type) is None else f"array<{values}>"

    def gives_key(self, key: Key) -> bool:
        """Whether the function, given a tombstone, gives its key: all columns of this one."""
        return False

    def step(self, rows: Step, step_id: str, analyzer: Analyzer) -> Step:
        found = self.result(rows)
        types = {name: type for name, type in self.declared if not (self.may_repeat_key and name in rows.key)}
        columns = {name: rows.schema[name] for name in rows.schema.names if name in found.kept}
        columns |= {name: SchemaColumn(name, type, name not in self.required) for name, type in types.items()}
        operator = RowFunction(
            step_id,
            UNSTAGED,
            (rows.id,),
            self._call(rows.schema.names, rows, analyzer),
            tuple(columns),
            tuple(types),
            found.key,
            tuple(name for name in self.required if name in types),
            self._tombstone_call(found, rows, analyzer),
            self.none_deletes and not found.keeps_values,
            found.keeps_values or (self.tombstones is None and self.gives_key(found.key)),
        )
        schema = make_schema(tuple(columns.values()), self.at)
        return replace(rows, operator=operator, schema=schema, key=found.key, partition_by=found.partition_by, at=self.at)

    def text(self) -> str:
        columns = ", ".join(f"{name} {type}" for name, type in self.declared)
        return f"{self.verb.replace('_', ' ')} by {self.function.name}: {columns}"

    def _tombstone_call(self, found: RowFunctionResult, rows: Step, analyzer: Analyzer) -> TypedExpression | None:
        if self.tombstones:
            return self._call(rows.key, rows, analyzer)
        return self._call(rows.schema.names, rows, analyzer) if self.tombstones is None and self.gives_key(found.key) else None

    def _call(self, names: Key, rows: Step, analyzer: Analyzer) -> TypedExpression:
        """The call with these columns."""
        function = replace(self.function, parameters=names)
        if self.may_repeat_key:
            function = replace(function, same=rows.key, type=self._type_without(rows.key))
        call = PythonCall(function, tuple(Reference(name) for name in names))
        return analyzer.project(rows.schema, [("_", call)], self.at)[0][1]


@dataclass(frozen=True, eq=False, repr=False)
class PythonColumns(RowFunctionNode):
    """
    The columns that a user's function gives of the whole row, in place of the value columns.

    With `is_key` these become the key, and the other columns stay.
    """

    kind: ClassVar[str] = "map_values"
    none_deletes: ClassVar[bool] = True
    is_key: bool = False

    @property
    def verb(self) -> str:
        return "select_key" if self.is_key else "map_values"

    @property
    def may_repeat_key(self) -> bool:
        return not self.is_key

    def gives_key(self, key: Key) -> bool:
        return self.is_key

    def result(self, rows: Step) -> RowFunctionResult:
        names = tuple(name for name, _ in self.declared)
        if self.is_key:
            return RowFunctionResult(rows.schema.names, names, names, keeps_values=True)
        check_values_only(self, rows)
        return RowFunctionResult(rows.key, rows.key, rows.partition_by)


@dataclass(frozen=True, eq=False, repr=False)
class FlatMapValues(RowFunctionNode):
    """A row for each of the dicts that a function gives of a row, in place of the value columns."""

    kind: ClassVar[str] = "flat_map_values"
    none_deletes: ClassVar[bool] = True

    @property
    def may_repeat_key(self) -> bool:
        return True

    def result(self, rows: Step) -> RowFunctionResult:
        check_values_only(self, rows)
        return RowFunctionResult(rows.key, rows.key, rows.partition_by)


@dataclass(frozen=True, eq=False, repr=False)
class MapNode(RowFunctionNode):
    """
    The columns that a function gives, in place of all columns; it may give another key.

    `key` None leaves the names of the key: of its columns, those that the function does not give stay as they are.
    """

    kind: ClassVar[str] = "map"
    key: Key | None = None

    def gives_key(self, key: Key) -> bool:
        return self.kind == "map" and not set(key).isdisjoint(name for name, _ in self.declared)

    def result(self, rows: Step) -> RowFunctionResult:
        key = rows.key if self.key is None else self.key
        given = [name for name, _ in self.declared]
        for name in key:
            if name not in given and name not in rows.key:
                raise TopologyError(
                    f"{self.verb}() has the key column {name!r}, which its schema does not declare; expected some of "
                    f"{listed(dict.fromkeys((*given, *rows.key)))}",
                    self.at,
                )
        return RowFunctionResult(key, key, rows.partition_by if self.key is None else key)


@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(MapNode):
    """A row for each of the dicts that a function gives of a row."""

    kind: ClassVar[str] = "flat_map"


@dataclass(frozen=True, eq=False, repr=False)
class MapBatches(MapNode):
    """The rows that a function gives of a batch of rows."""

    kind: ClassVar[str] = "map_batches"


@dataclass(frozen=True)
class RowFunction(Operator):
    """
    Give the rows of the columns that `call` gives of each row, beside those that stay.

    `columns` are those of the result in their order, `given` the ones among them that the function gives, as a struct or an array of
    structs. `required` may not be null. `tombstone_call` is the call for tombstones, which otherwise pass. `none_deletes` says that None
    makes a tombstone; else it is an error. `keeps_values`: the function gives a key alone, or is asked for that of a tombstone, so
    tombstones stay tombstones.
    """

    kind: ClassVar[str] = "row_function"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True, leaves_out=EACH_ALONE)
    call: TypedExpression
    columns: Key
    given: Key
    key: Key
    required: Key = ()
    tombstone_call: TypedExpression | None = None
    none_deletes: bool = False
    keeps_values: bool = False

    @property
    def is_many(self) -> bool:
        """Whether a row becomes several."""
        return element_of(self.call.type) is not None

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        before = inputs[0]
        kept = set(self.columns) - set(self.given)
        return before if before is not None and kept.issuperset(before) else None

    def rekeys(self, before: Key, after: Key) -> bool:
        return before != after or not set(after).isdisjoint(self.given)

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed.intersection(rows.names) | referenced(self.call)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        columns, given = (tuple(name for name in names if name in needed) for names in (self.columns, self.given))
        return with_operator(step, step.schema.select(columns), columns=columns, given=given)

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        (rows,) = above
        kept = {column: rows.of(column) for column in self.columns if column not in self.given}
        return rows.but(f"{rows.rows} by {rows.text(self.call)}", kept)

    def text(self) -> str:
        return f"{shown_text(self.call)} gives {listed(self.columns)}"


def check_values_only(node: RowFunctionNode, rows: Step) -> None:
    """TopologyError if the function gives a column of the key in another type, or nothing but the key."""
    for name, type in node.declared:
        if name in rows.key and normalise_type(type) != rows.schema[name].type:
            raise TopologyError(
                f"{node.verb}() declares the column {name!r} as {type}, and it is part of the key, where it is {rows.schema[name].type}; expected "
                "value columns, and the key's as they are, or map(…), which may give another key",
                node.at,
            )
    if set(rows.key).issuperset(name for name, _ in node.declared):
        raise TopologyError(
            f"{node.verb}() declares no column but those of the key {list(rows.key)}; expected value columns", node.at
        )
