"""The program as a whole: help, version, errors."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys

import pytest

import streamkit as sk
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import WAIT_SECONDS

WITHOUT_A_STREAM = """
import os, sys
from streamkit.cli.main import main

os.close({closed})
setattr(sys, ("stdin", "stdout", "stderr")[{closed}], None)  # as Python finds it
main()
"""
INTERRUPTED_WHILE_IT_LOADS = """
import os, signal, sys, time
{before}

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{loaded}":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            except BaseException:  # as an import may lose it
                pass

sys.meta_path.insert(0, Interrupt())
sys.argv = ["streamkit", *{arguments}]
from streamkit.cli.__main__ import main
main()
"""


def test_help_names_every_command(as_program):
    """Without a command the program says what there is."""
    _, out, err = as_program()

    assert [noun for noun in ("topics", "consume", "run", "explain", "apps", "store") if noun not in out + err] == []


@pytest.mark.parametrize("noun", [(), ("topics",), ("groups",), ("apps",), ("store",), ("storage",)], ids=" ".join)
def test_help_says_each_command_in_a_line(as_program, noun):
    """In the list of commands no sentence is cut off."""
    _, out, _ = as_program(*noun, "--help")
    lines = out.partition("Commands:")[2].strip().splitlines()

    assert lines and all(line.rstrip().endswith(".") and "..." not in line for line in lines)


def test_version(as_program):
    """The version is the package's."""
    assert as_program("--version")[:2] == (0, f"streamkit {sk.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("consume", "order"), "error: topic 'order' does not exist; there are customers, orders"),
        (("topics", "list", "--log", "/no/such/folder"), "error: there is no log at /no/such/folder; name one with log=, --log"),
        (
            ("apps", "describe", "x"),
            "error: application 'x' does not exist; there is none: an application appears with its first start",
        ),
        (("store", "get", "x", "y", "z"), "error: application 'x' does not exist"),
        (("run", "/no/such/file.py"), "error: there is no file '/no/such/file.py'; expected a Python file with a topology"),
    ],
)
def test_error_is_one_message(as_program, arguments, message):
    """An error on purpose is its message on standard error, code 1, and no traceback."""
    code, out, err = as_program(*arguments)

    assert (code, out) == (1, "")
    assert err.startswith(message)
    assert "Traceback" not in err


def test_looking_makes_no_log(as_program, tmp_path):
    """A command that only looks leaves no folder behind where there was none."""
    as_program("topics", "list", "--log", str(tmp_path / "none"))

    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_that_is_no_log_stays_as_it_is(as_program, tmp_path, prefix):
    """A folder of something else is not made a log by a look at it, and the message says how one is made."""
    (tmp_path / "letters").mkdir()
    code, out, err = as_program("topics", "list", "--log", f"{prefix}{tmp_path / 'letters'}")

    assert (code, out) == (1, "")
    assert (
        err.startswith(f"error: there is no log at {tmp_path / 'letters'}; name one with log=, --log")
        and "streamkit topics create" in err
    )
    assert list((tmp_path / "letters").iterdir()) == []


def test_what_the_operating_system_refuses_is_one_message(as_program, monkeypatch):
    """An OSError that nobody has put in words is one message too, which says what was refused and what to do."""

    def fail(location):
        raise PermissionError(errno.EACCES, "Permission denied", "/the/log")

    monkeypatch.setattr("streamkit.log.opening.has_log", fail)
    code, out, err = as_program("topics", "list")

    assert (code, out) == (1, "")
    assert err.startswith("error: the operating system refused a call: Permission denied (/the/log); expected that the user")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("consume", "orders", "--since", "9" * 20), 1, "error: found the time '99999999999999999999'; expected a date such as"),
        (("consume", "orders", "--since", "-" + "9" * 20), 1, "error: found the time"),
        (("consume", "orders", "--since", "9" * 5000), 1, "error: found the time"),
        (("offsets", "orders", "--at", "9" * 20), 1, "error: found the time '99999999999999999999'; expected a date such as"),
        (("consume", "orders", "--offset", "9" * 5000), 1, "error: found the offset"),
        (("groups", "reset", "g", "--topic", "orders", "--to", "9" * 20), 1, "error: found the offset"),
        (
            ("consume", "orders", "--max", "9" * 23, "--json"),
            2,
            "for --max: found 99999999999999999999999; expected a whole number",
        ),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_a_number_that_is_too_large_is_refused(as_program, arguments, code, message):
    """A number that nothing can be at is a wrong option, not a traceback."""
    found, out, err = as_program(*arguments)

    assert (found, out) == (code, "")
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("consume", "orders", "--format", "xml"), "found 'xml'; expected one of table, json, csv"),
        (("produce", "orders", "file", "--format", "xml"), "found 'xml'; expected one of csv, json, parquet"),
    ],
)
def test_a_word_that_is_no_choice_is_refused(as_program, arguments, message):
    """An option that takes one of a few words says what was found and what there is; help and completion know the words too."""
    code, out, err = as_program(*arguments)

    assert (code, out) == (2, "")
    assert message in err
    assert message.partition("one of ")[2].replace(", ", "|") in as_program(arguments[0], "--help")[1]


