"""What a processor asks of its context by the names of Kafka Streams, and what it calls instead."""

from __future__ import annotations

import difflib

from streamkit.names import snake_case

FOREIGN_CALLS = {
    "commit": "nothing, because stores and what was forwarded are committed together, with the epoch",
    "get_state_store": 'store("name")',
    "state_store": 'store("name")',
    "current_stream_time_ms": "stream_time",
    "current_system_time_ms": "wall_clock",
    "task_id": "task",
    "timestamp": "record.timestamp",
    "headers": "record.headers",
    **dict.fromkeys(("topic", "partition", "offset"), "record_metadata"),
    **dict.fromkeys(("app_configs", "app_configs_with_prefix"), "values that the processor's factory was given"),
}


def missing_call(name: str, context: type) -> str:
    """What to say of a name that the context of a processor does not have."""
    snake = snake_case(name)
    there = sorted(one for one in dir(context) if not one.startswith("_") and one != "check")
    expected = snake if snake in there else FOREIGN_CALLS.get(snake)
    if expected is not None:
        return f"the context has no {name!r}; expected {expected}"
    close = difflib.get_close_matches(snake, there, 1)
    return f"the context has no {name!r}; " + (f"did you mean {close[0]}?" if close else f"it has {', '.join(there)}")
