"""What tests use: a driver of topologies; and disks, files and processes that fail on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamkit.testing.driver import TopologyTestDriver

__all__ = ["TopologyTestDriver"]


def __getattr__(name: str) -> Any:
    """Load the driver on first use, because the harnesses beside it need nothing of the engine."""
    if name != "TopologyTestDriver":
        raise AttributeError(f"module 'streamkit.testing' has no attribute {name!r}")
    from streamkit.testing.driver import TopologyTestDriver

    return TopologyTestDriver
