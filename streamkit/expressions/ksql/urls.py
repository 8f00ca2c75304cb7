"""Functions of URLs; a text that is none fails."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

import pyarrow as pa

from streamkit.expressions.core.operation import Datum, Invocation, always
from streamkit.expressions.ksql.function import failing_as, formula, kernel
from streamkit.expressions.ksql.one_by_one import one_by_one
from streamkit.expressions.texts.urls import parts_of_address
from streamkit.plan.expression import TypedExpression

_PORT_MAX = 2**31 - 1


@formula("url_encode_param", "string -> string")
def _url_encode_param(call: Invocation) -> TypedExpression:
    """The text as a parameter of a URL, with + for blanks and % before the digits of other signs."""
    return call.of("url_encode", *call.values)


@formula("url_decode_param", "string -> string")
def _url_decode_param(call: Invocation) -> TypedExpression:
    """The text that a parameter of a URL stands for."""
    return call.of("url_decode", *call.values)


def _part(name: str, effect: str, find: Callable[[str], str | None]) -> None:
    """Enter a function that gives a text out of a URL."""

    def computed(_: TypedExpression, address: Datum) -> Datum:
        return one_by_one(find, pa.string(), address)

    computed.__doc__ = effect
    kernel(name, "string -> string", fails=always)(computed)


def _decoded(part: str, address: str) -> str | None:
    """A part of a URL with its signs behind %; + is +."""
    found = parts_of_address(address)[part]
    return None if found is None else unquote(found)


_part("url_extract_protocol", "The protocol of a URL.", lambda address: parts_of_address(address)["PROTOCOL"])
_part("url_extract_host", "The host of a URL.", lambda address: parts_of_address(address)["HOST"])
_part("url_extract_path", "The path of a URL, decoded; empty if it has none.", lambda address: _decoded("PATH", address))
_part("url_extract_query", "The query of a URL, decoded.", lambda address: _decoded("QUERY", address))
_part("url_extract_fragment", "The fragment of a URL, decoded.", lambda address: _decoded("REF", address))


@kernel("url_extract_port", "string -> int", fails=always)
def _url_extract_port(_: TypedExpression, address: Datum) -> Datum:
    """The port of a URL, if it names one behind a host."""
    return one_by_one(_port, pa.int32(), address)


def _port(address: str) -> int | None:
    parts = parts_of_address(address)
    if parts["HOST"] is None:
        return None
    digits = str(parts["AUTHORITY"]).rpartition("@")[2].removeprefix(str(parts["HOST"])).removeprefix(":")
    if digits and int(digits) > _PORT_MAX:
        raise ValueError(f"{address!r} has a port beyond {_PORT_MAX:,}")
    return int(digits) if digits else None


@kernel("url_extract_parameter", "string, string -> string", fails=always)
def _url_extract_parameter(_: TypedExpression, address: Datum, name: Datum) -> Datum:
    """The value of a parameter in the query of a URL, once that is decoded; empty if it has none behind =."""
    return one_by_one(_parameter, pa.string(), address, name)


def _parameter(address: str, name: str) -> str | None:
    query = _decoded("QUERY", address)
    pairs = [] if query is None else [one.partition("=") for one in query.split("&")]
    return next((value for key, _, value in pairs if key == name), None)


failing_as("url_decode", "url_decode_param")
