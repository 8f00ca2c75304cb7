"""What a topology reads, resolved against schemas that were given."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.errors import TopologyError
from streamkit.plan.inputs import resolve_inputs


def test_bootstrap_is_refused():
    """A table that asks to be read before all streams is refused by name, with the user's line, not read like any other."""
    app = sk.Topology("t")
    app.table("planes", schema="tailnum string, year int", key="tailnum", bootstrap=True).to("copy")

    with pytest.raises(TopologyError, match=r"table\('planes', bootstrap=True\) is not supported yet[\s\S]*test_inputs.py"):
        resolve_inputs(app.roots, None)
