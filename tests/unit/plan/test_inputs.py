"""What a topology reads, resolved against schemas that were given."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import TopologyError
from streamkit.plan.inputs import resolve_inputs

SCHEMA = "tailnum string, year int"


def test_a_topic_is_not_read_before_itself():
    """A topic that is read as a stream cannot be a table that is read before all streams: both stand at the same offset."""
    app = sk.Topology("t")
    app.table("planes", schema=SCHEMA, key="tailnum", bootstrap=True).to("copy")
    app.stream("planes", schema=SCHEMA, key="tailnum").to("others")

    with pytest.raises(TopologyError, match=r"bootstrap=True\) is read before all streams[\s\S]*test_inputs.py"):
        resolve_inputs(app.roots, None)


def test_a_table_is_read_in_one_way():
    """A topic that is a table twice is read before all streams by both or by none."""
    app = sk.Topology("t")
    for name, bootstrap in (("one", True), ("other", False)):
        app.table("planes", schema=SCHEMA, key="tailnum", bootstrap=bootstrap, name=name).to(name)

    with pytest.raises(TopologyError, match=r"read in two different ways"):
        resolve_inputs(app.roots, None)
