"""Promises of what is printed: nothing in it acts on the terminal, and nothing keeps it from being printed."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.cli.terminal.rendering import counted, rounded, show_error, show_facts, show_line, visible
from streamkit.cli.terminal.table import show_table
from streamkit.errors import ConfigError

ACTING = "\x1b[31m\x07\r\x00\x7f\x9b\u2028\u202e\ud800"
SHOWN = r"\x1b[31m\x07\r\x00\x7f\x9b\u2028\u202e\ud800"


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs", "Cc", "Cs", "Cf"]), max_size=20))
@example("a\nb\tc")
def test_what_is_shown_stands_on_one_line(text):
    """Whatever a text holds, what is shown of it can be encoded, has no control character, and starts no other line."""
    shown = visible(text)

    assert shown.encode().decode() == shown
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in shown)
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize("text", ["", "plain", "Ærø", "日本", "می‌خواهم", "a\u00a0b", "👩‍👩‍👧", r"C:\new"])
def test_what_only_stands_there_stays(text):
    """Letters of all scripts, spaces, joiners and backslashes are shown as they are."""
    assert visible(text) == text


def test_nothing_printed_acts_on_the_terminal(capsys):
    """Titles, cells, captions, facts, lines and errors show control characters by number; an error keeps its lines."""
    show_table([f"[b]{ACTING}"], [[f"cell {ACTING}"], [f"new\nline {ACTING}"]], f"caption {ACTING}")
    show_facts([("name", f"fact {ACTING}")])
    show_line(f"line {ACTING}")
    show_error(ConfigError(f"found [b]:smile: {ACTING}\n  expected"))
    out, err = capsys.readouterr()

    for expected in (f"[b]{SHOWN}", f"cell {SHOWN}", rf"new\nline {SHOWN}", f"caption {SHOWN}", f"fact {SHOWN}", f"line {SHOWN}"):
        assert expected in out
    assert err == f"error: found [b]:smile: {SHOWN}\n  expected\n"


def test_records_and_headers_are_shown(streamkit, root):
    """Values and headers of records cannot send the terminal anything; JSON has them as JSON spells them, CSV as they are."""
    with sk.open_log(root) as log, log.producer() as producer:
        log.create_topic("wild", "text string", partitions=1)
        producer.send_batch("wild", [{"text": "a\x1b[2Jb", "_headers": [("h\x1b[1m", b"\x1b")]}])

    table = streamkit("consume", "wild", "--headers")
    assert "\x1b" not in table and r"a\x1b[2Jb" in table and r"h\x1b[1m" in table
    assert json.loads(streamkit("consume", "wild", "--json"))["text"] == "a\x1b[2Jb"
    assert "a\x1b[2Jb" in streamkit("consume", "wild", "--format", "csv")


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_half_a_character_is_printed(streamkit, root, form):
    """A JSON value may spell half of a surrogate pair, which no encoding has; it is printed as it was spelled."""
    with sk.open_log(root) as log, log.producer() as producer:
        log.create_topic("halves", format="json", partitions=1)
        values = [b'"x\\ud800"', b'{"x": "\\udfff"}']
        producer.send_batch("halves", pa.table({"key": pa.nulls(2, pa.binary()), "value": pa.array(values, pa.binary())}))

    printed = streamkit("consume", "halves", "--format", form)
    assert r"x\ud800" in printed and r"\udfff" in printed


def test_an_error_of_the_command_line_is_shown(as_program):
    """What a message repeats of the command line is shown in it, not sent to the terminal."""
    code, out, err = as_program("produce", "orders", "no\x1b[31m.json")

    assert (code, out) == (1, "")
    assert err.startswith(r"error: no\x1b[31m.json cannot be read")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (123456.789, "123456.789"), (1234567890.5, "1234567890.5"), (100000.5, "100000.5"), (-12345.67, "-12345.67"),
        (1 / 3, "0.3333333"), (10 / 3, "3.333333"), (0.0, "0"), (2.0, "2"), (1e-9, "1E-9"), (1e15 + 0.5, "1000000000000000.5"),
        (pa.scalar(1e30, pa.float32()).as_py(), "1E+30"), (-1e300, "-1E+300"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_numbers_keep_their_digits(capsys, number, shown):
    """A table, of records as of a store, shows six decimals of a number, no digit before the point is lost, and none is made up."""
    show_table(["number"], [[number]])

    assert capsys.readouterr().out.split()[-1] == rounded(number) == shown


def test_times_at_midnight(streamkit, root):
    """A column of days shows days; one of times shows midnight like any other time."""
    midnight, noon = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone.utc)
    with sk.open_log(root) as log, log.producer() as producer:
        log.create_topic("times", "day timestamp, at timestamp, amount double", partitions=1)
        for at in (midnight, noon, None):
            producer.send("times", {"day": midnight, "at": at, "amount": 123456.789})

    first, *_ = [line.split() for line in streamkit("consume", "times").splitlines() if "2020" in line]
    assert first == ["2020-01-01", "2020-01-01T00:00:00Z", "123456.789"]


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2_000, "2,000 records")])
def test_things_are_counted(number, text):
    """One thing is one, any other number of them are several."""
    assert counted(number, "record") == text
