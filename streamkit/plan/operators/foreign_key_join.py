"""
Two tables by a foreign key: columns of the left table that are not its key name a row of the right one.

The left table tells each foreign key which of its rows name it (`Subscribe`); there the right table is looked up, and its
changes go to all rows that name them (`ForeignKeyJoin`). The results have the left table's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.joining import ColumnSources, common_key_types, joined_names, joined_schema, narrowed_join, sources_text
from streamkit.plan.keys import check_columns
from streamkit.plan.operator import Exchange, Key, Names, Operator, listed
from streamkit.plan.operator_traits import OperatorTraits
from streamkit.plan.operators.materialize import kept_table, materialized, store_faults
from streamkit.plan.operators.project import add_widened
from streamkit.plan.origin import Origin, joined_origin
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.stateless import deletes_nothing
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.traits import makers_joined
from streamkit.schema import Schema

if TYPE_CHECKING:
    from streamkit.plan.operators.table_table_join import TableTableJoin

FOREIGN_KEY_JOIN_KINDS = ("inner", "left")


@dataclass(frozen=True)
class Subscribe(Operator):
    """
    Tell the foreign keys which rows of a kept table name them: the new one of a row that changed, and the one it had before.

    `left_key` is the table's key; `on` are the columns of the foreign key, in the order of the right table's key.
    """

    kind: ClassVar[str] = "subscribe"
    traits: ClassVar[OperatorTraits] = OperatorTraits(waits_for_record=True, stage_min=1, looks_up=(0,))
    how: str  # inner or left
    left_key: Key
    on: Key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: those who are told keep the row."""
        return frozenset(rows.names)

    def text(self) -> str:
        return f"subscribe: {self.how}, to {listed(self.on)}"


@dataclass(frozen=True)
class ForeignKeyJoin(Operator):
    """
    Join rows with the row of a kept table that their foreign key `on` names; `store` has the rows that name each key.

    The first input are the rows of `Subscribe`, the second is the table. `columns` is what the result holds.
    With `skips` a deletion of what was not in the table is no change.
    """

    kind: ClassVar[str] = "foreign_key_join"
    traits: ClassVar[OperatorTraits] = OperatorTraits(
        waits_for_record=True, stage_min=1, follows_rows=True, passes_rows=True, looks_up=(1,)
    )
    how: str  # inner or left
    left_key: Key
    on: Key
    store: str
    columns: ColumnSources
    skips: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def exchange(self, place: int, rows: Step) -> Exchange | None:
        """By the foreign key; in a left join rows without one have a result too."""
        return Exchange(self.on, keep_null_keys=True) if place == 0 else None

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        """Unknown: a deletion has lost its foreign key."""
        return None

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """All columns: what the store holds must not depend on who reads it today."""
        return frozenset(rows.names)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return narrowed_join(step, self.columns, needed | frozenset(self.left_key))

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        return joined_origin(f"{self.how} join on {listed(map(above[0].of, self.on))} with", self.columns, above)

    def definition(self, rows: Origin) -> dict[str, str]:
        return {"the join": f"{self.how}, on {listed(map(rows.of, self.on))}"}

    def text(self) -> str:
        return f"foreign key join: {self.how}, on {listed(self.on)}, store {self.store}, gives {sources_text(self.columns)}"

    def faults(self, program: Program) -> list[str]:
        return store_faults(self, program)


def joined_by_foreign_key(join: TableTableJoin, left: Step, right: Step, building: Building) -> Step:
    """
    The step that gives every change of the joined table, of the changes of both tables; it stands by the foreign key.

    As in Kafka Streams, the join needs to know the old values of both tables, and so do all joins below.
    """
    on = _foreign_key(join, left, right)
    types = common_key_types(join, left.schema, on, right.schema, right.key, ("left table", "right table"))
    kept_left = _kept_left(join, left, dict(zip(on, types, strict=True)), building)
    kept_right = kept_table(join.right, right, types, building)
    name, rows = building.name(join), kept_left.schema
    subscribe = Subscribe(f"{name}:subscribe", UNSTAGED, (kept_left.id,), join.how, left.key, on)
    told = building.add(Step(subscribe, rows, left.key, left.key, False, join.at))
    store = _subscriptions(f"{building.store_name(join)}-subscriptions", rows, (*on, *_others(left.key, on)))
    building.add_store(store, building.naming(join))
    columns = joined_names(join, rows, kept_right.schema, right.key, "right table")
    inputs, skips = (told.id, kept_right.id), deletes_nothing(join.right, building)
    operator = ForeignKeyJoin(name, UNSTAGED, inputs, join.how, left.key, on, store.name, columns, skips)
    building.old_values_of.update(makers_joined((join.left, join.right)))
    optional = ("right",) if join.how == "left" else ()
    schema = joined_schema(columns, rows, kept_right.schema, optional, join.at, left.key)
    return building.add(Step(operator, schema, left.key, left.key, True, join.at))


def _foreign_key(join: TableTableJoin, left: Step, right: Step) -> Key:
    """The left table's columns that name the right table's key, in its order; TopologyError unless they name it whole."""
    if join.how not in FOREIGN_KEY_JOIN_KINDS:
        raise TopologyError(
            f"tables cannot be joined by a foreign key how={join.how!r}; expected inner or left: a row of the right table that no row "
            f"of the left one names has no key in the result, whose key is {list(left.key)}",
            join.at,
        )
    pairs = join.on or ()
    if len(pairs) != len(right.key) or {name for _, name in pairs} != set(right.key):
        raise TopologyError(
            f"a foreign key names the whole key of the right table, here {list(right.key)}; found on={dict(pairs)}; "
            "expected on= {column of this table: key column of the other}, each key column once",
            join.at,
        )
    check_columns((name for name, _ in pairs), left.schema, join.at, " in the left table")
    named_by = {name: column for column, name in pairs}
    return tuple(named_by[name] for name in right.key)


def _kept_left(join: TableTableJoin, rows: Step, types: dict[str, str], building: Building) -> Step:
    """The step that keeps the left table: in its own store, or in another if its foreign key is narrower than the right key."""
    variant = f"-for-{building.name(join)}"
    cast = add_widened(rows, types, f"{building.name(join.left)}:widen{variant}", building)
    return materialized(join.left, cast, building, join.left.kept_variant + ("" if cast is rows else variant))


def _subscriptions(name: str, rows: Schema, key: Key) -> ProgramStore:
    """The store of the rows that name each foreign key; its keys begin with that, so the rows of one lie side by side."""
    return ProgramStore(name, 0, UNSTAGED, rows.select(key), rows.select(_others(rows.names, key)))


def _others(names: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in without)
