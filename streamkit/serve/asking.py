"""From the text of a request to what was asked: parameters that are known, of their types, and a form that is spoken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamkit.serve.refusals import RefusedError, bad_request
from streamkit.serve.resource import Parameter, Resource

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
PARAMETER_LENGTH_MAX = 16_384


def read_parameters(resource: Resource, given: Iterable[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of all parameters by name, and the others; RefusedError names one that is not known, or not of its type."""
    known = {one.name: one for one in resource.every_parameter}
    values: dict[str, Any] = {one.name: [] if one.is_list else one.default for one in known.values()}
    others: dict[str, str] = {}
    seen: set[str] = set()
    for name, text in given:
        if len(text) > PARAMETER_LENGTH_MAX:
            raise RefusedError(
                414,
                "TooLong",
                f"the parameter {name[:100]!r} has {len(text):,} characters; expected at most {PARAMETER_LENGTH_MAX:,}",
                "ask for less at once",
            )
        parameter = known.get(name)
        if parameter is None and resource.takes_others is None:
            raise bad_request(
                f"the parameter {name!r} is not known to {resource.path}; expected one of: {', '.join(known) or 'none'}"
            )
        if name in seen and (parameter is None or not parameter.is_list):
            raise bad_request(f"the parameter {name!r} is given twice; expected it once")
        seen.add(name)
        if parameter is None:
            column = name.removeprefix("key.")
            if column in others:
                raise bad_request(f"the key column {column!r} is given twice, as {column} and as key.{column}; expected it once")
            others[column] = text
        elif parameter.is_list:
            values[name].append(_typed(parameter, text))
        else:
            values[name] = _typed(parameter, text)
    return values, others


def chosen_form(accept: str | None, forms: Sequence[str]) -> str:
    """The form that the header `Accept` likes best among those that there are, the first if it takes all; 406 if it takes none."""
    liked: list[tuple[float, int, str]] = []
    for place, part in enumerate((accept or "*/*").split(",")):
        kind, *settings = (one.strip() for one in part.split(";"))
        quality = 1.0
        for setting in settings:
            name, _, value = setting.partition("=")
            if name.strip() == "q":
                quality = float(value) if value.replace(".", "", 1).isdigit() else 0.0
        liked.append((-quality, place, kind.lower()))
    for quality, _, kind in sorted(liked):
        for form in forms:
            if quality and kind in (form, "*/*", f"{form.partition('/')[0]}/*"):
                return form
    raise RefusedError(
        406,
        "NotAcceptable",
        f"found Accept: {accept}; this path answers in {', '.join(forms)}",
        f"Accept: {forms[0]} is one of them",
    )


def _typed(parameter: Parameter, text: str) -> Any:
    try:
        value = _BOOLEANS[text.lower()] if parameter.type is bool else parameter.type(text)
    except (KeyError, ValueError, OverflowError):
        raise bad_request(f"found {parameter.name}={text!r}; expected {expected_of(parameter)}") from None
    if parameter.least is not None and not value >= parameter.least:
        raise bad_request(f"found {parameter.name}={text!r}; expected {expected_of(parameter)}")
    return value


def expected_of(parameter: Parameter) -> str:
    """What a parameter takes, in words."""
    words: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words[parameter.type] + ("" if parameter.least is None else f" from {parameter.least}")
