"""
A step of a topology as a value, before anything is known about topics and types.

Every node is frozen, holds its inputs as fields, and compares by structure; the line of the user's code that made it
(`at`) takes no part in that. What can be checked without a schema is checked on construction, so later passes need no guards.
Steps that take several inputs may share what lies below, so what is asked of a whole tree is computed once for each node.
What passes ask of a node, the node answers itself; each kind of node stands in a file of `streamkit.plan.operators`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from streamkit.errors import Location, TopologyError
from streamkit.names import check_name
from streamkit.plan.expression_size import TOO_DEEP
from streamkit.plan.on_error import OnError
from streamkit.plan.python_function import PythonFunction

if TYPE_CHECKING:
    from streamkit.plan.building import Building
    from streamkit.plan.steps import Step
    from streamkit.plan.windows import Settling, Window

STREAM = "stream"
TABLE = "table"
GLOBAL_TABLE = "global_table"
WITH_OLD_VALUES = "old_and_new"  # the emission that gives every change as two rows: the one it replaces, then the new one
NAME_PART_MAX = 100  # leaves room for the application's name and "-changelog" in Kafka's 249
ROUNDED, BOX, CYLINDER = "rounded", "box", "cylinder"
LATER = {"later": True}  # marks a field that a node got later: while it has its default, the node's text leaves it out
_DECLARATIONS = itertools.count()
NEWER = {"later": True, "newer": True}  # as LATER, and the node's digest leaves it out, too


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """
    Any step; `name` overrides the generated one. `on_error` says what becomes of records that make it fail, None for what the topology says.

    `shape` says how a flowchart draws the step. `changes_once` says that each key of a table has one change, `newest_are_last` that the
    newest rows of an epoch are the last of each key among the changes that its step gives.
    `kept_variant` ends the name of the store in which a join keeps the table, if the step has another store of its own. `declaration` grows
    from one node to the next that is made: what one record causes is processed in that order (see `streamkit.plan.turns`).
    `lowers_children` says that its step is made of the steps of its children, in their order, and of nothing else below.
    """

    kind: ClassVar[str] = ""
    shape: ClassVar[str] = BOX
    is_sink: ClassVar[bool] = False
    changes_once: ClassVar[bool] = False
    newest_are_last: ClassVar[bool] = False
    kept_variant: ClassVar[str] = ""
    lowers_children: ClassVar[bool] = False
    name: str | None = field(default=None, kw_only=True)
    at: Location | None = field(default=None, kw_only=True, compare=False, repr=False)
    on_error: OnError | None = field(default=None, kw_only=True, repr=False, metadata=NEWER)
    declaration: int = field(default_factory=_DECLARATIONS.__next__, kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "step", self.at)

    @property
    def relation(self) -> str:
        """What the step gives: stream, table or global_table."""
        raise NotImplementedError

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes whose rows the step takes, in the order of its fields."""
        return tuple(node for one in dataclasses.fields(self) for node in _nodes_in(getattr(self, one.name)))

    @property
    def subject(self) -> str:
        """What the step is about: a topic, topics joined, or a grouping of them."""
        raise NotImplementedError

    @property
    def generated_name(self) -> str:
        """What the step is called unless it has a name of its own: what it does to what."""
        return shortened(f"{self.kind}-{self.subject}")

    @property
    def naming_words(self) -> str:
        """What a user writes to name the store behind the step, with {!r} for the name."""
        return "store={!r}" if hasattr(self, "store") else "name={!r}"

    @property
    def given_store(self) -> str | None:
        """The name that the user gave the store behind the step."""
        return getattr(self, "store", None) or self.name

    @property
    def generated_store(self) -> str:
        """What the store behind the step is called unless the user named it."""
        return self.subject

    @property
    def origin(self) -> Node:
        """The node below a table's stateless steps that makes its rows: a source, an aggregate, or a join of tables."""
        return self

    @property
    def may_delete(self) -> bool:
        """Whether the step makes deletions of a table's rows."""
        return False

    @property
    def knows_old_values(self) -> bool:
        """Whether the origin of a table keeps its rows anyway, and so knows which row each change replaces."""
        return False

    def has_row_times(self, building: Building) -> bool:
        """Whether a change of the table may bring a row of another time than its own: that of what a join has left without a partner."""
        return False

    @property
    def gives_times(self) -> bool:
        """Whether the step gives rows times of its own, as far as the user's code shows."""
        return False

    @property
    def history_kept_ms(self) -> int | None:
        """How long a table that keeps history knows which rows it had before; None if it keeps none."""
        return None

    @property
    def key_window(self) -> Window | None:
        """The windows that the keys of a table have; None if they have none, or it is not known which."""
        return None

    @property
    def reads_windows(self) -> bool:
        """Whether windows in the keys of a table come from a topic: each then has the bounds that its row says, whatever their length."""
        return False

    @property
    def joined_tables(self) -> tuple[Node, ...]:
        """The tables whose rows the step joins with each other, each kept for the changes of the others."""
        return ()

    @property
    def windows_looked_up(self) -> tuple[Node, ...]:
        """The tables with windows in which a stream looks rows up; `settlings` say until when it does."""
        return ()

    @property
    def has_old_values(self) -> bool:
        """Whether the rows are changes that come with the values they replace, deletions too."""
        return False

    @property
    def emitted_mode(self) -> str | None:
        """Which emission of a table the step picks; None if it picks none."""
        return None

    @property
    def port_taken(self) -> str | None:
        """The name of the output of the step below that the step takes; None for the main one."""
        return None

    @property
    def tables(self) -> tuple[Node, ...]:
        """The tables whose every change the step must see in its own stage."""
        return ()

    @property
    def asked(self) -> tuple[tuple[Node, str], ...]:
        """The tables below whose changes it takes, each with the emission that it asks of it."""
        return tuple((table, "every") for table in self.tables)

    @property
    def compared(self) -> tuple[Node, ...]:
        """The tables below of which it needs to know what each change replaces."""
        return tuple(table for table, mode in self.asked if mode == WITH_OLD_VALUES)

    @property
    def takes_null_keys(self) -> bool:
        """Whether records whose key is null give results, as in left and outer joins; a repartition before it keeps them."""
        return False

    @cached_property
    def partitions_wanted(self) -> int | None:
        """How many partitions a new topic of the step's rows has unless its declaration says; None for as many as the widest input."""
        return max((wanted for child in self.children if (wanted := child.partitions_wanted) is not None), default=None)

    @cached_property
    def feeding(self) -> frozenset[Node]:
        """The sources that move the step's stream time: their records are or cause its rows. Tables that are looked up do not."""
        return frozenset().union(*(child.feeding for child in self.children))

    @cached_property
    def may_lead(self) -> bool:
        """Whether rows of the step may be newer than stream time: a processor says so, or its input bounds jumps of stream time."""
        return any(child.may_lead for child in self.children)

    def text(self) -> str:
        """What the step does, in one line."""
        return self.kind.replace("_", " ")

    def label(self) -> tuple[str, ...]:
        """What the step does, as the lines of a picture; the store is shown apart."""
        return (self.text(),)

    @property
    def keeps_store(self) -> bool:
        """Whether the step keeps a store, whoever looks it up."""
        return False

    def short_text(self) -> str:
        """What the step is, in two or three words, as another step speaks of it."""
        return self.kind.replace("_", " ")

    def lower(self, building: Building) -> Step:
        """Add the typed steps that give the node's rows, and return the last; TopologyError if the node cannot be compiled."""
        raise TopologyError(f"{type(self).__name__} ({self.kind}) is not supported yet", self.at)

    def changes(self, building: Building) -> Step:
        """The step that gives every change of the table, for a join to keep; TopologyError if the node is not a table."""
        raise TopologyError(f"{type(self).__name__} ({self.kind}) gives no table to join with", self.at)

    def tells_old_values(self, building: Building) -> bool:
        """As `knows_old_values`, of what only the keys of its tables can tell."""
        return self.knows_old_values

    def know_what_is_replaced(self, building: Building) -> None:
        """Change the table's step: a foreign-key join, found while steps were made, needs to know what each change of it replaces."""

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """When no change of a window of the table can come any more; empty if that is not known."""
        return ()

    def old_and_new(self, building: Building) -> Step | None:
        """The step that gives each change of a table's origin as two rows, the one it replaces and the new one; None if it has none."""
        return None

    def delay_ms(self, window: Window) -> int:
        """How much longer than its grace `window` must wait for the step's rows, which may stand behind stream time."""
        waiting: list[Node] = [self]
        while window not in self._delays:  # from the bottom up, so that no chain is too long for the stack
            node = waiting[-1]
            unknown = [one for one in node.children if type(one).delay_ms is Node.delay_ms and window not in one._delays]
            if unknown:
                waiting += unknown
                continue
            node._delays[window] = max((child.delay_ms(window) for child in node.children), default=0)
            waiting.pop()
        return self._delays[window]

    def final_delay_ms(self, window: Window | None) -> int | None:
        """How far a table's final results stand behind stream time, for a `window` over them; None if it has none."""
        return None

    @cached_property
    def depends_on_cut(self) -> bool:
        """Whether which rows the step gives depends on how the input is cut into epochs."""
        return any(child.depends_on_cut for child in self.children)

    @cached_property
    def tree_size(self) -> int:
        """How many nodes the tree below has, one that is used twice counted twice."""
        return 1 + sum(child.tree_size for child in self.children)

    @cached_property
    def _delays(self) -> dict[Window, int]:
        """What `delay_ms` has found."""
        return {}

    @cached_property
    def _digest(self) -> bytes:
        """A digest of the structure, made once: a tree that shares nodes is not walked again for each use of them."""
        digest = hashlib.sha256(type(self).__name__.encode())
        for one in dataclasses.fields(self):
            if one.compare and not self._is_undigested(one):  # digests, and so names of stores, stay
                try:
                    digest.update(_digest_of(getattr(self, one.name)))
                except RecursionError:
                    raise TopologyError(TOO_DEEP, self.at) from None
        return digest.digest()

    def know_tree(self) -> None:
        """Find what depends on the whole tree below, which the nodes below have found: so no call goes down the tree, however deep."""
        assert self._knows_tree

    @cached_property
    def _knows_tree(self) -> bool:
        """That all of it is found: each walk asks, and most of it is no cached property."""
        for name in (
            "_digest",
            "_identity",
            "depends_on_cut",
            "join_depth",
            "feeding",
            "may_lead",
            "partitions_wanted",
            *_PASSED_ON,
        ):
            getattr(self, name, None)
        if self.tree_size <= WRITTEN_OUT_MAX:
            repr(self)
        return True

    def __repr__(self) -> str:
        return self._written

    @cached_property
    def _written(self) -> str:
        """The fields by name. Names of stores depend on it (see `structure_hash`), so what it writes must stay as it is."""
        fields = [one for one in dataclasses.fields(self) if one.repr and not self._is_left_out(one)]
        written = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields)
        return f"{type(self).__name__.removesuffix('Node')}({written})"

    def _is_left_out(self, one: dataclasses.Field[Any]) -> bool:
        return bool(one.metadata.get("later")) and getattr(self, one.name) == one.default

    def _is_undigested(self, one: dataclasses.Field[Any]) -> bool:
        return bool(one.metadata.get("newer")) and getattr(self, one.name) == one.default

    @cached_property
    def _identity(self) -> bytes:
        """A digest that also tells apart functions of one text with other objects; in this process alone, so no name depends on it."""
        try:
            own = [function.known_as for one in dataclasses.fields(self) for function in _functions_in(getattr(self, one.name))]
        except RecursionError:
            raise TopologyError(TOO_DEEP, self.at) from None
        return hashlib.sha256(
            b"".join([self._digest, repr(own).encode(), *(child._identity for child in self.children)])
        ).digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def structure_hash(node: Node) -> str:
    """
    Eight hexadecimal digits that depend on the structure below a node and on nothing else.

    Names of stores contain them, so they must not change. They hash the node's text, or its digest if the tree is too large
    to write out.
    """
    content = repr(node).encode() if node.tree_size <= WRITTEN_OUT_MAX else node._digest
    return hashlib.sha256(content).hexdigest()[:8]


