"""What a reader asks for at the end of its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamkit.errors import SchemaError
from streamkit.expressions.analysis.sql import is_value
from streamkit.expressions.sql.dialect import Dialect
from streamkit.expressions.sql.refusal import SqlRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.plan.expression import Expression
from streamkit.sql.reader.clause_reader import COLUMN, FUNCTION
from streamkit.sql.reader.statement_reader import StatementReader

VALUES = ("CASE", "CAST", "FALSE", "NOT", "NULL", "TRUE")  # what may begin a value, beside names


@dataclass(frozen=True)
class ExpectedWords:
    """
    What may be at a place of a script.

    `keywords` are in capitals. `names` are the kinds of names that may be there: source, column, function, type, property, query, topic,
    and other for a name that is made there.
    """

    keywords: frozenset[str]
    names: frozenset[str]


class AskingReader(StatementReader):
    """A reader of a statement that notes what it asks for at the end."""

    def __init__(self, words: Sequence[Word], dialect: Dialect) -> None:
        super().__init__("", words, dialect, is_value)
        self.keys: set[str] = set()
        self.names: set[str] = set()

    def is_at(self, *keys: str) -> bool:
        self.asks(*keys)
        return super().is_at(*keys)

    def asks(self, *keys: str) -> None:
        if self.word.kind == "end":
            self.keys.update(keys)

    def asks_name(self, kind: str) -> None:
        if self.word.kind == "end":
            self.names.add(kind)

    def _primary(self) -> Expression:
        self.asks(*VALUES)
        self.asks_name(COLUMN)
        self.asks_name(FUNCTION)
        return super()._primary()

    def _predicate(self) -> Expression:
        found = super()._predicate()
        self.asks(*self.dialect.predicates)
        return found


def asked(words: Sequence[Word], dialect: Dialect) -> ExpectedWords:
    """What could be behind some words of a statement."""
    place = words[-1].end if words else 0
    reader = AskingReader([*words, Word("end", "the end", place, place)], dialect)
    try:
        reader.whole_statement()
    except (SqlRefusedError, SchemaError, RecursionError):
        if reader.word.kind != "end":
            return ExpectedWords(frozenset(), frozenset())  # it is wrong before
    return ExpectedWords(frozenset(key for key in reader.keys if key.isalpha()), frozenset(reader.names))
