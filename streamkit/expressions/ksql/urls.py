"""Functions of URLs; of a text that is none they are null."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

import pyarrow as pa

from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Datum, Invocation, always_nullable, operation
from streamkit.expressions.ksql.function import formula
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.plan.expression import TypedExpression

_PORT = re.compile(r".*:([0-9]+)")


@formula("url_encode_param", "string -> string")
def _url_encode_param(call: Invocation) -> TypedExpression:
    """The text as a parameter of a URL, with + for blanks and % before the digits of other signs."""
    return call.of("url_encode", *call.values)


@formula("url_decode_param", "string -> string")
def _url_decode_param(call: Invocation) -> TypedExpression:
    """The text that a parameter of a URL stands for."""
    return call.of("url_decode", *call.values)


def _part(call: Invocation, name: str) -> TypedExpression:
    return call.of("try_parse_url", call.typed(0), literal(name, "string"))


def _decoded(call: Invocation, value: TypedExpression) -> TypedExpression:
    """A part of a URL with its signs behind %; + is +."""
    plus = (literal(one, "string") for one in ("+", "%2B"))
    return call.of("try_url_decode", call.of("replace", value, *plus))


@formula("url_extract_protocol", "string -> string")
def _protocol(call: Invocation) -> TypedExpression:
    """The protocol of a URL."""
    return _part(call, "PROTOCOL")


@formula("url_extract_host", "string -> string")
def _host(call: Invocation) -> TypedExpression:
    """The host of a URL."""
    return _part(call, "HOST")


@formula("url_extract_path", "string -> string")
def _path(call: Invocation) -> TypedExpression:
    """The path of a URL, decoded; empty if it has none."""
    return _decoded(call, _part(call, "PATH"))


@formula("url_extract_query", "string -> string")
def _query(call: Invocation) -> TypedExpression:
    """The query of a URL, decoded."""
    return _decoded(call, _part(call, "QUERY"))


@formula("url_extract_fragment", "string -> string")
def _fragment(call: Invocation) -> TypedExpression:
    """The fragment of a URL, decoded."""
    return _decoded(call, _part(call, "REF"))


@formula("url_extract_port", "string -> int")
def _port(call: Invocation) -> TypedExpression:
    """The port of a URL, if it names one."""
    return TypedExpression("ksql_port", "int", (_part(call, "AUTHORITY"),))


@operation("ksql_port", nullable=always_nullable)
def _port_of(_: TypedExpression, authority: Datum) -> Datum:
    return one_by_one(_port_number, pa.int32(), authority)


def _port_number(authority: str) -> int | None:
    match = _PORT.fullmatch(authority)
    return int(match[1]) if match and int(match[1]) < 2**31 else None


@formula("url_extract_parameter", "string, string -> string")
def _parameter(call: Invocation) -> TypedExpression:
    """The value of a parameter in the query of a URL, decoded."""
    return TypedExpression("ksql_parameter", "string", (_part(call, "QUERY"), call.typed(1)))


@operation("ksql_parameter", nullable=always_nullable)
def _parameter_of(_: TypedExpression, query: Datum, name: Datum) -> Datum:
    return one_by_one(_value_of, pa.string(), query, name)


def _value_of(query: str, name: str) -> str | None:
    for pair in query.split("&"):
        key, equals, value = pair.partition("=")
        if equals and unquote_plus(key) == name:
            return unquote_plus(value)
    return None
