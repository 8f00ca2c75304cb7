"""A stream: a node, and whether its key may have changed since the data was partitioned."""

from __future__ import annotations

from tests.harness.conformance.interpreter.node import Node
from tests.harness.conformance.interpreter.stream_time import Inputs


class Stream(Node):
    """`is_rekeyed`: the next operator that needs the key partitions the data once more."""

    def __init__(self, inputs: Inputs, is_rekeyed: bool = False) -> None:
        super().__init__()
        self.inputs = inputs
        self.is_rekeyed = is_rekeyed
