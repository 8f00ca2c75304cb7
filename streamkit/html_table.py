"""Small tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def html_table(caption: str, rows: Iterable[Sequence[Any]], titles: Sequence[str] = ()) -> str:
    """Rows as a table of HTML, below a caption in bold; null is empty."""
    head = f"<tr>{''.join(f'<th>{_text(title)}</th>' for title in titles)}</tr>" if titles else ""
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<div><b>{_text(caption)}</b><table>{head}{body}</table></div>"


def _text(value: Any) -> str:
    return "" if value is None else html.escape(f"{value:,}" if type(value) is int else str(value))
