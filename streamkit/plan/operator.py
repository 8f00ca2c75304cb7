"""
An operator of a compiled program, and what passes and engine ask of it.

An operator is a frozen record, so that a program is a JSON value. `streamkit.plan.operator_traits` says what its kind is. What depends on
its fields it answers for itself: how its inputs must be partitioned over the tasks, which columns it reads, which stores it keeps, how
`explain` shows it. Its record stands in a file of `streamkit.plan.operators`, its kernel in the file of the same name in
`streamkit.engine.operators`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from streamkit.names import OFFSET, PARTITION, TIMESTAMP
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.plan.on_error import NOTING
from streamkit.plan.operator_traits import OperatorTraits

if TYPE_CHECKING:
    from streamkit.plan.encoding import Encoded
    from streamkit.plan.origin import Origin
    from streamkit.plan.program import Program
    from streamkit.plan.steps import Step
    from streamkit.plan.store_definition import StoreDefinition
    from streamkit.plan.windows import Windowing
    from streamkit.schema import Schema

Names: TypeAlias = frozenset[str]
Key: TypeAlias = tuple[str, ...]
PORT = "#"  # between an operator's id and the name of one of its outputs; names of steps cannot hold it


@dataclass(frozen=True)
class Exchange:
    """
    How rows are partitioned over the tasks: by the hash of these columns; rows whose key is null are spread, or dropped.

    With `null_keys_by` they are not spread, but partitioned by the hash of these columns, so that those that are alike meet.
    """

    key: Key
    keep_null_keys: bool
    null_keys_by: Key = ()


@dataclass(frozen=True)
class FormerRows:
    """Where the former rows of a table are: in `store`, as far as they were valid within `history_ms` before stream time."""

    store: str
    history_ms: int


@dataclass(frozen=True)
class RowStep:
    """What becomes of a row of a table: it stays if the `condition` is true, and has the `columns` in place of its own; as it is without either."""

    condition: TypedExpression | None = None
    columns: tuple[tuple[str, TypedExpression], ...] | None = None


@dataclass(frozen=True)
class Operator:
    """
    Any operator: `id` is its stable name, `inputs` the ids of the operators whose rows it takes, with a port if it takes one.

    `stage` is where it runs, `traits` what all operators of its kind are. What depends on its fields it answers itself.
    """

    kind: ClassVar[str] = ""
    traits: ClassVar[OperatorTraits] = OperatorTraits()
    id: str
    stage: int
    inputs: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The ids of the operators whose rows it takes."""
        return tuple(source_of(name) for name in self.inputs)

    @property
    def stored_kind(self) -> str:
        """The kind under which programs have it, and by which its stores are compared with those of an earlier program."""
        return self.kind

    @property
    def leaves_out(self) -> str:
        """How a row that makes it fail is found, as `OperatorTraits.leaves_out`."""
        return self.traits.leaves_out

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores it keeps."""
        return ()

    @property
    def newest_rows(self) -> str | None:
        """The store that has the rows of the table which it gives: the newest one of each key. None if no store has them."""
        return None

    @property
    def row_step(self) -> RowStep | None:
        """What it does to each row of a table; None if it does anything else."""
        return None

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The start and the end of windows among the columns of its rows, if its store has them apart from the key's columns."""
        return ()

    @property
    def input_read(self) -> int | None:
        """The number of the input that it reads from the log, record by record."""
        return None

    @property
    def input_read_whole(self) -> int | None:
        """The number of the input that each epoch reads whole, as a global table, whose rows its own meet."""
        return None

    @property
    def steps_of_whole(self) -> tuple[Operator, ...]:
        """The steps between the topic that is read whole and the operator."""
        return ()

    @property
    def reads_order(self) -> bool:
        """Whether its rows need their order key; not if it takes each row alone, or combines rows whatever their order."""
        return True

    @property
    def output_written(self) -> int | None:
        """The number of the output that it appends to."""
        return None

    @property
    def bytes_made(self) -> Encoded | None:
        """How it makes the bytes of an opaque topic from columns; None if it makes none."""
        return None

    @property
    def longest_wait_ms(self) -> int:
        """How long after a row's time a result of it may come: so far stream time is taken past it at the end of a drain."""
        return 0

    @property
    def waits_ms(self) -> tuple[int, ...]:
        """How long results wait, of each kind that does, until stream time is so far past what they are of; see `waits_for_more`."""
        return ()

    @property
    def waits_for_more(self) -> bool:
        """Whether a result that waits takes in what comes meanwhile, so that which results come depends on how long they wait."""
        return False

    @property
    def waits_for_windows(self) -> bool:
        """Whether results wait for the close of windows, behind which no more can come to wait."""
        return False

    @property
    def holds_max(self) -> int | None:
        """How many rows of a key group may wait before the oldest come early; None if none comes early by that."""
        return None

    @property
    def stored_waits_ms(self) -> Mapping[str, int]:
        """The stores whose keys say which rows wait, and since when, with how long they do."""
        return {}

    @property
    def rows_per_record(self) -> int:
        """How many rows one row becomes inside the operator, at most."""
        return 1

    def definition_of(self, store: str) -> StoreDefinition | None:
        """How a user declared one of its stores, if one did."""
        return None

    def history_of(self, store: str) -> FormerRows | None:
        """Where the former rows of one of its stores are, if it keeps them."""
        return None

    def aggregates_in(self, store: str) -> tuple[TypedAggregate, ...]:
        """The aggregates whose states are the values of one of its stores; empty if that keeps rows as they are."""
        return ()

    def with_aggregates(self, aggregates: tuple[TypedAggregate, ...]) -> Operator:
        """The operator with these aggregates in place of its own."""
        return replace(self, aggregates=aggregates)  # type: ignore[call-arg]

    @property
    def windowing(self) -> Windowing | None:
        """The windows that its store keeps."""
        return None

    @property
    def declared_times(self) -> Mapping[str, str]:
        """The times that users said of its windows, as text, by what they are; nothing if it has none."""
        return {} if self.windowing is None else self.windowing.declared

    @property
    def keeps_ahead(self) -> bool:
        """Whether its stores may have something ahead of its stream time."""
        return self.windowing is not None and self.windowing.may_lead

    def keeping_ahead(self) -> Operator:
        """The operator with stores that may have something ahead of its stream time, since they had it before."""
        assert self.windowing is not None, f"{self.id} has no windows"
        return replace(self, window=replace(self.windowing, may_lead=True))  # type: ignore[call-arg]

    @property
    def expires_by(self) -> tuple[Windowing, ...]:
        """By which stream times its stores forget, by the one that comes last; mostly that of its own windows alone."""
        return () if self.windowing is None else (self.windowing,)

    @property
    def dated_stores(self) -> tuple[str, ...]:
        """
        Those of its stores that have deleted every change once their retention and the size of a window have passed since its event time.

        That is by the stream time of its own windows, as records have brought it on. A change that is a row says its own time, so it is
        never of a window that begins later; one that lists windows says a time that no window in it is ahead of.
        """
        return ()

    @property
    def closing(self) -> Windowing | None:
        """The windows whose final results it gives when stream time closes them."""
        return None

    @property
    def ticks_ms(self) -> tuple[int, ...]:
        """The intervals at which it must run even if no record comes, counted from its first epoch."""
        return ()

    @property
    def calls_by_schedule(self) -> bool:
        """Whether it calls functions of the user that no record is the cause of."""
        return False

    @property
    def follows_clock(self) -> bool:
        """Whether epochs may come by the clock, for its ticks or because its inputs are idle."""
        window = self.windowing
        return bool(self.ticks_ms) or (window is not None and window.close_after_idle_ms is not None)

    @property
    def folds(self) -> bool:
        """Whether its rows can be combined before they travel, by the step that `early_fold` gives."""
        return False

    def early_fold(self, step: Step, source: Step, state: Schema) -> Step:
        """The step that combines the rows of `source` into rows of state; `state` are the columns of its store."""
        raise NotImplementedError

    def exchange(self, place: int, rows: Step) -> Exchange | None:
        """How the rows of its input number `place` must be partitioned over the tasks; None if any way will do."""
        return None

    @property
    def passes_on(self) -> bool:
        """Whether its rows are those that it takes, but for names of columns and those that are left out."""
        return self.traits.moves_rows

    def partitioning(self, inputs: Sequence[Key | None]) -> Key | None:
        """The columns that its rows are partitioned by, given those of its inputs; None if unknown."""
        return inputs[0] if inputs else None

    def rekeys(self, before: Key, after: Key) -> bool:
        """Whether the operator changes the values of a stream's key."""
        return False

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        """The columns it reads from its input number `place`, given those that are read from its own rows."""
        return needed

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        """Its step without the columns that nobody reads; `rows` is the schema of its first input, already narrowed."""
        return step

    def origin(self, above: Sequence[Origin], name: str) -> Origin:
        """
        Where the rows come from that others take by this name, given the origins of its inputs; those of the first input unless it says more.

        What makes its rows others than these, or computes a column, must be in it: a start refuses to go on with a table whose origin differs.
        """
        return above[0]

    def definition(self, rows: Origin) -> dict[str, str]:
        """What else of it must stay for what its stores hold to be right, in words, by part; `rows` is the origin of its first input."""
        return {}

    def text(self) -> str:
        """What it does, in one line."""
        return self.kind.replace("_", " ")

    def faults(self, program: Program) -> Iterable[str]:
        """What is wrong with it in this program, each in a sentence; nothing if it is sound."""
        return ()


