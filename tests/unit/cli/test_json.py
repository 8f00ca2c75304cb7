"""Every command that prints data prints JSON when it is asked to."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import streamkit as sk
from streamkit.cli.main import program
from streamkit.log import dead_letter

HELP = "Print JSON instead of tables."
SILENT = {("run",), ("standby",), ("serve",), ("sql", "serve")}  # they print how they go on; what serve answers is JSON anyway
ALWAYS = {("connect", "export")}  # prints JSON, and nothing else
TOPOLOGY = 'import streamkit as sk\n\napp = sk.Topology("flow")\napp.stream("orders").to("copies")\n'


def commands():
    """Every command of the program by its words, with its parameters."""
    found: dict[tuple[str, ...], list[Any]] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(program))]
    while waiting:
        words, command = waiting.pop()
        if hasattr(command, "list_commands"):
            waiting += [((*words, name), command.get_command(None, name)) for name in command.list_commands(None)]
        else:
            found[words] = command.params
    return found


COMMANDS = commands()
ARGUMENTS = {
    ("topics", "list"): [],
    ("topics", "describe"): ["orders"],
    ("topics", "create"): ["new", "--schema", "n int"],
    ("topics", "alter"): ["orders", "--partitions", "2"],
    ("topics", "delete"): ["orders", "--yes"],
    ("init",): ["{folder}/orders.csv", "--topic", "sales", "--folder", "{folder}"],
    ("produce",): ["orders", "{folder}/orders.csv"],
    ("consume",): ["customers", "--headers"],
    ("compact",): ["customers"],
    ("offsets",): ["orders", "--at", "2023-11-14T22:14:20Z"],
    ("groups", "list"): [],
    ("groups", "describe"): ["billing"],
    ("groups", "reset"): ["billing", "--to", "earliest"],
    ("groups", "delete"): ["billing", "--yes"],
    ("explain",): ["{folder}/flow.py"],
    ("plan",): ["{folder}/flow.py"],
    ("trace",): ["{folder}/flow.py"],
    ("stats",): [],
    ("maintain",): [],
    ("apps", "list"): [],
    ("apps", "describe"): ["order-counts"],
    ("apps", "history"): ["order-counts"],
    ("apps", "programs"): ["order-counts"],
    ("apps", "reset"): ["order-counts", "--yes"],
    ("apps", "take-over"): ["second", "--yes"],
    ("store", "list"): [],
    ("store", "get"): ["order-counts", "hourly", "1001"],
    ("store", "history"): ["order-counts", "hourly", "1001"],
    ("store", "stats"): ["order-counts"],
    ("store", "verify"): ["order-counts"],
    ("store", "scan"): ["order-counts", "hourly"],
    ("store", "count"): ["order-counts", "hourly"],
    ("storage", "list"): [],
    ("storage", "set"): ["{folder}/second"],
    ("storage", "repair"): [],
    ("fsck",): ["--deep"],
    ("backup",): ["{folder}/backup"],
    ("rebuild",): [],
    ("sql", "test"): ["{folder}/test.sql"],
    ("connect", "run"): ["{folder}/connectors.json", "--once"],
    ("connect", "validate"): ["{folder}/connectors.json"],
    ("connect", "list"): [],
    ("connect", "status"): [],
    ("connect", "pause"): ["loads"],
    ("connect", "stop"): ["loads"],
    ("connect", "resume"): ["loads"],
    ("connect", "restart"): ["loads"],
    ("connect", "offsets", "show"): ["loads"],
    ("connect", "offsets", "set"): ["loads", "{folder}/orders.csv", '{{"byte": 0}}'],
    ("connect", "offsets", "reset"): ["loads"],
    ("dlq", "list"): [],
    ("dlq", "show"): ["broken"],
    ("dlq", "replay"): ["broken", "--dry-run"],
}
WITH_APPLICATION = {
    ("apps", "list"), ("apps", "describe"), ("apps", "history"), ("apps", "programs"), ("apps", "reset"), ("apps", "take-over"),
    ("store", "list"), ("store", "get"), ("store", "history"), ("store", "scan"), ("store", "count"), ("store", "stats"), ("store", "verify"),
}  # fmt: skip


def strict(text):
    """JSON as the standard has it, which knows no NaN."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def prepared(request, root, tmp_path, words):
    """A log in which the command has something to do."""
    if words in WITH_APPLICATION:
        request.getfixturevalue("application")
    (tmp_path / "orders.csv").write_text("customer,number,amount\nann,1,nan\n")
    (tmp_path / "flow.py").write_text(TOPOLOGY)
    (tmp_path / "test.sql").write_text("CREATE STREAM s (a INT); INSERT INTO s VALUES (1); ASSERT VALUES s VALUES (1);")
    with sk.open_log(root) as log:
        log.groups.reset("billing", {"orders": {0: 1}})
        log.create_topic("broken", dead_letter.SCHEMA, partitions=1)
        if words == ("apps", "take-over"):
            log.catalog.applications.start(
                "second", tasks=None, default_tasks=1, key_groups=128, program_hash="", stores=[], follows="order-counts"
            )
    loads = {"connector.class": "FileSource", "path": str(tmp_path / "orders.csv"), "topic": "loaded"}
    (tmp_path / "connectors.json").write_text(json.dumps({"name": "loads", "config": loads}))
    return root


