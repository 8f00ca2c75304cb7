"""CAST to a type that CREATE TYPE has made: the type that its name means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from streamkit.errors import SchemaError
from streamkit.plan.expression import Cast, Expression
from streamkit.sql.lowering.expression_parts import below, rewritten
from streamkit.sql.lowering.script_text import PartPlaces, ScriptText
from streamkit.sql.tree.span import TextSpan, Written
from streamkit.sql.tree.type_names import resolved_type

Part = TypeVar("Part")


def with_named_types(part: Part, types: Mapping[str, str], text: ScriptText) -> Part:
    """A query, or a part of one, in whose casts names of types are what CREATE TYPE has made of them; TopologyError for one that there is not."""
    return _replaced(part, types, text) if types or text.is_ksql else part


def _replaced(part: Any, types: Mapping[str, str], text: ScriptText) -> Any:
    if isinstance(part, Written):
        return _written(part, types, text)
    if isinstance(part, tuple) and not isinstance(part, TextSpan):
        return tuple(_replaced(one, types, text) for one in part)
    if not is_dataclass(part) or isinstance(part, (type, Expression)):
        return part
    new = {one.name: _replaced(getattr(part, one.name), types, text) for one in fields(part)}
    return replace(part, **{name: value for name, value in new.items() if value is not getattr(part, name)})


def _written(written: Written, types: Mapping[str, str], text: ScriptText) -> Written:
    places = PartPlaces()
    places.put_written(written)

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Cast):
            return None
        try:
            type = resolved_type(part.type, types, is_ksql=text.is_ksql)
        except SchemaError as error:
            raise text.error(str(error), written.places.get(id(part), written.span)) from None
        return None if type == part.type else places.replaced(Cast(rewritten(part.expression, change, places), type), part)

    new = rewritten(written.expression, change, places)
    if new == written.expression:
        return written
    return Written(new, written.span, {id(one): TextSpan(*places[id(one)]) for one in below(new) if id(one) in places})
