"""The files of a log as a task sees them."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from streamkit.log.storage.replicated_storage import open_storage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import Storage
from streamkit.spark.memory import keep_memory


@lru_cache(maxsize=4)
def task_storage(root: str, replication: Replication) -> Storage:
    """The files of the log, for tasks, which never open its catalog."""
    pa.set_cpu_count(1)  # as many workers as cores run at once
    keep_memory()
    return open_storage(root, replication)
