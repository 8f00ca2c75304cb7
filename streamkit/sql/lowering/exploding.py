"""EXPLODE in SELECT: a row for each element of an array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from streamkit.data_type import element_of, entry_of
from streamkit.dsl.stream import Stream
from streamkit.expressions.core.column import Column
from streamkit.plan.expression import Alias, Call, Expression, Reference
from streamkit.plan.location import written_at
from streamkit.sql.lowering.expression_parts import calls, is_exploding, references, rewritten
from streamkit.sql.lowering.scope import Scope, ScopeColumn, fresh_name
from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.tree.span import TextSpan


@dataclass(frozen=True)
class ChosenItem:
    """
    An expression of SELECT over the rows, and the name of its result; `is_named` if the query gives it.

    `written` is the expression before its names were resolved; None for a column of `*`, which belongs to a `source`.
    `type` is that of the result where its column keeps values of another one. `is_key`: of several columns that joins compare, it is the key.
    """

    expression: Expression
    name: str
    span: TextSpan
    is_named: bool = False
    written: Expression | None = None
    source: str = ""
    type: str | None = None
    is_key: bool = False


@dataclass(frozen=True)
class Exploding:
    """The step for the functions in SELECT that give several rows of one."""

    text: ScriptText

    def exploded(self, scope: Scope, items: Sequence[ChosenItem]) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """The rows for each element, and the items over these; both as they are if SELECT has no such function."""
        found = list(dict.fromkeys(call for item in items for call in calls(item.expression, is_exploding)))
        if not found:
            return scope, tuple(items)
        span = next(item.span for item in items if calls(item.expression, is_exploding))
        self._check(scope, found, span)
        if len(found) == 1:
            return self._one(scope, items, found[0], span)
        return self._several(scope, items, found, span)

    def _check(self, scope: Scope, found: Sequence[Call], span: TextSpan) -> None:
        if not isinstance(scope.rows, Stream):
            raise self.text.error(
                f"{found[0].function.upper()} gives several rows of one, and the rows of a table are known by their key; expected it in a "
                "query over a stream",
                span,
            )
        for call in found:
            if len(call.arguments) != 1:
                raise self.text.error(f"{call.function.upper()} takes one array; found {len(call.arguments)} arguments", span)
            if any(calls(one, is_exploding) for one in call.arguments):
                raise self.text.error(f"{call.function.upper()} cannot be inside of another one; expected a query in FROM", span)
            if len(found) > 1 and call.function.lower() != "explode":
                raise self.text.error(
                    f"several functions give rows here, and {call.function.upper()} can only do so alone; expected EXPLODE of arrays",
                    span,
                )

    def _one(self, scope: Scope, items: Sequence[ChosenItem], call: Call, span: TextSpan) -> tuple[Scope, tuple[ChosenItem, ...]]:
        (argument,) = call.arguments
        type = scope.type_of(argument, self.text.at(span))
        has_position = call.function.lower().startswith("pos")
        parts = _parts(type)
        own = next((item for item in items if item.expression == call and item.is_named), None)
        if has_position or len(parts) > 1:
            return self._several_columns(scope, items, call, span, parts)
        name = self._free(own.name if own else "col", scope, items, call)
        with written_at(self.text.at(span)):
            rows = _stream(scope).flat_map(Column(Alias(call, name)))
        return self._behind(scope, rows, {call: name}, items, [(name, parts[0])])

    def _several_columns(
        self, scope: Scope, items: Sequence[ChosenItem], call: Call, span: TextSpan, parts: Sequence[str | None]
    ) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """A function that gives a position, or keys and values: its columns are items of their own."""
        alone = [item for item in items if item.expression == call and not item.is_named]
        if len(alone) != sum(call in calls(item.expression, is_exploding) for item in items):
            raise self.text.error(
                f"{call.function.upper()} gives several columns here, so it can neither have a name nor be a part of an expression; expected "
                "it alone, or EXPLODE(MAP_ENTRIES(…)) of a map",
                span,
            )
        position = [("pos", "int")] if call.function.lower().startswith("pos") else []
        names = [*position, *zip(("key", "value") if len(parts) > 1 else ("col",), parts)]
        with written_at(self.text.at(span)):
            rows = _stream(scope).flat_map(Column(call), as_=[name for name, _ in names])
        place = next(number for number, item in enumerate(items) if item.expression == call)
        given = [ChosenItem(Reference(name), name, span) for name, _ in names]
        chosen = [*items[:place], *given, *(item for item in items[place + 1 :] if item.expression != call)]
        return self._behind(scope, rows, {}, chosen, names)

    def _several(
        self, scope: Scope, items: Sequence[ChosenItem], found: Sequence[Call], span: TextSpan
    ) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """Several arrays side by side; shorter ones are padded with null, and a null array is an empty one."""
        fields = [f"col{number}" for number, _ in enumerate(found, 1)]
        arrays = [
            Alias(Call("coalesce", (call.arguments[0], Call("array", ()))), field)
            for call, field in zip(found, fields, strict=True)
        ]
        zipped = Call("arrays_zip", tuple(arrays))
        name = fresh_name("zipped", scope.names)
        type = scope.type_of(zipped, self.text.at(span))
        with written_at(self.text.at(span)):
            rows = _stream(scope).flat_map(Column(Alias(Call("explode", (zipped,)), name)))
        parts = {call: f"{name}.{field}" for call, field in zip(found, fields, strict=True)}
        return self._behind(scope, rows, parts, items, [(name, None if type is None else element_of(type))])

    def _behind(
        self,
        scope: Scope,
        rows: Stream,
        parts: dict[Call, str],
        items: Iterable[ChosenItem],
        added: Iterable[tuple[str, str | None]],
    ) -> tuple[Scope, tuple[ChosenItem, ...]]:
        """The scope of the rows, and the items in which the columns that were made take the places of the calls."""
        new = [ScopeColumn("", name, name, type) for name, type in added]
        names = {one.column for one in new}
        kept = None if scope.columns is None else (*(one for one in scope.columns if one.column not in names), *new)
        columns = {call: Reference(name) for call, name in parts.items()}
        chosen = tuple(
            replace(
                item,
                expression=rewritten(
                    item.expression,
                    lambda part: columns.get(part) if isinstance(part, Call) else None,
                    self.text.places,
                ),
            )
            for item in items
        )
        return replace(scope, rows=rows, columns=kept), chosen

    def _free(self, wanted: str, scope: Scope, items: Sequence[ChosenItem], call: Call) -> str:
        """The name itself, unless it would hide a column that SELECT still reads, or one of the key."""
        inside = {one.name for one in references(call)}
        read = {one.name for item in items for one in _outside(item.expression)}
        if wanted in read or wanted in (scope.key or ()) or (wanted in scope.names and wanted not in inside):
            return fresh_name(wanted, [*scope.names, *read, *(scope.key or ()), wanted])
        return wanted


def _outside(expression: Expression) -> list[Reference]:
    """The columns that are named outside of functions that give rows."""
    inside = {id(one) for call in calls(expression, is_exploding) for one in references(call)}
    return [one for one in references(expression) if id(one) not in inside]


def _parts(type: str | None) -> tuple[str | None, ...]:
    """The types of the columns that an element makes; one for an array or a type that is not known."""
    entry = None if type is None else entry_of(type)
    return entry if entry is not None else ((None,) if type is None else (element_of(type),))


def _stream(scope: Scope) -> Stream:
    assert isinstance(scope.rows, Stream)
    return scope.rows
