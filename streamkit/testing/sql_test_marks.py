"""Marks of tests in a file of SQL: comments such as `--@test: NAME`, which say where a test begins, and how it has to fail."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from streamkit.sql.lowering.script_text import ScriptText
from streamkit.sql.reader.script import line_comments
from streamkit.sql.tree.span import TextSpan

TEST, MESSAGE = "test", "expected.message"
_MARK = re.compile(r"--\s*@\s*([\w.-]+)\s*(:?)(.*)")
_MISSING = {TEST: "a name", MESSAGE: "a text"}
_OTHERS = {"expected.error": "it is a class of ksqlDB, which is not here; expected --@expected.message: TEXT"}


@dataclass(frozen=True)
class SqlTestMark:
    """A mark of a file: its word, what is behind the colon, and its place."""

    word: str
    text: str
    span: TextSpan


def read_marks(script: ScriptText, dialect: str) -> list[SqlTestMark]:
    """
    The marks of a text, in their order, which `dialect` begins; TopologyError at a word that is none, and at a mark that lacks something.

    A mark is a comment that begins with `@`, a word and a colon. Within quotes and comments of several lines there are none.
    """
    found: list[SqlTestMark] = []
    place: int | None = 0
    begun: str | None = None
    while place is not None:
        start, place = place, None
        for span, there in line_comments(script.text, start, begun or dialect):
            mark = _mark(script, span)
            if mark is not None:
                found.append(mark)
            if (
                mark is not None and mark.word == TEST
            ):  # each is read in the dialect that the statements before all tests have left
                begun = begun or there
                place = span.end
                break
    return found


def _mark(script: ScriptText, span: TextSpan) -> SqlTestMark | None:
    """The mark that a comment is; None if it is none."""
    found = _MARK.fullmatch(script.text[span.start : span.end].rstrip())
    if found is None:
        return None
    word, text = found[1].lower(), found[3].strip()
    if word in _MISSING and not (found[2] and text):
        raise script.error(f"--@{word} says nothing; expected {_MISSING[word]}, as in --@{word}: TEXT", span)
    if word in _MISSING:
        return SqlTestMark(word, text, span)
    if not found[2]:
        return None
    close = difflib.get_close_matches(word, _MISSING, 1)
    advice = _OTHERS.get(word) or (
        f"did you mean --@{close[0]}: ?" if close else "a comment is written without @ before its first word"
    )
    raise script.error(f"there is no mark --@{found[1]}: of tests; there are --@test: and --@expected.message:; {advice}", span)
