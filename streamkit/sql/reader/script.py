"""
A script: the text of several statements.

All faults of a script are found at once: after one, reading goes on behind the next semicolon that is in no quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streamkit.errors import ConfigError, Location, SqlError, SqlFault
from streamkit.expressions.analysis.sql import is_value
from streamkit.expressions.sql.dialect import DIALECTS, SPARK, Dialect
from streamkit.expressions.sql.expression_reader import NestedTooDeeplyError
from streamkit.expressions.sql.refusal import SqlRefusedError
from streamkit.expressions.sql.word import Word
from streamkit.expressions.sql.words import comments_between, cut
from streamkit.names import meant
from streamkit.plan.location import IN_PYTHON, TextLocation
from streamkit.plan.text_span import TextSpan
from streamkit.sql.reader.asking_reader import ExpectedWords, asked
from streamkit.sql.reader.fault import Fault, fault_of
from streamkit.sql.reader.statement_reader import StatementReader
from streamkit.sql.reader.variables import replaced
from streamkit.sql.tree.statements import Define, RunScript, Set, Statement

DIALECT_SETTING = "streamkit.sql.dialect"
TOO_DEEP = "the statement is nested too deeply; split it, by a query in FROM or by several statements"


@dataclass
class ScriptReading:
    """How the next statement is read: its dialect and the variables; the files that a text runs go on with those of the text, and change them."""

    dialect: Dialect = SPARK
    variables: dict[str, str] = field(default_factory=dict)


def read_script(
    text: str,
    dialect: str = SPARK.name,
    variables: Mapping[str, str] | None = None,
    file: str = IN_PYTHON,
    called_at: Location | None = None,
    *,
    is_stored: bool = False,
) -> list[Statement]:
    """
    The statements of a script, in their order.

    `dialect` is that of the first statement; `SET 'streamkit.sql.dialect' = 'ksql'` changes it for those behind it, as DEFINE adds to the
    `variables`. `called_at` is the line of Python that gives the text. With `is_stored` it is one that the catalog keeps, whose names may be words
    that are names in backticks alone. SqlError has all faults of the script, each with its place.
    """
    return read_on(text, ScriptReading(DIALECTS[dialect], dict(variables or {})), file, called_at, is_stored=is_stored)


def read_on(
    text: str,
    reading: ScriptReading,
    file: str = IN_PYTHON,
    called_at: Location | None = None,
    run: Callable[[RunScript], object] | None = None,
    *,
    is_stored: bool = False,
) -> list[Statement]:
    """
    The statements of a script, whose end the reading is left at.

    `run` reads the file of RUN SCRIPT with the same reading; its error is the last fault, since the file says how what is behind it is read.
    """
    check_text(text)
    script = _ScriptReader(text, reading, run=run, is_stored=is_stored)
    statements = script.statements()
    places = [TextLocation.of_text(file, text, span, called_at=called_at) for _, span in script.faults]
    faults = [SqlFault(message, at) for (message, _), at in zip(script.faults, places)] + script.faults_of_file
    if faults:
        raise SqlError(faults)
    return statements


def check_text(text: str) -> None:
    """ConfigError unless this is a text of whole characters."""
    if not isinstance(text, str):
        raise ConfigError(f"found {text!r}; expected SQL as a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"character {error.start + 1:,} of the text is U+{ord(text[error.start]):04X}, half of a pair of UTF-16; expected whole characters"
        ) from None


def expected_words(text: str, place: int, dialect: str = SPARK.name, variables: Mapping[str, str] | None = None) -> ExpectedWords:
    """
    What may be at a place of a script, where a word is begun or not: the letters directly before the place are left out.

    Nothing is expected within quotes and comments, and behind what is wrong.
    """
    while place and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place -= 1
    script = _ScriptReader(text[:place], ScriptReading(DIALECTS[dialect], dict(variables or {})))
    script.statements()
    if script.is_unreadable or _is_in_comment(text[script.last_words[-1].end if script.last_words else 0 : place]):
        return ExpectedWords(frozenset(), frozenset())
    return asked(script.last_words, script.last_dialect)


def line_comments(text: str, start: int, dialect: str) -> Iterator[tuple[TextSpan, str]]:
    """
    The comments that end with their line from a place on, each with the name of the dialect of what is there.

    The statement at the place is read in the `dialect`, and SET changes it for those behind.
    """
    script = _ScriptReader(text, ScriptReading(DIALECTS[dialect]))
    place, is_last = start, False
    while not is_last:
        words, end = cut(text, place, script.reading.dialect, ";")
        for word in words:
            for span in comments_between(text, place, word.start, script.reading.dialect):
                yield span, script.reading.dialect.name
            place = word.end
        place, is_last = end, words[-1].text != ";"
        statement = script.read(words) if len(words) > 1 else None
        if statement is not None:
            script.follow(statement)


def _is_in_comment(gap: str) -> bool:
    """Whether what is behind the last word is a comment up to the end of a line that goes on."""
    return "--" in gap.rpartition("\n")[2]


@dataclass
class _ScriptReader:
    """A script as it is read: how its next statement is read, and what was wrong so far, also with the file that it runs."""

    text: str
    reading: ScriptReading
    run: Callable[[RunScript], object] | None = None
    faults: list[Fault] = field(default_factory=list)
    faults_of_file: list[SqlFault] = field(default_factory=list)
    last_words: Sequence[Word] = ()
    last_dialect: Dialect = SPARK
    is_unreadable: bool = False
    is_stored: bool = False

    def statements(self) -> list[Statement]:
        """All statements that can be read."""
        found = []
        place, is_last = 0, False
        while not is_last and not self.faults_of_file:
            words, place = cut(self.text, place, self.reading.dialect, ";")
            is_last = words[-1].text != ";"
            if is_last:
                self.last_words, self.last_dialect = words[:-1], self.reading.dialect
                self.is_unreadable = any(word.kind == "unreadable" for word in words)
            statement = self.read(words) if len(words) > 1 else None
            if statement is not None:
                found.append(statement)
                self.follow(statement)
        return found

    def read(self, words: list[Word]) -> Statement | None:
        """The statement that these words are; None if they are none, and then there is a fault more."""
        try:
            if "${" in self.text[words[0].start : words[-1].start]:
                words = replaced(self.text, words, self.reading.dialect, self.reading.variables)
        except SqlRefusedError as error:
            self.faults.append((str(error), error.span or TextSpan(words[0].start, words[-1].end)))
            return None
        unreadable = [word for word in words if word.kind == "unreadable"]
        if unreadable:
            self.faults += [(str(word.value), TextSpan(word.start, word.end)) for word in unreadable]
            return None
        if len(words) == 1:
            return None  # of variables without a text
        return self._read_words(words)

    def _read_words(self, words: list[Word]) -> Statement | None:
        reader = StatementReader(self.text, words, self.reading.dialect, is_value)
        reader.is_stored = self.is_stored
        try:
            return reader.whole_statement()
        except RecursionError:
            self.faults.append((TOO_DEEP, TextSpan(words[0].start, words[-2].end)))
        except NestedTooDeeplyError as error:
            self.faults.append((str(error), error.span or TextSpan(words[0].start, words[-2].end)))
        except SqlRefusedError as error:
            self.faults.append(fault_of(error, words, self.reading.dialect, reader.implicit_aliases))
        return None

    def follow(self, statement: Statement) -> None:
        """Let a statement change how those behind it are read."""
        if isinstance(statement, Define):
            name, variables = statement.name.lower(), self.reading.variables
            self.reading.variables = {one: value for one, value in variables.items() if one.lower() != name}
            if statement.value is not None:
                self.reading.variables[name] = statement.value
        if isinstance(statement, Set) and statement.name == DIALECT_SETTING and not statement.is_system:
            self._set_dialect(statement)
        if isinstance(statement, RunScript) and self.run is not None:
            try:
                self.run(statement)
            except SqlError as error:
                self.faults_of_file += error.faults

    def _set_dialect(self, statement: Set) -> None:
        dialect = SPARK if statement.value is None else DIALECTS.get(statement.value.lower())
        if dialect is None:
            hint = meant(str(statement.value), DIALECTS)
            self.faults.append(
                (f"there is no dialect {statement.value!r}; expected {' or '.join(DIALECTS)}{hint}", statement.span)
            )
            return
        self.reading.dialect = dialect
