"""Changes by key: all changes of a key in one task, and the newest of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, last_of_each
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.keys import encode_keys
from streamkit.plan.operators.changes_by_key import ChangesByKey


@kernel(ChangesByKey)
def changes_by_key(operator: ChangesByKey, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """The changes in canonical order, and the newest of each key."""
    (batch,) = inputs
    assert batch is not None
    changes = in_canonical_order(batch)
    newest = changes.take(pa.array(last_of_each(encode_keys([changes[name] for name in operator.key]))))
    return {"": changes, "every": changes, "latest": newest}
