"""Keys that a map has twice: one question of whatever reads or writes maps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask


def repeated_keys(owners: Integers, keys: pa.Array) -> Mask:
    """
    Which entries of maps have a key that an earlier entry of the same map has.

    `owners` has the number of the map of each entry. Keys are of any type, and none is null; -0.0 is 0.0, and every NaN is one key.
    """
    if pa.types.is_nested(keys.type):
        keys = pa.array(map(repr, keys.to_pylist()), pa.string())
    if pa.types.is_floating(keys.type):
        keys = pc.if_else(pc.is_nan(keys), pa.scalar(float("nan"), keys.type), pc.add(keys, pa.scalar(0.0, keys.type)))
    encoded = keys.dictionary_encode()
    pairs = owners * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
    repeated = np.ones(len(pairs), np.bool_)
    repeated[np.unique(pairs, return_index=True)[1]] = False
    return repeated
