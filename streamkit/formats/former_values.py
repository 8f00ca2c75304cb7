"""Values of Avro without a registry for a reader that began before their topic got another schema."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamkit.chunks import one_array
from streamkit.formats.codec import Codec
from streamkit.formats.format import Format
from streamkit.formats.pieces import replaced
from streamkit.formats.single_object import header, is_under


def former_values(values: pa.Array, now: Format, known: Format) -> pa.Array:
    """
    The values of a topic, of which those under schemas that it did not have when its format was `known` are written again as they were then.

    A value that cannot be read under the former schema stays as it is.
    """
    new = [text for text in (*now.earlier, str(now.schema)) if text not in (*known.earlier, known.schema)]
    values = one_array(values)
    if not new or now.name != "avro" or now.has_registry or known.schema is None:
        return values
    binary = values.cast(pa.binary())
    present = np.flatnonzero(binary.is_valid().to_numpy(zero_copy_only=False))
    given = binary.take(pa.array(present))
    is_new = np.logical_or.reduce([is_under(given, header(text)) for text in new])
    rows = present[is_new]
    if not len(rows):
        return values
    found = Codec(replace(now, schema=known.schema, earlier=(*now.earlier, str(now.schema)))).attempt(binary.take(pa.array(rows)))
    read = np.array([row not in found.failures for row in range(len(rows))], np.bool_)
    written = Codec(known).encode(found.rows.filter(pa.array(read)))
    return replaced(binary, rows[read], written.to_pylist())