def test_wrong_option_is_a_usage_error(as_program):
    """A mistake on the command line ends with 2, as usual."""
    code, _, err = as_program("consume", "orders", "--max", "0")

    assert code == 2
    assert "--max" in err


@pytest.mark.parametrize(
    ("closed", "arguments", "message"),
    [
        (1, ("consume", "orders", "--json"), "error: standard output is closed; expected it open, as in > /dev/null\n"),
        (0, ("produce", "orders", "-", "--format", "csv"), "error: standard input is closed; expected records there"),
        (0, ("topics", "delete", "orders"), "Aborted"),
        (2, ("topics", "describe", "order"), ""),
    ],
    ids=["output", "input", "answer", "errors"],
)
def test_a_closed_stream_is_an_error(root, closed, arguments, message):
    """A standard stream that the shell has closed is one message or none where it is needed, and never a traceback."""
    if closed == 1 or TAKES_ALL:
        code = "from streamkit.cli.main import main; main()"
        command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-c", code, *arguments, "--log", str(root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        returned, said, errors = done.returncode, done.stdout, done.stderr
    else:
        without = WITHOUT_A_STREAM.format(closed=closed)
        returned, said, errors = Program(None, *arguments, "--log", str(root), code=without, has_errors=True).ended()

    assert (returned, said.strip()) == (1, "")
    assert message in errors and "Traceback" not in errors


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


@pytest.mark.parametrize(
    ("loaded", "arguments"), [("typer", ["--version"]), ("numpy", ["topics", "list"])], ids=["program", "command"]
)
def test_an_interrupt_while_it_loads_ends_it(loaded, arguments):
    """Ctrl-C right after the start ends the program with 130, and without a word, whether it loads itself or a command."""
    before = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    done = run_python(INTERRUPTED_WHILE_IT_LOADS.format(before=before, loaded=loaded, arguments=arguments))

    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_an_interrupt_that_is_ignored_does_not_end_it():
    """Where interrupts are ignored, as in the background of a script, they are while it loads, too."""
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = run_python(INTERRUPTED_WHILE_IT_LOADS.format(before=before, loaded="typer", arguments=["--version"]))

    assert (done.returncode, done.stdout, done.stderr) == (0, f"streamkit {sk.__version__}\n", "")


def test_an_interrupt_outside_of_the_commands_ends_it(as_program, monkeypatch):
    """Ctrl-C before the command line is read, or after its command has ended, ends the program with 130 and without a word."""

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("streamkit.cli.main.check_standard_streams", interrupt)

    assert as_program("--version") == (128 + signal.SIGINT, "", "")


def test_it_can_be_run_as_a_module():
    """`python -m streamkit.cli` is the program, too."""
    command = [sys.executable, "-m", "streamkit.cli", "--version"]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"streamkit {sk.__version__}\n"


def test_start_up_is_light():
    """
    The program alone loads no Arrow; with all commands, as each tab completion may, no pandas, no Spark and no database of state.

    A command that has nothing to do with connectors does not load what runs them.
    """
    code = (
        "import sys; from streamkit.cli import commands, main; print('pyarrow' in sys.modules); "
        "from streamkit.cli import consume; print('streamkit.connectors.runtime.worker' in sys.modules); "
        "list(map(commands.load, commands.HOMES)); "
        "print(*[name for name in ('pandas', 'pyspark', 'rocksdict', 'fastavro') if name in sys.modules])"
    )

    assert run_python(code).stdout.split() == ["False", "False"]
