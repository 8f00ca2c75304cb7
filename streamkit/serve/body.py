"""What a request brings: so many bytes at most, in a form that the path reads, and of a JSON object the fields that the path knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive

from streamkit.connectors.web_server import BodyError, length_of_body
from streamkit.serve.asking import expected_of
from streamkit.serve.forms import FORM, JSON
from streamkit.serve.refusals import RefusedError, bad_request, unreadable_json
from streamkit.serve.resource import Body, Parameter, Resource

CLOSING = {"Connection": "close"}  # the rest of such a body is not read


async def read_body(headers: Headers, receive: Receive, resource: Resource, bytes_max: int) -> Body:
    """
    The body of a request; RefusedError if it is too long, or in a form that the path does not read.

    The form has to be named: a web page of elsewhere cannot name one of these without asking first. What reads forms of web pages, as ksqlDB's
    paths do, reads a body without a name, too, and is kept from such pages by their `Origin` alone.
    """
    forms = tuple(resource.body_forms) or (JSON,)
    form = headers.get("Content-Type", "").partition(";")[0].strip().lower() or (FORM if FORM in forms else "")
    if form not in forms:
        raise RefusedError(
            415, "UnsupportedMediaType", f"found {f'Content-Type: {form}' if form else 'no Content-Type'}; expected {' or '.join(forms)}",
            f"send the header Content-Type: {forms[0]}", CLOSING,
        )  # fmt: skip
    try:
        length = length_of_body(headers)
    except BodyError as error:
        raise RefusedError(411, "LengthRequired", str(error), "send the body with its Content-Length", CLOSING) from None
    pieces, size, goes_on = list[bytes](), length or 0, length != 0
    while goes_on or size > bytes_max:
        if size > bytes_max:
            found = f"{size:,} bytes" if length else f"more than {bytes_max:,} bytes"
            raise RefusedError(
                413, "TooLarge", f"the body has {found}; expected at most {bytes_max:,}", "send less at once", CLOSING
            )
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(499, "Gone", "the connection was closed before the whole body had arrived", "send it again")
        pieces.append(message.get("body", b""))
        size += 0 if length else len(pieces[-1])  # a request by HTTP/2 need not say its length
        goes_on = message.get("more_body", False)
    return Body(form, b"".join(pieces))


def read_fields(resource: Resource, body: Body) -> dict[str, Any]:
    """The fields of a body by name; RefusedError names one that is not known, missing, or not of its type."""
    try:
        found = json.loads(body.content) if body.content.strip() else {}
    except (ValueError, RecursionError) as error:
        raise unreadable_json(error, "the body") from None
    if not isinstance(found, Mapping):
        raise bad_request(f"found {json.dumps(found)[:100]}; expected a JSON object")
    known = {one.name: one for one in resource.fields}
    for name in found:
        if name not in known:
            raise bad_request(f"the field {name!r} is not known to {resource.path}; expected some of: {', '.join(known)}")
    return {name: _value_of(one, found[name]) if name in found else _absent(one) for name, one in known.items()}


def _absent(known: Parameter) -> Any:
    """The value of a field that is left out."""
    if known.is_required:
        raise bad_request(f"the field {known.name!r} is missing; expected {known.doc}")
    return [] if known.is_list else known.default


def _value_of(known: Parameter, value: Any) -> Any:
    """The value of a field that is given; null and an empty list are none, since whoever sends them may mean nothing or everything."""
    if value is None or value == []:
        raise bad_request(f"found {known.name}: {json.dumps(value)}; expected a value, or that the field is left out")
    if not known.is_list:
        return _typed(known, value)
    if not isinstance(value, list):
        raise bad_request(f"found {known.name}: {json.dumps(value)[:100]}; expected a list")
    return [_typed(known, one) for one in value]


def _typed(known: Parameter, value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if known.type is str and is_number:
        return str(value)  # an offset may be written as a number
    is_such = is_number if known.type is int else isinstance(value, known.type)
    if not is_such or (known.least is not None and value < known.least):
        raise bad_request(f"found {known.name}: {json.dumps(value)[:100]}; expected {expected_of(known)}")
    return value
