"""The options of a run, under `python FILE` and `streamkit run FILE`."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit.cli.main import program
from streamkit.engine.runs.options import AVAILABLE_NOW, Options
from streamkit.launch.arguments import Arguments, parse_arguments

TOPOLOGY = sk.Topology("flow")


def said(capsys, run):
    """What a command line prints before it ends, and with which code it does."""
    with pytest.raises(SystemExit) as end:
        run()
    printed = capsys.readouterr()
    return end.value.code, printed.out + printed.err


def test_both_command_lines_have_the_same_options(capsys):
    """What may stand behind `streamkit run FILE` may stand behind `python FILE`, and is said in the same words."""
    _, of_a_file = said(capsys, lambda: parse_arguments(TOPOLOGY, ["--help"]))
    _, of_streamkit = said(capsys, lambda: program(["run", "--help"]))

    assert "--max-records-per-epoch" in of_a_file and "Run the topology flow, on Spark" in of_a_file
    assert of_a_file.partition("Options:")[2] == of_streamkit.partition("Options:")[2]


def test_every_option_arrives():
    """Each option means what its name says; without any, a run goes on for ever on Spark."""
    words = [
        "--log",
        "x",
        "--local",
        "--tasks",
        "3",
        "--max-records-per-epoch",
        "7",
        "--once",
        "--connectors",
        "external",
        "--verbose",
        "--rebuild",
        "one",
        "--rebuild",
        "two",
        "--rebuild",
        "one",
        "--accept-loss",
        "--as",
        "other",
    ]

    options = Options(3, AVAILABLE_NOW, 7)
    expected = Arguments("x", options, True, True, "external", rebuild=("one", "two"), accepts_loss=True, name="other")
    assert parse_arguments(TOPOLOGY, words) == expected
    of_two = Arguments(None, Options(), False, False, name="other", leader="flow")
    assert parse_arguments(TOPOLOGY, ["--as", "other", "--from", "flow"]) == of_two
    assert parse_arguments(TOPOLOGY, ["--drain"]) == Arguments(None, Options(drain=True), False, False, "here")
    assert parse_arguments(TOPOLOGY, []) == Arguments(None, Options(), False, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--once", "--drain"], "expected one of them"),
        (["--connectors", "there"], "expected here or external"),
        (["--tasks", "0"], "--tasks"),
        (["--accept-loss"], "expected --rebuild STORE or --from APP"),
        (["--from", "flow"], "expected --as NAME with it"),
        (["--from", "flow", "--as", "other", "--drain"], "without --rebuild, --once or --drain"),
        (["--for-ever"], "--for-ever"),
    ],
)
def test_what_is_no_option_ends_the_program_with_2(words, message, capsys):
    """As shells and Kafka's tools have it: a mistake on the command line is told apart from one of the run."""
    code, text = said(capsys, lambda: parse_arguments(TOPOLOGY, words))

    assert code == 2 and message in text and "Traceback" not in text
