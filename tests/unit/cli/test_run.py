"""`streamkit run` and `streamkit explain`."""

from __future__ import annotations

import pytest

from streamkit.engine.runs.options import AVAILABLE_NOW, Options
from streamkit.errors import TopicNotFoundError
from streamkit.launch.arguments import Arguments

COUNTS = """
import streamkit as sk

app = sk.Topology("order-counts")
app.stream("orders").group_by("customer").count(store="orders_of").to("counts")
"""


@pytest.fixture
def file(tmp_path):
    """A file with a topology over the topic orders."""
    file = tmp_path / "order_counts.py"
    file.write_text(COUNTS)
    return str(file)


def test_explain_shows_every_pass(streamkit, file):
    """An explanation goes from the topology to the program, and runs nothing."""
    output = streamkit("explain", file)

    assert "== Spark ==" not in output
    assert (
        output.index("== topology ==")
        < output.index("== program ==")
        < output.index("changelog order-counts-orders_of-changelog")
    )
    assert "application" in streamkit("apps", "list")
    assert "order-counts" not in streamkit("apps", "list")


def test_explain_shows_the_plan_of_spark(streamkit, file, spark):
    """With --spark, the plan that Spark makes of the program comes last."""
    assert "StreamingRelation streamkit_epochs" in streamkit("explain", file, "--spark").partition("== Spark ==")[2]


def test_explain_needs_the_topics(streamkit, file, tmp_path):
    """A topology over a topic that is not there cannot be explained; the topics that are there are named."""
    (tmp_path / "order_counts.py").write_text(COUNTS.replace('"orders"', '"order"'))

    with pytest.raises(TopicNotFoundError, match=r"'order'.*customers, orders"):
        streamkit("explain", file)


def test_options_reach_the_run(streamkit, root, file, monkeypatch):
    """The options of `run` are those a topology file takes itself."""
    given = []
    monkeypatch.setattr("streamkit.cli.run.run_command", lambda topology, arguments: given.append((topology.name, arguments)))
    streamkit("run", file, "--tasks", "3", "--drain", "--log", str(root))
    streamkit("run", file, "--max-records-per-epoch", "1000", "--once", "--verbose")
    streamkit("run", file, "--local")

    assert given == [
        ("order-counts", Arguments(str(root), Options(3, drain=True), False, False)),
        ("order-counts", Arguments(None, Options(None, AVAILABLE_NOW, 1000), False, True)),
        ("order-counts", Arguments(None, Options(), True, False)),
    ]


@pytest.mark.parametrize("words", [("run",), ("explain",), ("consume",)])
def test_where_there_is_no_log_none_is_made(as_program, file, tmp_path, monkeypatch, words):
    """`run`, `explain` and `consume` in a folder without a log say so at once, and leave the folder as it was."""
    folder = tmp_path / "wrong"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("streamkit.cli.run.run_command", None)  # it would load Spark
    code, out, err = as_program(*words, file, "--log", ".streamkit")

    assert (code, out) == (1, "")
    assert (
        err.startswith(f"error: there is no log at {folder}/.streamkit; name one with log=, --log")
        and "streamkit topics create" in err
    )
    assert list(folder.iterdir()) == []


def test_a_topology_with_schemas_is_explained_without_a_log(as_program, file, tmp_path, monkeypatch):
    """Where there is no log, `explain` goes by what the sources say themselves, and makes no log; one that is named must be there."""
    (tmp_path / "order_counts.py").write_text(COUNTS.replace('"orders")', '"orders", schema="customer string", key="customer")'))
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    code, out, err = as_program("explain", file, log=".streamkit")

    assert code == 0, err
    assert "== program ==" in out and "note: there is no log at" in err
    assert as_program("explain", file, "--log", ".streamkit")[0] == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("typo", "message"),
    [
        ("F.uper('customer')", "did you mean F.upper"),
        ("F.col('customer').upper()", "expected F.upper(column)"),
        ("sk.Tabel()", "did you mean Table?"),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_typo_shows_the_nearest_names_and_the_line(as_program, file, tmp_path, command, typo, message):
    """A name that StreamKit does not have is told with the nearest and the user's line, not by a traceback."""
    (tmp_path / "order_counts.py").write_text(
        f"from streamkit import functions as F\n{COUNTS}app.stream('orders').select({typo}).to('other')\n"
    )
    code, out, err = as_program(command, file)

    assert (code, out) == (1, "")
    assert err.startswith("error: ") and message in err and f"at {file}:" in err and "Traceback" not in err
