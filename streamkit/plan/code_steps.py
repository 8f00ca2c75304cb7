"""The steps of compiled code: texts that are equal if the code does the same, whatever its docstrings and lines are."""

from __future__ import annotations

import dis
from bisect import bisect_left
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

_HAS_DOCSTRING = 0x4000000  # of Python 3.13
_ABOUT = ("__doc__", "__firstlineno__", "__static_attributes__")  # what the body of a class says about itself
_OF_CONSTANTS = frozenset(dis.hasconst)
_OF_NAMES = frozenset(dis.hasname)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_MORE = 64  # this bit of a byte of a table: the number goes on


class CodeSteps(NamedTuple):
    """A text of all steps, the constants in the order of their use, and the globals that they, or code within them, may use."""

    text: str
    constants: list[Any]
    globals: set[str]


def code_steps(code: CodeType) -> CodeSteps:
    """The steps of code. Jumps, and the extents of `try`, are told by the numbers of steps."""
    numbered = code.replace(co_consts=tuple(range(len(code.co_consts))))  # `dis` writes constants, which may have no text
    steps = list(_kept([step for step in dis.get_instructions(numbered) if step.opcode != dis.EXTENDED_ARG]))
    places = [step.offset for step in steps]
    used: dict[int, int] = {}
    texts: list[tuple[int, Any]] = []
    for step in steps:
        told: Any = step.arg
        if step.opcode in _OF_CONSTANTS:
            told = used.setdefault(int(step.arg or 0), len(used))
        elif step.opcode in _OF_NAMES:
            told = step.argrepr
        elif step.opcode in _JUMPS:
            told = bisect_left(places, step.argval)
        texts.append((step.opcode, told))
    constants = [code.co_consts[number] for number in used]
    names = {str(step.argval) for step in steps if step.opname in _GLOBALS}
    inner = [code_steps(one).globals for one in constants if isinstance(one, CodeType)]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING
    return CodeSteps(repr((texts, list(_extents(code, places)), code.co_varnames, counts)), constants, names.union(*inner))


def _kept(steps: list[dis.Instruction]) -> Iterator[dis.Instruction]:
    """The steps without those that store a docstring, or other text about a class, which changes nothing that it does."""
    number = 0
    while number < len(steps):
        after = steps[number + 1] if number + 1 < len(steps) else None
        is_about = after is not None and after.opname == "STORE_NAME" and after.argval in _ABOUT
        if is_about and steps[number].opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            number += 2
            continue
        yield steps[number]
        number += 1


def _extents(code: CodeType, places: list[int]) -> Iterator[tuple[int, ...]]:
    """What is tried, and where it goes on after an error: numbers of steps. Before Python 3.11 steps say so themselves."""
    numbers, number = [], 0
    for byte in getattr(code, "co_exceptiontable", b""):
        number = number << 6 | byte & (_MORE - 1)
        if not byte & _MORE:
            numbers.append(number)
            number = 0
    for first, length, target, depth in zip(*(numbers[place::4] for place in range(4)), strict=True):
        yield (*(bisect_left(places, 2 * place) for place in (first, first + length, target)), depth)
