"""Programs as the catalog keeps them, also those of format 1: what of them is needed to read stores, and to compare them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamkit.plan.program import PROGRAM_FORMAT, Program

FORMAT_1 = 1
_KEEPERS = ("aggregate", "materialize")
GROUP_SUFFIX = ":group"  # of the id of the projection that computes the columns of a group


def read_program(text: str) -> Program:
    """
    The program behind JSON text, of this format or of the one before.

    One of format 1 cannot be run. It has the operators that keep stores, and those that compute the columns of groups; its
    windows have no inputs. FormatVersionError for any other format.
    """
    value: dict[str, Any] = json.loads(text)
    return Program.from_json(_upgraded(value) if value.get("format") == FORMAT_1 else value)


def has_steps(program: Program) -> bool:
    """Whether a program has all its steps, and not the keepers of stores alone."""
    return any(operator.kind == "source" for operator in program.operators)


def _upgraded(program: Mapping[str, Any]) -> dict[str, Any]:
    operators = {operator["id"]: operator for operator in program["operators"]}
    kept = [one for one in operators.values() if one["kind"] in _KEEPERS or _is_group(one)]
    upgraded = [_with_window(one, operators) if one["kind"] == "aggregate" else one for one in kept]
    stores = [{**store, "layout": "key" if store["window_size_ms"] is None else "window"} for store in program["stores"]]
    return {**program, "format": PROGRAM_FORMAT, "operators": upgraded, "stores": stores}


def _is_group(operator: Mapping[str, Any]) -> bool:
    return bool(operator["kind"] == "project" and operator["id"].endswith(GROUP_SUFFIX))


def _with_window(aggregate: Mapping[str, Any], operators: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The aggregation with its windows, which in format 1 an operator of its own assigned on the way to it."""
    if aggregate["size_ms"] is None:
        return {**aggregate, "window": None}
    above = aggregate
    while above["kind"] != "windows":
        above = operators[above["inputs"][0]]
    times = {name: above[name] for name in ("size_ms", "advance_ms", "grace_ms")}
    return {**aggregate, "window": {**times, "streams": [], "store": aggregate["store"]}}
