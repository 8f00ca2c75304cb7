"""What a processor forwards, as streams."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.dsl.stream import Stream
from streamkit.errors import TopologyError
from streamkit.plan.location import user_location
from streamkit.plan.operators.process import ProcessChild, ProcessNode


@dataclass(frozen=True, repr=False)
class Processed(Stream):
    """The records that a processor forwards to nobody by name; `child` gives the records that it forwards to one child."""

    def child(self, name: str) -> Stream:
        """
        Give the records that the processor forwards to the child of this name or to all children.

            checked = orders.process(Check, "amount int")
            checked.child("suspicious").to("suspicious_orders")
        """
        assert isinstance(self.node, ProcessNode)
        return Stream(ProcessChild(self.node, name, at=user_location()), self.topology)

    def named(self, name: str) -> Stream:
        """Refuse: the processor runs already under the name that it has."""
        raise TopologyError(f"named({name!r}) of a processor; expected process(…, name={name!r})", user_location())
