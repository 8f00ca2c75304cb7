"""What a text may go on with, as a shell completes it: words of statements, and names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from streamkit.expressions.sql.dialect import DIALECTS, Dialect
from streamkit.sql.completion.session_names import SETTINGS, SessionNames
from streamkit.sql.printer.names import name_text
from streamkit.sql.reader.script import expected_words
from streamkit.sql.session import SqlSession

WORD_BEFORE = re.compile(r"\w*\Z")
SETTING_BEFORE = re.compile(r"\b(?:UN)?SET\s+'([\w.]*)\Z", re.IGNORECASE)
PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
READ_AS_NAMES = ("column", "source")  # which are words of SQL in backticks alone
SHOWN_KINDS = ("column", "source", "topic", "query", "property", "type", "function")


@dataclass(frozen=True)
class ExpectedWord:
    """A word that may follow; `begun` says how many of its letters are typed already, and `kind` whether it is a keyword, a name or another word."""

    text: str
    begun: int
    kind: str


def completions(session: SqlSession, text: str, place: int) -> Iterator[ExpectedWord]:
    """
    The words that may stand at a place of a text, names before keywords; none within quotes, but for the names of settings.

    A word that is there already with all its letters is none of them.
    """
    setting = SETTING_BEFORE.search(text, 0, place)
    if setting is not None:
        yield from (
            ExpectedWord(name, len(setting[1]), "setting")
            for name in SETTINGS
            if name.startswith(setting[1].lower()) and name != setting[1]
        )
        return
    before = text[:place]
    begun = WORD_BEFORE.search(before)
    assert begun is not None, "a word may have no letters"
    letters = begun[0]
    settings = session.settings
    expected = expected_words(before, place, settings.script.meaning.name, settings.variables)
    names, dialect = SessionNames(session), DIALECTS[settings.script.meaning.name]
    statement = text[before.rfind(";") + 1 :]
    for kind in SHOWN_KINDS:
        if kind in expected.names:
            for name in names.of(kind, statement):
                if name.lower().startswith(letters.lower()) and name != letters:
                    yield ExpectedWord(_written(name, kind, dialect), len(letters), kind)
    is_small = bool(letters) and letters.islower()
    for word in sorted(expected.keywords):
        if word.startswith(letters.upper()) and len(word) > len(letters):
            yield ExpectedWord(word.lower() if is_small else word, len(letters), "keyword")


def _written(name: str, kind: str, dialect: Dialect) -> str:
    """A name as a statement of the dialect has to write it."""
    if kind in READ_AS_NAMES:
        return name_text(name, dialect)
    return name if PLAIN_NAME.fullmatch(name) or kind == "query" else f"`{name}`"