KINDS: dict[str, type[Operator]] = {}


def source_of(name: str) -> str:
    """The id of the operator whose rows an input takes."""
    return name.partition(PORT)[0]


def port_of(name: str) -> str:
    """The port that an input takes; empty for the operator's only one."""
    return name.partition(PORT)[2]


def referenced(expression: TypedExpression) -> set[str]:
    """The columns an expression reads; the event time is none of them, since every row has it, nor is the place of a record."""
    if expression.name == "column":
        return {str(expression.value)} - {TIMESTAMP, PARTITION, OFFSET}
    read = set().union(*(referenced(argument) for argument in expression.arguments))
    return read.difference(str(expression.value).split(",")) if expression.name == "lambda" else read


def gives_null_on_failure(value: object) -> bool:
    """Whether expressions in a value, such as an operator, have a part that is null where it fails."""
    if isinstance(value, TypedExpression) and value.name in NOTING:
        return True
    if isinstance(value, tuple):
        return any(map(gives_null_on_failure, value))
    if is_dataclass(value):
        return any(gives_null_on_failure(getattr(value, one.name)) for one in fields(value))
    return False


def names_places(value: object) -> bool:
    """Whether an expression, or one among the fields of a value, reads the partition or the offset of a record."""
    if isinstance(value, TypedExpression) and value.name == "column":
        return value.value in (PARTITION, OFFSET)
    if isinstance(value, tuple):
        return any(map(names_places, value))
    if is_dataclass(value):
        return any(names_places(getattr(value, one.name)) for one in fields(value))
    return False


def all_names(sets: Iterable[Iterable[str]]) -> Names:
    """The names in any of the sets."""
    return frozenset(name for names in sets for name in names)


def listed(names: Iterable[str]) -> str:
    """Names in a line."""
    return ", ".join(names) or "none"
