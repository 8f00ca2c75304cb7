"""
JSON documents of a batch, read at once by Arrow.

Arrow gets documents whose brackets and quotes are sound, so that none reaches into the next one, and which hold no escape: these it reads as
Spark does, or refuses. All others are read exactly, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from streamkit.chunks import one_array
from streamkit.data_type import array_of, element_of, fields_of, has_map, inner_types, is_nested, struct_of, to_arrow
from streamkit.decimals import SMALL_IN_JSON, wide_decimal
from streamkit.expressions.casts.casts import family_of
from streamkit.expressions.casts.nested_casts import convert_nested
from streamkit.expressions.casts.reading import READERS
from streamkit.expressions.core.elements import as_numbers
from streamkit.expressions.texts.characters import bytes_of
from streamkit.recast import recast

FEWEST = 64  # rows that are worth the start of a reader
_PARTS = 16
_BYTES_MAX = 1 << 28  # of texts that are read at once
_DEPTH = 8  # of brackets in brackets
_TEXT = r'"[^"\\\x00-\x1f]*"'
_REST = r"[\t ,:.+0-9Eaeflnrstu]|-[1-9]|-0[.eE]|[eE]-"  # not NaN, nor -0, which as a double is 0.0 to Spark and -0.0 to Arrow
_ZONED = re.compile(r":[\d.]*[^\d.:\s]|:\d\S*\s+\S")  # something behind the time of day
_LEAVES = ("boolean", "integer", "float", "decimal", "string")
_MOMENTS = ("date", "timestamp", "timestamp_ntz")

ReadTexts: TypeAlias = Callable[[pa.Array], pa.Array]


def _within(depth: int) -> str:
    inner = rf"[{{\[]{_within(depth - 1)}[}}\]]|" if depth else ""
    return f"(?:{inner}{_TEXT}|{_REST})*"


OBJECTS = rf"^[ \t]*\{{{_within(_DEPTH)}\}}[ \t]*$"
ARRAYS = rf"^[ \t]*\[{_within(_DEPTH)}\][ \t]*$"


def read_batch(texts: pa.Array, pattern: str, read: ReadTexts, read_exactly: ReadTexts, without: str = "\n") -> pa.Array:
    """
    The texts that match the pattern and lack the text `without`, by `read`; the others by `read_exactly`.

    Where `read` raises ArrowInvalid, it gets smaller parts, down to those that are read exactly.
    """
    if len(texts) < FEWEST:
        return read_exactly(texts)
    fits = pc.and_not(pc.match_substring_regex(texts, pattern), pc.match_substring(texts, without)).fill_null(False)
    if fits.true_count < FEWEST:
        return read_exactly(texts)
    found = _in_parts(texts.filter(fits), read, read_exactly)
    if not fits.false_count:
        return found
    return _merged(fits, found, read_exactly(texts.filter(pc.invert(fits))))


def _in_parts(texts: pa.Array, read: ReadTexts, read_exactly: ReadTexts) -> pa.Array:
    if len(texts) < FEWEST:
        return read_exactly(texts)
    try:
        return read(texts)
    except pa.ArrowInvalid:
        size = -(-len(texts) // _PARTS)
        parts = [_in_parts(texts.slice(start, size), read, read_exactly) for start in range(0, len(texts), size)]
        return pa.concat_arrays(parts)


def _merged(is_first: pa.Array, first: pa.Array, second: pa.Array) -> pa.Array:
    """The rows of the first array where the mask holds, the rows of the second elsewhere, each in its order."""
    mask = as_numbers(is_first).astype(bool)
    places = np.where(mask, np.cumsum(mask) - 1, len(first) + np.cumsum(~mask) - 1)
    return pa.concat_arrays([first, second]).take(pa.array(places))


def read_documents(texts: pa.Array, type: pa.DataType) -> pa.Array:
    """Documents that fit OBJECTS or ARRAYS, as values of a type; ArrowInvalid if Arrow refuses one, or it is not of the type."""
    if texts.nbytes > _BYTES_MAX:
        raise pa.ArrowInvalid(f"the texts have {texts.nbytes} bytes; expected at most {_BYTES_MAX}")
    rows = bytes_of(pc.binary_join_element_wise('{"v":', texts, "}\n", ""))
    data = rows.data[: rows.offsets[-1]]
    schema = pa.schema([("v", type)])
    found = pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return one_array(found["v"])


def is_batch_type(type: str) -> bool:
    """Whether `read_values` reads the type: it holds no maps and no bytes."""
    inner = inner_types(type)
    return not has_map(type) and (all(map(is_batch_type, inner)) if inner else family_of(type) in (*_LEAVES, *_MOMENTS))


def read_values(texts: pa.Array, type: str) -> pa.Array:
    """Documents as values of Spark's type, which may hold moments; ArrowInvalid as `read_documents` raises it."""
    source = _source_type(type)
    if "decimal" in type and pc.any(pc.match_substring_regex(texts, SMALL_IN_JSON)).as_py():
        raise pa.ArrowInvalid("a number may have an exponent that Arrow's reader does not know")
    values = recast(read_documents(texts, _with_wide_decimals(to_arrow(source))), to_arrow(source))
    return _finished(values, source, type)


def _source_type(type: str) -> str:
    """What Arrow reads for a type: texts for moments, doubles for floats, which are rounded twice."""
    if element := element_of(type):
        return array_of(_source_type(element))
    if fields := fields_of(type):
        return struct_of((name, _source_type(inner)) for name, inner in fields)
    return "string" if type in _MOMENTS else "double" if type == "float" else type


def _with_wide_decimals(type: pa.DataType) -> pa.DataType:
    """The type with decimals that Arrow's reader multiplies without an overflow."""
    if pa.types.is_list(type):
        return pa.list_(_with_wide_decimals(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_with_wide_decimals(field.type)) for field in type])
    return wide_decimal(type) if pa.types.is_decimal(type) else type


def _finished(values: pa.Array, source: str, target: str) -> pa.Array:
    if source == target:
        return values
    if is_nested(source):
        return convert_nested(values, source, target, _finished)
    return values.cast(pa.float32(), safe=False) if target == "float" else _moments(values, target)


def _moments(texts: pa.Array, type: str) -> pa.Array:
    if type == "timestamp_ntz" and pc.match_substring_regex(texts, _ZONED.pattern).true_count:
        raise pa.ArrowInvalid("a text with a zone")
    moments = READERS[type](texts, type)
    if moments.null_count > texts.null_count:
        raise pa.ArrowInvalid(f"a text cannot be read as {type}")
    return moments