def test_every_command_is_known_here():
    """A command that is added is tried here too."""
    assert set(COMMANDS) == set(ARGUMENTS) | SILENT | ALWAYS


@pytest.mark.parametrize("words", sorted(set(COMMANDS) - SILENT - ALWAYS), ids=" ".join)
def test_every_command_has_the_option(words):
    """Each has the one option --json, in the same words."""
    (option,) = [parameter for parameter in COMMANDS[words] if "--json" in parameter.opts]

    assert option.help == HELP


@pytest.mark.parametrize(
    "words",
    sorted(ARGUMENTS),
    ids=" ".join,
)
def test_every_command_prints_json(streamkit, prepared, tmp_path, words):
    """What is printed with --json is one document, or one a line; nothing is beside it."""
    if words[0] == "connect":
        streamkit("connect", "run", str(tmp_path / "connectors.json"), "--once")
    if words == ("storage", "repair"):
        streamkit("storage", "set", str(tmp_path / "second"))
    if words == ("rebuild",):
        (prepared / "catalog.db").unlink()
    arguments = [argument.format(folder=tmp_path) for argument in ARGUMENTS[words]]
    result = CliRunner().invoke(
        program, [*words, *arguments, "--json"], env={"STREAMKIT_LOG": str(prepared)}, catch_exceptions=False
    )
    output = result.stdout

    assert result.exit_code == 0, result.output
    lines = {("consume",): 2, ("dlq", "show"): 0}.get(words, 1)
    assert output.count("\n") == lines and output.endswith("\n" * min(1, lines))
    assert all(strict(line) is not None for line in output.splitlines())


def test_questions_are_no_part_of_the_data(root, application):
    """A question that is asked before goes to the error stream."""
    for words in (("topics", "delete", "orders"), ("apps", "reset", application)):
        result = CliRunner().invoke(program, [*words, "--json"], env={"STREAMKIT_LOG": str(root)}, input="y\n")
        assert "?" in result.stderr and "?" not in result.stdout
        strict(result.stdout.splitlines()[-1])  # behind the answer, which the runner repeats as a terminal does


def test_lists_of_nothing_are_lists(streamkit, root, tmp_path):
    """In an empty log, lists are empty lists."""
    shutil.rmtree(root)
    with sk.open_log(root):
        pass

    for words in (("topics", "list"), ("groups", "list"), ("apps", "list")):
        assert json.loads(streamkit(*words, "--json")) == []
