"""LIKE: % and _ match characters of one line, as the dots of a regular expression of Java do, and any character behind ESCAPE is itself."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.mapping import each_constant
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, counted, never_null, operation
from streamkit.expressions.ksql.operators import flags, operator
from streamkit.expressions.ksql.signature import ksql_type, widened
from streamkit.expressions.texts.patterns import quote
from streamkit.plan.expression import TypedExpression

_IN_A_LINE = r"[^\n\r\x{85}\x{2028}\x{2029}]"


@operator("like")
def _like_rule(call: Invocation) -> TypedExpression:
    """Without ESCAPE no character is one; of null it fails."""
    text, pattern, *escape = counted(call, 2, 3)
    for value in (text, pattern):
        if value.type not in ("string", "void"):
            raise RuleError(f"LIKE takes texts; found {ksql_type(value.type)}")
    for one in escape:
        if one.name != "literal" or len(one.value or "") != 1:
            raise RuleError(f"ESCAPE takes one character; found {one.value!r}")
    if pattern.name == "literal" and pattern.value is not None:
        try:
            _expression(str(pattern.value), str(escape[0].value) if escape else "")
        except ValueError as error:
            raise RuleError(str(error)) from None
    texts = [call.build(TypedExpression("ksql_present", "string", (widened(call, one, "string"),))) for one in (text, pattern)]
    return call.build(TypedExpression("ksql_like", "boolean", (*texts, *escape)))


@operation("ksql_present", strict=False, fails=always, nullable=never_null)
def _present(_: TypedExpression, value: Datum) -> Datum:
    """The value, which must not be null."""
    check_rows(flags(pc.is_null(value)), "LIKE compares two texts, and this one is null")
    return value


@operation("ksql_like", fails=always)
def _like(_: TypedExpression, text: Datum, pattern: Datum, *escape: Datum) -> Datum:
    return each_constant(_like_constant, pa.bool_(), (text, pattern, *escape), (1,))


def _like_constant(text: Datum, pattern: pa.Scalar, *escape: pa.Scalar) -> Datum:
    try:
        wanted = _expression(pattern.as_py(), escape[0].as_py() if escape else "")
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pc.match_substring_regex(text, wanted)


@lru_cache(maxsize=256)
def _expression(pattern: str, escape: str) -> str:
    """The pattern as a regular expression of RE2; ValueError if the escape is its last character."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError(f"the pattern {pattern!r} ends with the escape {escape!r}; expected a character behind it")
            parts.append(quote(escaped))
        else:
            parts.append({"%": f"{_IN_A_LINE}*", "_": _IN_A_LINE}.get(character) or quote(character))
    return rf"\A{''.join(parts)}\z"
