"""Finding the topology in a file."""

from __future__ import annotations

import sys

import pytest

import streamkit as sk
from streamkit.cli.topology_file import load_topology
from streamkit.dsl.handover import hand_over
from streamkit.errors import ConfigError, TopologyError

ONE = "import streamkit as sk\nanything = sk.Topology('late-flights')\nagain = anything\n"


@pytest.fixture(autouse=True)
def _leave_no_module(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_topology_is_found_under_any_name(tmp_path):
    """The one topology is found whatever its name, also if it has two."""
    file = tmp_path / "flow.py"
    file.write_text(ONE)

    assert load_topology(str(file)).name == "late-flights"


def test_neighbours_can_be_imported(tmp_path):
    """A file may import what lies beside it, as when Python runs it."""
    (tmp_path / "beside_the_flow.py").write_text("NAME = 'from-beside'\n")
    file = tmp_path / "flow.py"
    file.write_text("import streamkit as sk\nimport beside_the_flow\napp = sk.Topology(beside_the_flow.NAME)\n")

    assert load_topology(str(file)).name == "from-beside"


def test_main_does_not_run(tmp_path):
    """The part of a file that runs it as a program is left alone."""
    file = tmp_path / "flow.py"
    file.write_text(ONE + "if __name__ == '__main__':\n    raise SystemExit('ran')\n")

    assert load_topology(str(file)).name == "late-flights"


def test_unguarded_main_hands_the_topology_over(tmp_path):
    """A file that ends in a bare `sk.main(app)` is loaded, not run; of several topologies that one is meant."""
    file = tmp_path / "flow.py"
    file.write_text(ONE + "other = sk.Topology('b')\nsk.main(other)\n")

    assert load_topology(str(file)).name == "b"


def test_main_runs_again_behind_a_file_that_fails(tmp_path):
    """A file that raises leaves nothing behind: `sk.main` outside of it is not handed to anybody."""
    file = tmp_path / "flow.py"
    file.write_text("1 / 0\n")
    with pytest.raises(TopologyError):
        load_topology(str(file))

    assert not hand_over(sk.Topology("flow"))


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", 2),
        (
            ONE + "anything.stream('in').filter('a', names='b')\n",
            "TypeError: StreamOrTable.filter.* unexpected keyword argument 'names'",
            4,
        ),
        ("x = (\n", "SyntaxError: '\\(' was never closed", 1),
        ("import other_that_fails\n", "KeyError: 'x'", 2),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(tmp_path, text, message, line):
    """Whatever a file raises is an error of StreamKit that names it, and the innermost line of the user's, not those of libraries."""
    (tmp_path / "other_that_fails.py").write_text("import json\njson.loads('{}')['x']\n")
    file = tmp_path / "flow.py"
    file.write_text(text)

    with pytest.raises(TopologyError, match=f"flow.py fails: {message}") as caught:
        load_topology(str(file))
    assert caught.value.at is not None and caught.value.at.line == line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE + "sk.main(again)\nsk.main(sk.Topology('b'))\n", "has the topologies: late-flights, b; expected one"),
        ("x = 1\n", r"has the topologies: none; expected one at module level, as in app = sk.Topology\('flow'\)"),
        (ONE + "other = sk.Topology('b')\n", "has the topologies: anything, other; expected one"),
    ],
)
def test_other_than_one_is_refused(tmp_path, text, message):
    """No topology, and more than one, are refused with what was found."""
    file = tmp_path / "flow.py"
    file.write_text(text)

    with pytest.raises(ConfigError, match=message):
        load_topology(str(file))


@pytest.mark.parametrize(("name", "message"), [("none.py", "there is no file"), ("flow.txt", "is no Python file")])
def test_what_is_no_python_file_is_refused(tmp_path, name, message):
    """A file that is not there, and one that is no Python file, are refused."""
    (tmp_path / "flow.txt").write_text(ONE)

    with pytest.raises(ConfigError, match=message):
        load_topology(str(tmp_path / name))
