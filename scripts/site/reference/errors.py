"""The page of all errors: what each says, and what a caller can do."""

from __future__ import annotations

import re

from scripts.site.reference.sentences import first_sentence, row, table
from streamkit import errors

INTRODUCTION = """# Errors

All errors that StreamKit raises on purpose are classes of `streamkit.errors`, below `sk.StreamKitError`.
A message says what was found, what was expected, and what to do; where your own line is to blame, it names that line.
`is_retryable` says whether the same call may succeed later.
A class that is indented is one of the class above it.
"""
_LINE = re.compile(r"^([│ ]*)[├└]── (\w+) +(.+)$", re.MULTILINE)


def page() -> str:
    """The text of the page."""
    rows = []
    for indent, name, what in _LINE.findall(errors.__doc__ or ""):
        cls = getattr(errors, name)
        again = "yes" if cls.is_retryable else "no"
        rows.append(row(f"{'&emsp;' * (len(indent) // 4)}`{name}`", first_sentence(cls), again, what))
    return "\n".join([INTRODUCTION, *table("error", "what it says", "retryable", "what to do"), *rows, ""])
