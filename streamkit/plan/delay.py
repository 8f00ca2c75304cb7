"""How far the rows of a stream stand behind stream time."""

from __future__ import annotations

from dataclasses import replace

from streamkit.plan import nodes
from streamkit.plan.tree import children


def delay_ms(node: nodes.Node) -> int:
    """
    How far the newest rows below a node may be behind stream time, in milliseconds.

    A final result of [start, end) comes when stream time reaches end + grace, and its time is end - 1 at most: it is grace + 1
    behind. All else comes when it happens.
    """
    below = max((delay_ms(child) for child in children(node)), default=0)
    window = getattr(nodes.table_origin(node.child), "window", None) if isinstance(node, nodes.Emit) else None
    return below + window.grace_ms + 1 if window is not None and node.mode == "final" else below  # type: ignore[attr-defined]


def delayed_window(node: nodes.Aggregate) -> nodes.TimeWindow | None:
    """
    The windows of an aggregation as they close in stream time: as much later as its rows are behind.

    Without that, final results that are grouped into windows of the same size would all be late.
    """
    if node.window is None:
        return None
    delay = delay_ms(node.child)
    return replace(node.window, grace_ms=node.window.grace_ms + delay, retention_ms=node.window.retention_ms + delay)