def structure_digest(node: Node) -> str:
    """As `structure_hash`, in 32 digits and at once for any tree; the catalog keeps it, so it must not change either."""
    return node._digest.hex()[:32]


WRITTEN_OUT_MAX = 500
_PASSED_ON = (
    "relation",
    "subject",
    "has_old_values",
    "origin",
    "history_kept_ms",
    "key_window",
    "reads_windows",
)  # by stateless steps


def check_distinct(names: Iterable[str], what: str, at: Location | None) -> None:
    """TopologyError if a name occurs twice; names differ by more than case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise TopologyError(f"the {what} {name!r} occurs twice; expected distinct names", at)
        seen.add(name.lower())


def words(relation: str) -> str:
    """A relation as people write it."""
    return relation.replace("_", " ")


def shortened(name: str) -> str:
    """A generated name, cut to the length that names of topics leave room for."""
    return name if len(name) <= NAME_PART_MAX else name[:NAME_PART_MAX].rstrip("-")


def _nodes_in(value: Any) -> tuple[Node, ...]:
    if isinstance(value, Node):
        return (value,)
    return tuple(item for item in value if isinstance(item, Node)) if isinstance(value, tuple) else ()


def _functions_in(value: Any) -> Iterator[PythonFunction]:
    """The functions in a field of a node, such as those of an expression; not those of the nodes below."""
    if isinstance(value, PythonFunction):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _functions_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, (Node, type)):
        for one in dataclasses.fields(value):
            yield from _functions_in(getattr(value, one.name))


def _digest_of(value: Any) -> bytes:
    if isinstance(value, Node):
        return value._digest
    if isinstance(value, tuple) and any(isinstance(item, Node) for item in value):
        return hashlib.sha256(b"".join(map(_digest_of, value))).digest()
    return hashlib.sha256(repr(value).encode()).digest()
