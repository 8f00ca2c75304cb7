"""
The functions that conformance cases name, as the plain Python that they are.

A case says `append(+)` or `fk_after_bar`; `called` gives the function of that name. None stands for null, and becomes the text
"null" where a text is put together, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

ORDINALS = {1: "ONE", 2: "TWO", 3: "THREE"}
PAIRS: dict[str, Function] = {
    "identity": lambda key, value: (key, value),
    "swap": lambda key, value: (value, key),
    "value_value": lambda key, value: (value, value),
    "key_chars": lambda key, value: (key[0], key[1]),
    "agg_repartition": lambda key, value: _agg_repartition(text(key), value),
}


def called(name: str) -> tuple[str, str]:
    """The name of a function, and what stands between its brackets."""
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", name, re.DOTALL)
    if match is None:
        raise ValueError(f"found {name!r} as the name of a function; expected a name, or name(argument)")
    return match[1], match[2] or ""


def text(value: Any) -> str:
    """A value as part of a text."""
    return "null" if value is None else str(value)


def predicate(name: str) -> Function:
    """A condition on key and value."""
    word, argument = called(name)
    known: dict[str, Function] = {
        "value_even": lambda key, value: value % 2 == 0,
        "value_equals_ignore_case": lambda key, value: value is not None and _is_equal_in_any_case(value, argument),
        "key_mod0": lambda key, value: key % int(argument) == 0,
        "key_negative": lambda key, value: key < 0,
    }
    return _known(known, word, "predicate")


def key_function(name: str) -> Function:
    """A key, made of key and value: that of a pair, too."""
    word, argument = called(name)
    known: dict[str, Function] = {
        "key": lambda key, value: key,
        "value": lambda key, value: value,
        "null": lambda key, value: None,
        "first_of": lambda key, value: _token(value, ","),
        "fk_after_bar": lambda key, value: _token(value, "|"),
        "fk_after_bar_null_if": lambda key, value: None if _token(value, "|") == argument else _token(value, "|"),
        "ordinal_word": lambda key, value: ORDINALS.get(key),
        "ordinal_word_upper": lambda key, value: ORDINALS.get(value),
    }
    if word not in known and word in PAIRS:
        return lambda key, value: PAIRS[word](key, value)[0]
    return _known(known, word, "key function")


def foreign_key(name: str) -> Function:
    """The key of the other table, made of a value: a key function that is told no key."""
    function = key_function(name)
    return lambda value: function(None, value)


def value_function(name: str) -> Function:
    """A number, made of key and value."""
    known: dict[str, Function] = {
        "len": lambda key, value: _length(value),
        "len_plus_key": lambda key, value: _length(value) + key,
        "int_of": lambda key, value: int(value),
        "digit_of_first_char": lambda key, value: int(value[0]),
    }
    return _known(known, called(name)[0], "value function")


def pair_function(name: str) -> Function:
    """A new key and value, made of key and value; None for no pair at all."""
    return _known(PAIRS, called(name)[0], "pair function")


def flat_map_function(name: str) -> Function:
    """Several pairs, made of key and value."""
    known: dict[str, Function] = {"key_times": lambda key, value: [(str(key * 10 + i), value) for i in range(key)]}
    return _known(known, called(name)[0], "flat map")


def flat_map_values_function(name: str) -> Function:
    """Several values, made of a value."""
    known: dict[str, Function] = {"v_and_V": lambda value: ["v" + text(value), "V" + text(value)]}
    return _known(known, called(name)[0], "flat map of values")


def aggregator(name: str) -> Function:
    """A new aggregate, made of a value and the aggregate; None removes it."""
    word, argument = called(name)
    known: dict[str, Function] = {
        "append": lambda value, aggregate: text(aggregate) + argument + text(value),
        "inc": lambda value, aggregate: aggregate + 1,
        "null_if": lambda value, aggregate: None if value == argument else text(aggregate) + "+" + text(value),
        "newest": lambda value, aggregate: value,
        "remove_all": lambda value, aggregate: aggregate.replace(value, ""),
    }
    return _known(known, word, "aggregator")


def reducer(name: str) -> Function:
    """One value, made of two."""
    word, argument = called(name)
    return _known({"append": lambda first, second: text(first) + argument + text(second)}, word, "reducer")


def column_aggregate(name: str) -> Function:
    """One value, made of two that follow each other, as an aggregate function of columns does."""
    known: dict[str, Function] = {
        "first": lambda first, second: first,
        "last": lambda first, second: second,
        "max": max,
        "min": min,
        "sum": lambda first, second: first + second,
    }
    return _known(known, called(name)[0], "aggregate function")


def merger(name: str) -> Function:
    """One aggregate, made of two."""
    word, argument = called(name)
    known: dict[str, Function] = {
        "sum": lambda first, second: first + second,
        "concat": lambda first, second: text(first) + argument + text(second),
    }
    return _known(known, word, "merger")


def joiner(name: str) -> Function:
    """One value, made of the key and the values of two sides."""
    word, argument = called(name)
    known: dict[str, Function] = {
        "concat": lambda key, left, right: text(left) + argument + text(right),
        "pair": lambda key, left, right: f"({text(left)},{text(right)})",
        "key_colon_sum_null0": lambda key, left, right: f"{text(key)}:{left + (right or 0)}",
    }
    return _known(known, word, "joiner")


def _agg_repartition(key: str, value: Any) -> Any:
    if key == "NULL":
        return None
    return (None, value) if key == "null" else (value, value)


def _length(value: str) -> int:
    """How long a text is in Java: in units of 16 bits."""
    return len(value.encode("utf-16-le")) // 2


def _is_equal_in_any_case(first: str, second: str) -> bool:
    """As Java compares, character by character: ß is not SS, and σ is ς."""
    return list(map(_folded, first)) == list(map(_folded, second))


def _folded(character: str) -> str:
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def _token(value: str | None, separator: str) -> str | None:
    """The second part of a text; None if there is none. Empty parts at the end do not count, as in Java."""
    if value is None:
        return None
    parts = value.rstrip(separator).split(separator)
    return parts[1] if len(parts) > 1 else None


def _known(known: dict[str, Function], name: str, what: str) -> Function:
    if name not in known:
        raise ValueError(f"found the {what} {name!r}; expected one of {', '.join(known)}")
    return known[name]
