"""A page of docs/ as a program: its blocks run from top to bottom, and what they print is what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program

_BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = re.compile(r"^<!-- needs: (.+) -->$", re.MULTILINE)
_BEFORE = re.compile(r"^<!-- before: (.+) -->\n+\Z", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """
    A fenced block: its language, the file that it is if it has a title, its text, the output shown behind it, and its line.

    `before` are statements that a block of SQL needs, in a comment directly before it that readers do not see.
    """

    language: str
    file: str | None
    text: str
    shown: str | None
    line: int
    before: str = ""


def needs_of(page: Path) -> frozenset[str]:
    """The systems that a page says it needs, in a comment that readers do not see."""
    return frozenset(name for found in _NEEDS.findall(page.read_text(encoding="utf-8")) for name in found.split(", "))


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; a `text` block directly behind another one is the output of that one, and no block of its own."""
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    blocks = []
    for index, block in enumerate(found):
        if _is_output(text, found, index):
            continue
        shown = found[index + 1][3] if _is_output(text, found, index + 1) else None
        before = _BEFORE.search(text[: block.start()])
        line = text.count("\n", 0, block.start()) + 2
        blocks.append(Block(block[1], block[2], block[3], shown, line, before[1] if before else ""))
    return blocks


def _is_output(text: str, found: list[re.Match[str]], index: int) -> bool:
    if not 0 < index < len(found) or found[index][1] != "text" or found[index][2] is not None:
        return False
    before = found[index - 1]
    return before[1] == "python" and before[2] is None and not text[before.end() : found[index].start()].strip()


def run_page(page: Path, folder: Path, names: dict[str, Any], places: Mapping[str, str] | None = None) -> int:
    """
    Run the blocks of a page in a folder, all `python` blocks in one namespace; AssertionError if one does not print what the page shows.

    A block with a title is written to a file of that name. The lines of `console` blocks behind `$ streamkit` are run, and print what
    stands below them. A `sql` block is executed by a session of its own. Other blocks are for the eye. `places` replaces texts of the page,
    such as an address, by those of this run.

    Returns how many blocks were run.
    """
    count = 0
    for block in blocks_of(page):
        text = _replaced(block.text, places or {})
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(text, encoding="utf-8")
        elif block.language == "python":
            printed = _printed(text, page, block.line, names)
            assert printed == (block.shown or ""), f"{page.name}:{block.line} prints:\n{printed}"
            count += 1
        elif block.language == "console":
            shown, printed = _commands(text, page, block.line)
            assert printed == shown, f"{page.name}:{block.line} prints:\n{printed}"
            count += 1
        elif block.language == "sql":
            with sk.SqlSession(sk.open_log(":memory:")) as sql:
                sql.execute(block.before)
                sql.execute(text)
            count += 1
    return count


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for here, there in places.items():
        text = text.replace(here, there)
    return text


def _printed(text: str, page: Path, line: int, names: dict[str, Any]) -> str:
    """What a block of Python prints; its lines are those of the page in messages."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
    return _trimmed(output.getvalue())


def _commands(text: str, page: Path, line: int) -> tuple[str, str]:
    """The output that a console block shows, and what its commands of StreamKit print."""
    shown, printed = [], []
    for command, below in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        name, *arguments = shlex.split(command, comments=True)
        assert name == "streamkit", f"{page.name}:{line}: {command!r} is not run; expected streamkit, or a shell block"
        result = CliRunner().invoke(program, arguments, catch_exceptions=False)
        shown.append(f"$ {command}\n{below}")
        printed.append(f"$ {command}\n{_trimmed(result.output)}")
    return _trimmed("".join(shown)), _trimmed("".join(printed))


def _trimmed(text: str) -> str:
    """Text without spaces at the ends of lines, which editors take away."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
