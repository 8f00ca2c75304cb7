"""A stream on its way to branches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamkit.dsl import arguments
from streamkit.dsl.condition import Condition, to_predicate
from streamkit.dsl.foreign_names import ForeignNames
from streamkit.dsl.handle_text import handle_line, handle_table
from streamkit.errors import Location, TopologyError
from streamkit.names import check_name
from streamkit.plan.expression import Expression
from streamkit.plan.location import user_location
from streamkit.plan.on_error import OnError
from streamkit.plan.operators.split import BranchNode, SplitNode

if TYPE_CHECKING:
    from streamkit.dsl.stream import Stream


@dataclass(frozen=True, repr=False)
class Split(ForeignNames):
    """The branches of a stream so far, each a name and a condition; `default` and `no_default` give them as streams."""

    stream: Stream
    branches: tuple[tuple[str, Expression], ...]
    at: Location | None
    on_error: OnError | None = None

    def __repr__(self) -> str:
        return handle_line("Split", self.stream.node, self._text())

    def _repr_html_(self) -> str:
        return handle_table(f"Split, {self._text()}", self.stream.node)

    def _text(self) -> str:
        return f"branches {', '.join(name for name, _ in self.branches) or 'none'}"

    def branch(self, condition: Condition, name: str) -> Split:
        """Name the records for which the condition is true and that no branch before it has taken."""
        self._check(name)
        return replace(self, branches=(*self.branches, (name, to_predicate(condition))))

    def default(self, name: str) -> dict[str, Stream]:
        """Give the branches by their names, and under this one the records that none takes."""
        self._check(name)
        return self._streams(name)

    def no_default(self) -> dict[str, Stream]:
        """Give the branches by their names; records that none takes are dropped."""
        return self._streams()

    def _check(self, name: str) -> None:
        check_name(name, "branch", user_location())
        if name in dict(self.branches):
            raise TopologyError(f"there is a branch {name!r} already; expected another name", user_location())

    def _streams(self, *default: str) -> dict[str, Stream]:
        if not self.branches:
            raise TopologyError("split() has no branches; expected branch(condition, name)", user_location())
        names = [*(name for name, _ in self.branches), *default]
        node = arguments.with_on_error(
            SplitNode(self.stream.node, tuple(condition for _, condition in self.branches), at=self.at), self.on_error
        )
        return {name: replace(self.stream, node=BranchNode(node, name, number, at=self.at)) for number, name in enumerate(names)}
