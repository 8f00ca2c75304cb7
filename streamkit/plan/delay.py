"""How far the rows of a stream stand behind stream time, and what windows over them make of it."""

from __future__ import annotations

from dataclasses import replace

from streamkit.errors import TopologyError
from streamkit.plan import nodes
from streamkit.plan.tree import children


def delay_ms(node: nodes.Node, window: nodes.TimeWindow) -> int:
    """
    How much longer than its grace `window` must wait for the rows of `node`, in milliseconds.

    A final result of [start, end) comes when stream time reaches end + grace. Its own time may be as early as start: it is
    size + grace behind; grace + 1 is enough where the window that holds start cannot end before end. All else comes when it
    happens.
    """
    below = max((delay_ms(child, window) for child in children(node)), default=0)
    if not (isinstance(node, nodes.Emit) and node.mode == "final"):
        return below
    origin = nodes.table_origin(node.child)
    assert isinstance(origin, nodes.Aggregate)
    assert origin.window is not None
    own = origin.window.grace_ms + 1 if _covers(window, origin.window) else origin.window.grace_ms + origin.window.size_ms
    return delay_ms(origin.child, origin.window) + own


def delayed_window(node: nodes.Aggregate) -> nodes.TimeWindow | None:
    """
    The windows of an aggregation as they close in stream time: as much later as its rows are behind.

    Without that, final results that are grouped into windows again could all be late. Newest results (`latest`) stand at the
    end of their epoch, so which of them are late would depend on how the input was cut: TopologyError.
    """
    if node.window is None:
        return None
    _refuse_latest(node.child, node)
    delay = delay_ms(node.child, node.window)
    return replace(node.window, grace_ms=node.window.grace_ms + delay, retention_ms=node.window.retention_ms + delay)


def _covers(window: nodes.TimeWindow, finer: nodes.TimeWindow) -> bool:
    """Whether every window of `finer` lies within each window that holds its start."""
    return window.advance_ms == window.size_ms and finer.advance_ms == finer.size_ms and window.size_ms % finer.size_ms == 0


def _refuse_latest(node: nodes.Node, aggregate: nodes.Aggregate) -> None:
    if isinstance(node, nodes.Emit) and node.mode == "latest" and isinstance(nodes.table_origin(node.child), nodes.Aggregate):
        raise TopologyError(
            "windows over emit('latest') of an aggregation would depend on how the input is cut into epochs; "
            "expected emit('every') or emit('final') before windowed_by",
            aggregate.at,
        )
    for child in children(node):
        _refuse_latest(child, aggregate)
