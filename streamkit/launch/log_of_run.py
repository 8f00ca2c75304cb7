"""The log that a topology runs on."""

from __future__ import annotations

from streamkit.dsl.topology import Topology
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log, open_log
from streamkit.plan.program import Program


def open_log_of(topology: Topology | Program, location: str | None) -> Log:
    """
    Open the log at a location; one that is not there is made for a topology whose connectors bring its first rows.

    ConfigError if there is none for any other, because nothing could be in it.
    """
    has_source = not isinstance(topology, Program) and any(one.is_source for one in topology.connections)
    return open_log(location) if has_source else open_existing_log(location)
