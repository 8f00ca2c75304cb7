"""Which letters of Java's patterns are left out, as docs/sql.md lists them."""

from __future__ import annotations

import re
import string
from pathlib import Path

from streamkit.expressions.times.datetime_patterns import PatternError, java_parsing_pattern, java_writing_pattern

DOCS = Path(__file__).parents[4] / "docs" / "sql.md"
COUNTS = range(1, 6)
OF_NO_FORMAT = "is no letter of a format"


def refusal(read, pattern):
    """Why a pattern is refused; empty if it is one."""
    try:
        read(pattern)
    except PatternError as error:
        return str(error)
    return ""


def test_each_letter_that_is_left_out_is_listed():
    """Letters that are neither written nor read, and fields that are written and not read; none that is read is listed."""
    sentences = re.search(r"(Weeks \(`Y`.*?left out\.)\s+(For reading so are .*?\.)\n", DOCS.read_text(), re.DOTALL)
    assert sentences is not None
    listed, listed_for_reading = (set(re.findall(r"`(\w+)`", sentence)) for sentence in sentences.groups())
    known = [letter for letter in string.ascii_letters if OF_NO_FORMAT not in refusal(java_writing_pattern, letter)]
    fields = [letter * count for letter in known for count in COUNTS if not refusal(java_writing_pattern, letter * count)]
    refused = {field for field in fields if refusal(java_parsing_pattern, field)}

    assert {letter for letter in known if "does not translate" in refusal(java_writing_pattern, letter)} == listed
    assert {one for one in refused if one not in listed_for_reading and one[0] not in listed_for_reading} == set()
    assert listed_for_reading <= refused
