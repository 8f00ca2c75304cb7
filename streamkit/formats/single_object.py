"""Avro's single-object encoding: two bytes, the fingerprint of the schema in eight, then the value."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamkit.arrays import Mask
from streamkit.formats.avro_schema import parsed_schema

MARKER = b"\xc3\x01"
HEADER_BYTES = 10


@lru_cache(maxsize=256)
def header(text: str) -> bytes:
    """What stands before each value of a schema."""
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return MARKER + bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed_schema(text)[0]), "CRC-64-AVRO"))


def is_under(values: pa.Array, prefix: bytes) -> Mask:
    """Which values, none of which is null, begin with the header of a schema."""
    return np.array([value.startswith(prefix) for value in values.to_pylist()], np.bool_)
