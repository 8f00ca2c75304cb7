"""
A step of a topology as a value, before anything is known about topics and types.

Every node is frozen, holds its inputs as fields, and compares by structure; the line of the user's code that made it
(`at`) takes no part in that. What can be checked without a schema is checked on construction, so later passes need no guards.
Steps that take several inputs may share what lies below, so what is asked of a whole tree is computed once for each node.
A node says what it is (`streamkit.plan.traits`), what it demands of those below (`streamkit.plan.demands`), what it is called, and how it is
lowered; each kind of node stands in a file of `streamkit.plan.operators`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from streamkit.errors import Location, TopologyError
from streamkit.names import check_name
from streamkit.plan.demands import Demands
from streamkit.plan.expression_size import TOO_DEEP
from streamkit.plan.on_error import OnError
from streamkit.plan.python_function import PythonFunction
from streamkit.plan.traits import Traits, traits_of_stream

if TYPE_CHECKING:
    from streamkit.plan.building import Building
    from streamkit.plan.steps import Step
    from streamkit.plan.windows import Settling

NAME_PART_MAX = 100  # leaves room for the application's name and "-changelog" in Kafka's 249
ROUNDED, BOX, CYLINDER = "rounded", "box", "cylinder"
LATER = {"later": True}  # marks a field that a node got later: while it has its default, the node's text leaves it out
_DECLARATIONS = itertools.count()
NEWER = {"later": True, "newer": True}  # as LATER, and the node's digest leaves it out, too


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """
    Any step; `name` overrides the generated one. `on_error` says what becomes of records that make it fail, None for what the topology says.

    `shape` says how a flowchart draws the step. `kept_variant` ends the name of the store in which a join keeps the table, if the step has
    another store of its own. `declaration` grows from one node to the next that is made: what one record causes is processed in that order
    (see `streamkit.plan.turns`).
    `lowers_children` says that its step is made of the steps of its children, in their order, and of nothing else below.
    """

    kind: ClassVar[str] = ""
    shape: ClassVar[str] = BOX
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
        return self.traits.relation

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes whose rows the step takes, in the order of its fields."""
        return tuple(node for one in dataclasses.fields(self) for node in _nodes_in(getattr(self, one.name)))

    @cached_property
    def traits(self) -> Traits:
        """What the step is; found from the bottom up, so that no tree is too deep for Python's stack."""
        waiting: list[Node] = [self]
        while "traits" not in self.__dict__:
            node = waiting[-1]
            unknown = [child for child in node.children if "traits" not in child.__dict__]
            waiting += unknown
            if not unknown:
                node.__dict__["traits"] = node.traits_over([child.traits for child in node.children])
                waiting.pop()
        return self.__dict__["traits"]  # type: ignore[no-any-return]

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """What the step is, over children that are so; a stream of what comes of their records unless its kind says more."""
        return traits_of_stream(below, self)

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """What the step demands of its children, each with its demands, given what is demanded of the step."""
        return [(child, Demands(null_keys=above.null_keys)) for child in self.children]

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

    def text(self) -> str:
        """What the step does, in one line."""
        return self.kind.replace("_", " ")

    def label(self) -> tuple[str, ...]:
        """What the step does, as the lines of a picture; the store is shown apart."""
        return (self.text(),)

    def short_text(self) -> str:
        """What the step is, in two or three words, as another step speaks of it."""
        return self.kind.replace("_", " ")

    def lower(self, building: Building) -> Step:
        """Add the typed steps that give the node's rows, and return the last; TopologyError if the node cannot be compiled."""
        raise TopologyError(f"{type(self).__name__} ({self.kind}) is not supported yet", self.at)

    def changes(self, building: Building) -> Step:
        """The step that gives every change of the table, for a join to keep; TopologyError if the node is not a table."""
        raise TopologyError(f"{type(self).__name__} ({self.kind}) gives no table to join with", self.at)

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """When no change of a window of the table can come any more; empty if that is not known."""
        return ()

    def with_old_values(self, building: Building) -> Step | None:
        """The step that gives each change of a table's maker as two rows, its old value and the new one; None if it has none."""
        return None

    def after_empty_groups(self, pairs: Step, building: Building) -> Step:
        """These changes with their old values, as if each new row of the table replaced one of no rows, if it is the result of a group."""
        return pairs

    def keys_tell_old_values(self, building: Building) -> bool:
        """Whether old values of a table's changes are known although its traits do not say so: of a join only the keys of its tables can tell."""
        return False

    @cached_property
    def tree_size(self) -> int:
        """How many nodes the tree below has, one that is used twice counted twice."""
        return 1 + sum(child.tree_size for child in self.children)

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
        for name in ("_digest", "_identity", "subject", "traits"):
            getattr(self, name)
        if self.tree_size <= WRITTEN_OUT_MAX:
            repr(self)
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what else is known of a node, and names the node again, is found again by a copy."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}

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


def next_declaration() -> int:
    """When something is declared, as nodes count it."""
    return next(_DECLARATIONS)


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


def check_distinct(names: Iterable[str], what: str, at: Location | None) -> None:
    """TopologyError if a name occurs twice; names differ by more than case, unless they are written in ksqlDB's SQL."""
    keeps_case = at is not None and at.keeps_case
    seen: set[str] = set()
    for name in names:
        known = name if keeps_case else name.lower()
        if known in seen:
            raise TopologyError(f"the {what} {name!r} occurs twice; expected distinct names", at)
        seen.add(known)


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
