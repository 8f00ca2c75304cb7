"""The changes of a table as a stream: one of the outputs that the table's operator hands out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.demands import EMIT_MODES, WITH_OLD_VALUES, Demands, emission
from streamkit.plan.node import NEWER, Node
from streamkit.plan.on_error import FAIL
from streamkit.plan.operator import PORT, Names, Operator, RowStep, port_of
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.changes_by_key import by_key
from streamkit.plan.operators.net_change import net_changes
from streamkit.plan.operators.old_values import with_old_values
from streamkit.plan.stateless import StatelessStep, knows_what_is_dropped, mode_of_changes, steps_above_maker
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import Traits
from streamkit.schema import Schema


def windows_missing(table: Node) -> str:
    """What was found instead of an aggregation with windows, and what to do."""
    maker = table.traits.maker
    line = f" at {maker.at}" if maker.at else ""
    if maker.traits.window is None:
        return (
            f"found {maker.text()!r}{line}, which has none; expected windowed_by(…) between group_by() and the aggregation, or "
            "app.table(topic, windowed=…) of a topic whose keys have windows"
        )
    return (
        f"found {maker.text()!r}{line}, a step behind the windows ({maker.traits.window}); expected the aggregation itself, with only "
        "filters and projections of its rows behind it"
    )


@dataclass(frozen=True, eq=False, repr=False)
class EmitNode(Node):
    """
    The changes of a table as a stream: `latest`, `every` or `final`.

    `tested` is the mode that test drivers take in the place of `latest`, if there is one: ksqlDB's queries are tested without caches, which
    keep back all but the newest row of a key. `filters_groups` says that the table is a result of groups behind a condition on them, as
    HAVING is: there ksqlDB compares a new group with one of no rows.
    """

    kind: ClassVar[str] = "emit"
    child: Node
    mode: str
    tested: str = field(default="", metadata=NEWER, kw_only=True)
    filters_groups: bool = field(default=False, metadata=NEWER, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in EMIT_MODES:
            raise TopologyError(f"there is no emission {self.mode!r}; expected one of {', '.join(EMIT_MODES)}", self.at)
        if self.mode == "final" and self.child.traits.final_delay is None:
            raise TopologyError(
                f"emit('final') needs windows, whose last results are known: {windows_missing(self.child)}; or expected emit('latest') or "
                "emit('every')",
                self.at,
            )

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    @property
    def generated_name(self) -> str:
        return f"emit-{self.mode}-{self.child.subject}"

    @property
    def _nets(self) -> bool:
        """
        Whether old values are asked for behind a filter, so that it deletes nothing that was not there, as in ksqlDB.

        Joins know them by themselves, but for those by a foreign key, where ksqlDB deletes what was not there.
        """
        table = self.child.traits
        return self.mode == "every" and bool(self.tested) and table.history_ms is None and not table.maker.traits.joined_tables

    @property
    def keeps_newest(self) -> bool:
        """Whether a topic of these rows is compacted."""
        return self.mode == "latest" or bool(self.tested)

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """
        Final results stand behind stream time by what their windows waited; other results do not.

        Which rows are the newest of an epoch depends on its cut, unless each key has one.
        """
        (table,) = below
        delay = table.final_delay if self.mode == "final" else table.delay
        assert delay is not None, "checked on construction"
        is_newest = self.mode == "latest"
        return replace(
            super().traits_over(below),
            delay=delay,
            depends_on_cut=table.depends_on_cut or (is_newest and not table.changes_once),
            gives_newest=table.gives_newest or is_newest,
        )

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """Every change behind a filter is demanded with its old value, if the table knows it; newest rows would be unfolded by that."""
        yield from super().demands_below(above)
        mode = WITH_OLD_VALUES if self._nets and self.child.traits.is_filtered else mode_of_changes(self.child)
        yield self.child, emission(mode if self.mode == "every" else self.mode)

    def text(self) -> str:
        return f"emit {self.mode}"

    def lower(self, building: Building) -> Step:
        """
        The port of the table's operator, then the stateless steps above the table.

        A filter gives a deletion for every row that it does not keep. Where the old values of its table are known it gives none for a key
        that had no row before, as in Kafka Streams, unless the table has history. Newest rows may be deletions of what was not there,
        whatever else is asked for.
        """
        maker, steps = self.child.traits.maker, steps_above_maker(self.child)
        fails = all(building.policy_of(above) == FAIL for above in steps)
        nets = (self._nets and self.child.traits.is_filtered and fails) or knows_what_is_dropped(self.child, building)
        if self.mode == "every" and nets:
            pairs = with_old_values(self.child, building, after_empty_groups=self._nets and self.filters_groups)
            return net_changes(pairs, building.name(self), self.mode, True, (), self.at, building)
        kept = building.lower(maker)
        if self.mode == "latest" and maker.traits.newest_are_last and not fails:
            return self._newest_that_do_not_fail(kept, steps, building)
        emitted = f"{building.name(maker)}:emit-{self.mode}" if steps else building.name(self)
        step = replace(port_step(kept, self.mode, emitted, building), at=self.at)
        for above in steps:
            if self.mode != "every":
                building.check_fails(
                    above, f"whose results are taken by emit({self.mode!r}), which has no row to give in place of one that fails"
                )
            of_table = above if self.mode == "every" else None
            step = building.add(above.step(step, f"{building.name(above)}:{self.mode}", building.analyzer), of_table)
        return step

    def _newest_that_do_not_fail(self, kept: Step, steps: Sequence[StatelessStep], building: Building) -> Step:
        """The newest row of each key among those that the steps give of every change: of a key whose newest fails, the one before."""
        step = kept
        for above in steps:
            step = building.add(above.step(step, f"{building.name(above)}:newest", building.analyzer), of_table=above)
        changes = by_key(step, f"{building.name(self)}:by-key", building)
        return replace(port_step(changes, "latest", building.name(self), building), at=self.at)


@dataclass(frozen=True, eq=False, repr=False)
class EmitOldNode(EmitNode):
    """The changes of a table as a stream, each with its old values."""

    kind: ClassVar[str] = "emit_old"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "final":
            raise TopologyError(
                "emit('final', old=True): a final result replaces nothing; expected emit('final'), or emit('every', old=True)",
                self.at,
            )

    @property
    def generated_name(self) -> str:
        return f"emit-{self.mode}-old-{self.child.subject}"

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        rows = super().traits_over(below)
        return replace(rows, has_old_values=True, depends_on_cut=rows.depends_on_cut or self.mode == "latest")

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        yield self.child, emission(WITH_OLD_VALUES, null_keys=above.null_keys)

    def text(self) -> str:
        return f"emit {self.mode}, with old values"

    def lower(self, building: Building) -> Step:
        """As in Kafka Streams, changes of a table with history that replace no row come too, filtered ones as deletions."""
        rows = with_old_values(self.child, building, with_former=self.mode == "every")
        skips = self.child.traits.is_filtered and self.child.traits.history_ms is None
        values = tuple(name for name in rows.schema.names if name not in rows.key)
        return net_changes(rows, building.name(self), self.mode, skips, values, self.at, building)


@dataclass(frozen=True)
class Emit(Operator):
    """One output of an operator that has several, such as the newest result per key and epoch, every one, or the final ones."""

    kind: ClassVar[str] = "emit"
    traits: ClassVar[OperatorTraits] = OperatorTraits(is_view=True)

    @property
    def row_step(self) -> RowStep:
        return RowStep()

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def text(self) -> str:
        return f"emit: {port_of(self.inputs[0])}"


def port_step(table: Step, port: str, step_id: str, building: Building) -> Step:
    """The step that takes one port of a table's operator; final results delete nothing."""
    operator = Emit(step_id, UNSTAGED, (f"{table.id}{PORT}{port}",))
    return building.add(replace(table, operator=operator, table=port != "final"))
