"""What the pages tell a reader to type in a shell is one command, whose JSON is JSON."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:shell|console|bash|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CURL = re.compile(r"^(?:\$ )?(curl (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
BODIES = ("-d", "--data", "--data-binary", "--json")


def commands_of(page):
    """The calls of curl on a page, lines that go on put together."""
    return [found.replace("\\\n", " ") for block in BLOCK.findall(page.read_text()) for found in CURL.findall(block)]


def bodies_of(command):
    """What a call of curl sends, as a shell understands it."""
    words = shlex.split(command)
    return [following for word, following in pairwise(words) if word in BODIES]


def is_whole(command, body):
    """Whether a body is written with the quotes that a shell needs to send it as it is shown."""
    return shlex.quote(body).replace("""'"'"'""", r"""'\''""") in command


def test_requests_send_what_they_show():
    """A shell takes no quote out of what is sent, and what begins as an object or list of JSON is one."""
    sent = [(command, body) for page in PAGES for command in commands_of(page) for body in bodies_of(command) if body[:1] in "{["]
    assert len([json.loads(body) for _, body in sent]) >= 2
    assert [command for command, body in sent if not is_whole(command, body)] == []


def test_quotes_that_a_shell_removes_are_found():
    """Quotes within quotes end them, so the text that is sent lacks them; those that are escaped stay."""
    command = """curl localhost -d '{"where": "operator = 'parse'"}'"""
    assert bodies_of(command) == ['{"where": "operator = parse"}']
    assert not is_whole(command, *bodies_of(command))
    command = r"""curl localhost -d '{"where": "operator = '\''parse'\''"}'"""
    assert bodies_of(command) == ["""{"where": "operator = 'parse'"}"""]
    assert is_whole(command, *bodies_of(command))
