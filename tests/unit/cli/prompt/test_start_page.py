"""The page for who knows SQL alone is typed as it stands, and the prompt answers what it shows."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.documented import Block, blocks_of
from tests.kit.terminal import CTRL_C, ENTER, Terminal
from tests.kit.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[4] / "docs" / "start" / "sql.md"
PROMPT = "sql>"
STREAMKIT = ["-m", "streamkit.cli"]


def statements_of(block: Block) -> list[tuple[str, list[str]]]:
    """What is typed in a block, and the lines that are shown below it."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in block.text.splitlines():
        if line.startswith(f"{PROMPT} "):
            found.append((line[len(PROMPT) + 1 :], []))
        elif line.strip():
            found[-1][1].append(line)
    return [one for one in found if one != ("", [])]


def ask(prompt: Terminal, statement: str) -> str:
    """What the prompt shows until it asks again."""
    prompt.type(statement + ENTER)
    return prompt.until(f"\n{PROMPT}")  # what is typed is drawn behind the prompt that was there


def words(text: str) -> str:
    """The lines without what is typed, and without spaces that no one sees."""
    lines = [line for line in text.splitlines() if line.strip() and PROMPT not in line]
    return "\n".join(" ".join(line.split()) for line in lines)


def follow(prompt: Terminal, block: Block) -> None:
    """Type what a block shows, and see what it shows."""
    how = (block.file or "").partition(", ")[2]
    for statement, lines in statements_of(block):
        if how == "a live query":
            prompt.type(statement + ENTER)
            prompt.until_lines(lines)
        elif how == "the next row":
            prompt.until_lines(lines)
            prompt.type(CTRL_C)
            prompt.until(f"\n{PROMPT}")
        elif how == "until the row is there":
            while words(ask(prompt, statement)) != words("\n".join(lines)):
                pass
        else:
            assert words("\n".join(lines)) in words(ask(prompt, statement))


def test_the_page_is_followed_as_it_stands(tmp_path):
    """Each statement is typed at a prompt, each command run in another terminal, and what the page shows is there."""
    known = {**os.environ, "HOME": str(tmp_path)}
    known.pop("STREAMKIT_LOG", None)
    servers: list[subprocess.Popen[bytes]] = []
    with Terminal(STREAMKIT, "sql", environment={"HOME": str(tmp_path)}, folder=tmp_path) as prompt:
        prompt.until(PROMPT)
        try:
            for block in blocks_of(PAGE):
                if block.language == "text":
                    follow(prompt, block)
                    continue
                program, *arguments = shlex.split(block.text)
                command = [sys.executable, *STREAMKIT, *arguments]
                assert program == "streamkit"
                if arguments == ["sql", "serve"]:
                    servers.append(subprocess.Popen(command, cwd=tmp_path, env=known, stdout=subprocess.DEVNULL))
                elif arguments != ["sql"]:
                    subprocess.run(command, cwd=tmp_path, env=known, check=True, stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS)
            prompt.type(f"exit{ENTER}")
            assert prompt.end() == 0
            for server in servers:
                server.send_signal(signal.SIGINT)
                assert server.wait(WAIT_SECONDS) == 0
        finally:
            for server in servers:
                server.kill()
                server.wait()
    assert servers
