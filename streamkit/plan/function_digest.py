"""
Digests of functions of users: by them a start tells whether a function does what it did.

A walk tells all that a function may reach, and three rules say how:

- By its name alone: functions, classes and modules of libraries, which may change with their version, and what the process holds (`os.environ`).
- By value: numbers, texts, times, tuples, arrays, methods with their objects, and values of libraries. Two equal ones are one.
- By a walk: the user's own functions, classes and objects, and what can be changed, such as lists and dicts. Each has a number, that of its
  first visit, by which it is told again: so the same object twice is told from two that are equal.

A function is its code, its defaults, its attributes, the values that it captured and the globals that it uses; a class its members and its
bases; an object its class, what it is made of (`plan/object_content.py`) and its attributes. Of what says nothing, such as a lock,
a connection or a logger, the class is told. Names of the user's own modules do not count: they depend on how the program is started.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType, MethodType
from typing import Any

from streamkit.errors import TopologyError
from streamkit.plan.code_steps import CodeSteps, code_steps
from streamkit.plan.inspection import attribute
from streamkit.plan.object_content import (
    MUTABLE,
    Unordered,
    attributes_of,
    content_of,
    member_parts,
    members_of,
    text_of,
    type_name,
)
from streamkit.plan.own_code import (
    is_elsewhere,
    is_importable,
    is_own_class,
    library_name,
    names_of_the_process,
    own_module_name,
    owner_of,
)

__all__ = ["digest_of", "type_name"]
_OF_A_FILE = (
    "__name__",
    "__package__",
    "__file__",
    "__path__",
    "__cached__",
    "__spec__",
    "__loader__",
    "__builtins__",
    "__doc__",
    "__annotations__",  # which the body of a class names, and `__main__` has without any
    "__annotate__",
    "__conditional_annotations__",
)
_SETS: tuple[type[Any], ...] = (set, frozenset)
_Walk = Iterator[Any]  # of texts, and of walks whose texts stand there


def digest_of(call: Callable[..., Any]) -> str:
    """
    A digest of what a function does: its code, its defaults and the values it captured, but not where it stands.

    It holds within one version of Python, since it is made of the code that Python compiled.
    """
    digest = hashlib.sha256()
    for part in _parts_of(call):
        digest.update(f"{len(part)} {part}\n".encode(errors="backslashreplace"))
    return digest.hexdigest()


def _parts_of(call: Callable[..., Any]) -> Iterator[str]:
    """Texts that tell a function apart from others, the same in every process."""
    try:
        yield from _FunctionTexts().texts(call)
    except RecursionError:
        name = attribute(call, "__name__", type_name(call))
        message = (
            f"the function {name!r} captures sets within sets that go deeper than Python can follow; keep them in lists or tuples"
        )
        raise TopologyError(message) from None


class _FunctionTexts:
    """
    The texts of one function.

    `told` has the numbers of the objects that have been told, by their addresses, and keeps them, so that no other gets their address.
    `outer`: what has been told around the item of a set.
    """

    def __init__(self, outer: _FunctionTexts | None = None) -> None:
        self.outer = outer
        self.told: dict[int, tuple[int, Any]] = {}
        self.next_number: int = outer.next_number if outer else 0
        self.within: set[int] = set(outer.within) if outer else set()  # values that are being told, by their addresses
        self.process: dict[int, str] = outer.process if outer else names_of_the_process()

    def texts(self, value: Any) -> Iterator[str]:
        """The texts of a value, however deep it goes: walks are kept in a list, not on Python's stack."""
        walks = [self._tell(value)]
        while walks:
            part = next(walks[-1], None)
            if part is None:
                walks.pop()
            elif isinstance(part, str):
                yield part
            else:
                walks.append(part)

    def _tell(self, value: Any) -> _Walk:
        """The texts of a value, by the rule for its kind."""
        if (number := self._number_of(value)) is not None:
            yield f"again {number}"
        elif (name := self.process.get(id(value)) or library_name(value)) is not None:
            yield name
            if type(value) is FunctionType:
                uses_its_module = value.__module__ == value.__globals__.get("__name__")
                if not (uses_its_module and is_importable(value)):
                    yield self._numbered(value, self._made_by_library(value))
        elif isinstance(value, CodeType):
            yield self._code(code_steps(value))
        elif type(value) is MethodType:
            yield self._by_value(value, "method", (value.__func__, value.__self__))
        elif (owner := owner_of(value)) is not None:
            yield self._by_value(value, value.__name__, (owner,))  # what it does to its object is its own
        elif (text := text_of(value)) is not None:
            yield text
        elif type(value) in (frozenset, Unordered):
            yield self._in_any_order(value)
        elif isinstance(value, type):
            yield self._numbered(value, self._class(value))
        elif type(value) is FunctionType:
            yield self._numbered(value, self._function(value))
        elif isinstance(value, Enum):
            yield self._numbered(value, self._member(value))
        else:
            yield self._object(value)

    def _object(self, value: Any) -> _Walk:
        """A value of a library, or an object: its class, what it is made of, and its attributes."""
        kind = type(value)
        is_own = is_own_class(kind)
        content = None if issubclass(kind, _SETS) else content_of(value)
        if not is_own and content is not None and kind not in MUTABLE:
            name, parts = content
            yield self._by_value(value, name, parts)
        else:
            yield self._numbered(value, self._parts_of_object(value, is_own, content))

    def _parts_of_object(self, value: Any, is_own: bool, content: tuple[str, Any] | None) -> _Walk:
        base = next((one for one in _SETS if issubclass(type(value), one)), None)
        if base is not None:
            yield type(value).__name__
            yield self._in_any_order(base.__iter__(value))
        elif content is not None:
            yield content[0]
            yield self._items(content[1])
        if is_own or (content is None and base is None):
            yield type(value).__name__
        if is_own:
            yield self._tell(type(value))
            yield self._named(attributes_of(value))

    def _member(self, value: Enum) -> _Walk:
        """The name of a member of an enumeration, its value, and, if the class is the user's own, the class and the attributes."""
        name, held, attributes = member_parts(value)
        yield f"member {name}"
        yield self._tell(held)
        yield self._tell(type(value))
        if is_own_class(type(value)):
            yield self._named(attributes)

    def _class(self, value: type) -> _Walk:
        """Its bases, its functions and its values; two of one text are told apart by where they are."""
        yield f"class {value.__qualname__}"
        if type(value) is not type:
            yield self._tell(type(value))
        for base in value.__bases__:
            yield self._tell(base)
        yield self._named(members_of(value))

    def _function(self, value: FunctionType) -> _Walk:
        steps = code_steps(value.__code__)
        yield self._code(steps)
        yield self._tell((value.__defaults__, value.__kwdefaults__))
        yield self._named(attributes_of(value))
        yield self._globals(steps.globals, value.__globals__)
        yield self._cells(value)

    def _code(self, steps: CodeSteps) -> _Walk:
        yield steps.text
        for constant in steps.constants:
            yield self._tell(constant)

    def _made_by_library(self, value: FunctionType) -> _Walk:
        """What a function holds that a library made while it ran, such as the user's function below a decorator."""
        yield self._tell((value.__defaults__, value.__kwdefaults__, vars(value).get("__wrapped__")))
        yield self._cells(value)

    def _cells(self, value: FunctionType) -> _Walk:
        """The values that a function captured."""
        for cell in value.__closure__ or ():
            try:
                yield self._tell(cell.cell_contents)
            except ValueError:  # a name that is given its value later, such as the function's own below a decorator
                yield "nothing yet"

    def _globals(self, used: set[str], names: dict[str, Any]) -> _Walk:
        """What a function uses under the names of its module; a function or class of another module of the user's by its name."""
        for name in sorted(used & names.keys()):
            if name in _OF_A_FILE:
                continue
            value = names[name]
            yield f"global {name}"
            if is_elsewhere(value, names) and library_name(value) is None:
                yield f"{own_module_name(value.__module__)} {value.__qualname__}"
            else:
                yield self._tell(value)

    def _named(self, values: Mapping[str, Any]) -> _Walk:
        for name in sorted(values):
            yield f"name {name}"
            yield self._tell(values[name])

    def _items(self, values: Any) -> _Walk:
        """The items of a tuple, in place, or another value."""
        if type(values) is not tuple:
            yield self._tell(values)
            return
        for value in values:
            yield self._tell(value)

    def _by_value(self, value: Any, name: str, parts: Any) -> _Walk:
        """The texts of a value's parts, so that equal values have equal texts; where a value holds itself, the text is `itself`."""
        if id(value) in self.within:
            yield "itself"
            return
        self.within.add(id(value))
        yield f"( {name}"
        yield self._items(parts)
        yield ")"
        self.within.discard(id(value))

    def _numbered(self, value: Any, parts: _Walk) -> _Walk:
        """The texts of an object, which gets a number; where the object comes again, the number stands for it."""
        self.told[id(value)] = self.next_number, value
        self.next_number += 1
        yield "("
        yield parts
        yield ")"

    def _number_of(self, value: Any) -> int | None:
        telling: _FunctionTexts | None = self
        while telling is not None:
            if id(value) in telling.told:
                return telling.told[id(value)][0]
            telling = telling.outer
        return None

    def _in_any_order(self, items: Iterable[Any]) -> _Walk:
        """
        A set: each item is described as if it came first, and the descriptions are sorted.

        Objects get their numbers in that order. Those of two items of one description get the same: nothing tells which came first.
        """
        described = []
        for item in items:
            telling = _FunctionTexts(self)
            described.append(("\n".join(telling.texts(item)), telling))
        yield "( set"
        first = number = self.next_number
        before = None
        for text, telling in sorted(described, key=lambda one: one[0]):
            if text != before:
                first, before = number, text
                number += telling.next_number - self.next_number
            yield text
            for address, (of_item, value) in telling.told.items():
                known = self.told.get(address)
                again = first + of_item - self.next_number
                if known is None or known[0] > again:
                    self.told[address] = again, value
        self.next_number = number
        yield ")"
