"""What gives rows for the elements of an array or map, wherever that is computed."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text
from streamkit.plan.operator import listed


@dataclass(frozen=True)
class Explosion:
    """
    A row for each element of an array, or each entry of a map, with the element in `columns`.

    Rows without elements go, unless `outer`. `position` adds the index of the element in front. `drops` are columns that nothing reads of these
    rows.
    """

    expression: TypedExpression
    columns: tuple[str, ...]
    outer: bool = False
    position: bool = False
    drops: tuple[str, ...] = ()

    def text(self) -> str:
        """The words of plans."""
        function = f"{'pos' if self.position else ''}explode{'_outer' if self.outer else ''}"
        return f"{function}: {listed(self.columns)} of {shown_text(self.expression)}"
