"""Promises of programs that are forked off: what a process of its own would do, at once."""

from __future__ import annotations

import signal

from tests.kit.program import Program

ECHO = "import sys\nprint('ready', *sys.argv[1:], flush=True)\nprint(sys.stdin.read())\nsys.exit(3)"


def test_a_program_has_arguments_input_output_and_an_exit_code():
    """It reads what it is given and ends as it says; asked again, it has nothing more to say."""
    program = Program(None, "one", "two", code=ECHO)
    assert program.stdout.readline() == "ready one two\n" and program.poll() is None
    assert (program.communicate("text"), program.returncode) == (("text\n", None), 3)
    assert program.communicate() == ("", None)


def test_a_program_can_be_killed():
    """Its end is the signal's, its pipes are closed then, and a second signal goes nowhere."""
    program = Program(None, code=ECHO)
    assert program.stdout.readline() == "ready\n"
    program.kill()
    assert (program.communicate(), program.returncode) == (("", None), -signal.SIGKILL)
    program.kill()


def test_an_error_ends_a_program_with_one():
    """What it raises is no silent success."""
    assert Program(None, code="raise ValueError('on purpose')").wait() == 1


def test_programs_do_not_know_what_a_test_has_patched(monkeypatch):
    """They are forked off a process that has none of it."""
    monkeypatch.setattr("tests.kit.places.KINDS", ())
    code = "import tests.kit.places\nprint(len(tests.kit.places.KINDS), __name__)"
    assert Program(None, code=code).communicate() == ("3 __main__\n", None)
