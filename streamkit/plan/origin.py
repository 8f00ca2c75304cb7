"""
Where the rows of a step come from, in words that are equal if the rows are.

A store whose content follows from rows that came before, such as a table or the groups of one, is right only for the steps that made
these rows. So a start compares their origins. How steps lie in stages, which share an exchange, and which columns they leave out because
nobody reads them does not count: expressions are told by the columns of the topic, through all projections.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamkit.names import TIMESTAMP
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import typed_text
from streamkit.plan.operator import Operator

if TYPE_CHECKING:
    from streamkit.plan.joining import ColumnSources
    from streamkit.plan.program import Program

SINCE_1970 = "where unix_millis(timestamp_millis(_timestamp)) >= 0"  # how the ksql dialect once left out records before 1970
TEXT_MAX = 240  # longer texts are cut, and told apart by a digest: a column may be made of another twice, and that again


@dataclass(frozen=True)
class Origin:
    """
    Where rows come from: `rows` says which there are, `columns` what each column is, by name; one that is missing is as it came.

    `topics` are those that bring the rows, one after the other, as texts. `with_code`: texts tell functions of users by their code, too.
    """

    rows: str
    columns: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    with_code: bool = True

    def of(self, column: str) -> str:
        """What a column of the rows is."""
        return self.columns.get(column, column)

    def text(self, expression: TypedExpression) -> str:
        """What an expression of the rows is."""
        if expression.name == "column":
            return self.of(str(expression.value))
        text = typed_text(_resolved(expression, self.columns))
        hidden = ", ".join(_hidden(expression, self.with_code))
        return shortened_text(f"{text} [{hidden}]" if hidden else text)

    def but(self, rows: str, columns: Mapping[str, str] | None = None) -> Origin:
        """Other rows of the same topics, with these columns, or the same."""
        return replace(self, rows=shortened_text(rows), columns=self.columns if columns is None else columns)


class Origins:
    """
    The origins of the steps of a program; of its topics, the records of those that are `gone` came from others of these names.

    `since_1970`: a filter by which sources once left out records before 1970 is not told, since they do so while they read.
    """

    def __init__(self, program: Program, with_code: bool, gone: Collection[str] = (), since_1970: bool = False) -> None:
        self._since_1970 = since_1970
        self._program = program
        self._with_code = with_code
        self._gone = gone
        self._known: dict[str, Origin] = {}

    def of(self, name: str) -> Origin:
        """The origin of the rows that others take by this name."""
        if name not in self._known:
            self._known[name] = self._found(self._program.operator(name), name)
        return self._known[name]

    def taken_by(self, operator: Operator) -> list[Origin]:
        """The origins of the rows that an operator takes, by its inputs."""
        return [self.of(name) for name in operator.inputs]

    def _found(self, operator: Operator, name: str) -> Origin:
        if operator.input_read is not None:
            return self._of_topic(operator.input_read)
        above = self.taken_by(operator)
        if operator.input_read_whole is not None:
            above.append(self._of_whole(operator.input_read_whole, operator.steps_of_whole))
        topics = tuple(dict.fromkeys(topic for one in above for topic in one.topics))
        if operator.stores and not operator.traits.passes_rows:
            return Origin(f"the store {operator.stores[0]!r}", {}, topics, self._with_code)
        return replace(self._ordered(operator, above, name), topics=topics)

    def _ordered(self, operator: Operator, above: Sequence[Origin], name: str) -> Origin:
        """
        The origin of the rows of an operator, with the order in which one record comes by several of its inputs, where it does.

        That order follows from the order of declarations. It decides which of two rows of a key stays in a table, and what a row meets.
        """
        traits, turn = operator.traits, self._program.turns.get(operator.id)
        if self._since_1970 and len(above) == 1 and operator.origin(above, name).rows == f"{above[0].rows} {SINCE_1970}":
            return above[0]
        if turn is None or not turn.shares_records:
            # Rows of several streams as one: it does not matter which of them was named first.
            return operator.origin(sorted(above, key=lambda one: one.rows) if traits.mixes_inputs else above, name)
        by_input = turn.by_input or (turn,)
        if traits.mixes_inputs:
            places = sorted(range(len(above)), key=turn.inputs.__getitem__)
            found = operator.origin([above[place] for place in places], name)
            orders = {tuple(numbers.inputs[place] for place in places) for numbers in by_input}
            others = {
                str([sorted(order).index(number) + 1 for number in order]) for order in orders if order != tuple(sorted(order))
            }
            return found.but(" or ".join([found.rows, *sorted(others)]))
        found = operator.origin(above, name)
        if traits.first_gives_rows and traits.looks_up:
            is_behind = {numbers.inputs[0] > numbers.seen[place] for numbers in by_input for place in traits.looks_up}
            met = " or ".join("what it has changed" if one else "what was there before it" for one in sorted(is_behind))
            return found.but(f"{found.rows}, where a record meets {met}")
        return found

    def _of_topic(self, number: int) -> Origin:
        """The origin of the records of an input."""
        name = self._program.inputs[number].topic
        topic = f"{name!r} that was deleted" if name in self._gone else repr(name)
        return Origin(f"the topic {topic}", {}, (topic,), self._with_code)

    def _of_whole(self, number: int, steps: Sequence[Operator]) -> Origin:
        """The origin of the rows of a global table, whose steps no other operator sees."""
        found = self._of_topic(number)
        for step in steps:
            found = step.origin([found], step.id)
        return found


def joined_origin(text: str, columns: ColumnSources, above: Sequence[Origin]) -> Origin:
    """The origin of joined rows; `text` says how they are joined."""
    sides = dict(zip(("left", "right"), above, strict=True))
    found = {}
    for name, source in columns:
        side, _, column = source.partition(".")
        found[name] = f"{sides[side].of(column)} of the {side}"
    return above[0].but(f"({above[0].rows}) {text} ({above[1].rows})", found)


def shortened_text(text: str) -> str:
    """A text, or its beginning and a digest of all of it."""
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX // 2]}… [{hashlib.sha256(text.encode()).hexdigest()[:12]}]"


def _resolved(expression: TypedExpression, columns: Mapping[str, str]) -> TypedExpression:
    """The expression with what its columns are in place of their names."""
    if expression.name == "column":
        text = columns.get(str(expression.value), str(expression.value))
        return replace(expression, value=text if text.isidentifier() or text == TIMESTAMP else f"({text})")
    if expression.name == "lambda":
        own = str(expression.value).split(",")
        columns = {name: text for name, text in columns.items() if name not in own}
    return replace(expression, arguments=tuple(_resolved(one, columns) for one in expression.arguments))


def _hidden(expression: TypedExpression, with_code: bool) -> Iterator[str]:
    """What the text of an expression does not show: the code of functions, and constant parameters that are no text."""
    if expression.name == "python":
        if with_code:
            name, _, code = str(expression.value).partition(":")
            yield f"code of {name}: {code.partition('~')[0]}"
    elif expression.name not in ("column", "literal", "lambda", "cast") and not isinstance(expression.value, str | None):
        yield f"{expression.name}: {_plain(expression.value)}"
    for argument in expression.arguments:
        yield from _hidden(argument, with_code)


def _plain(value: Any) -> str:
    return repr(sorted(value.items()) if isinstance(value, Mapping) else value)
