"""How long a topic keeps records: the next maintenance deletes older ones, also if they were written a moment ago."""

from __future__ import annotations

from streamkit.log.topic.settings import RETENTION_MS
from streamkit.log.topic.topic import Topic


def kept_since_ms(topic: Topic, now_ms: int) -> int | None:
    """The event time before which the topic keeps no records as of now; None if it keeps all, or stamps them itself."""
    retention_ms = int(topic.setting(RETENTION_MS)) if topic.has_retention and not topic.is_stamped_on_append else -1
    return None if retention_ms < 0 else now_ms - retention_ms
