"""Keys and values of a store, as lists."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.state.store import Store


def put(store: Store, keys: Sequence[bytes], values: Sequence[bytes | None], position: bytes) -> None:
    """Write these pairs; None deletes."""
    store.write(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), position)


def got(store: Store, keys: Sequence[bytes]) -> list[bytes | None]:
    """The value of each key; None where there is none."""
    found: list[bytes | None] = store.get_many(pa.array(keys, pa.binary())).to_pylist()
    return found
