"""`streamkit sql` with a text, a file or standard input: rows as tables or JSON, errors with their place."""

from __future__ import annotations

import io
import json

import pytest

from streamkit.errors import ConfigError

CLICKS = "CREATE STREAM clicks (who STRING KEY, page STRING, n INT); INSERT INTO clicks VALUES ('ann', 'home', 1), ('bob', 'cart', NULL);"


def test_a_text_is_executed(streamkit):
    """Messages and tables are printed in the order of the statements."""
    out = streamkit("sql", "-e", f"{CLICKS} SELECT who, n FROM clicks WHERE who = 'ann'")

    assert [line.split() for line in out.splitlines() if line.strip()] == [
        ["Stream", "clicks", "reads", "the", "topic", "clicks,", "which", "is", "created", "with", "4", "partitions."],
        ["2", "rows", "for", "clicks."],
        ["who", "n"],
        ["───────"],
        ["ann", "1"],
        ["1", "row"],
    ]


def test_a_row_is_an_object_in_json(as_program):
    """With --json standard output has the rows alone, an object each; what statements did is told apart."""
    code, out, err = as_program("sql", "--json", "-e", CLICKS, "-e", "SELECT who, n FROM clicks ORDER BY who")

    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [{"who": "ann", "n": 1}, {"who": "bob", "n": None}]
    assert "note: 2 rows for clicks." in err


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_standard_input_is_read_as_a_file_is(as_program, monkeypatch, tmp_path, mark, ends):
    """With any line ends, also within texts, and with a mark of UTF-8 in front; other bytes are an error."""
    text = mark + ends.join(
        [b"CREATE STREAM lines (a STRING);", b"INSERT INTO lines VALUES ('x", b"y');", b"SELECT a FROM lines;"]
    )
    (tmp_path / "lines.sql").write_bytes(text)
    given = {"-f": tmp_path / "lines.sql"}
    outs = []
    for number, arguments in enumerate((("-f", str(given["-f"])), (), ("-f", "-"))):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        code, out, err = as_program("sql", "--json", *arguments, log=tmp_path / f"log{number}")
        assert code == 0, err
        outs.append(out)
    assert [json.loads(out) for out in outs] == [{"a": "x\ny"}] * 3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("SELECT 1".encode("utf-16"))))
    code, _, err = as_program("sql", log=tmp_path / "log0")
    assert code == 1
    assert "cannot read standard input: it is no text in UTF-8" in err


def test_a_query_that_goes_on_ends_with_its_limit(streamkit):
    """EMIT CHANGES with a LIMIT prints so many rows, and ends."""
    out = streamkit(
        "sql", "--json", "-e", CLICKS, "-e", "SET 'auto.offset.reset' = 'earliest'; SELECT who FROM clicks EMIT CHANGES LIMIT 2"
    )

    assert sorted(line for line in out.splitlines() if line.startswith("{")) == ['{"who": "ann"}', '{"who": "bob"}']


def test_persistent_queries_run_with_an_engine(streamkit):
    """With --engine the command runs the queries of the log, so rows of a table come."""
    count = "CREATE TABLE totals AS SELECT who, count(*) AS n FROM clicks WHERE who = 'ann' GROUP BY who"
    out = streamkit(
        "sql", "--json", "--engine", "local", "-e", f"{CLICKS} {count}", "-e", "SELECT who, n FROM totals EMIT CHANGES LIMIT 1"
    )

    assert [line for line in out.splitlines() if line.startswith("{")] == ['{"who": "ann", "n": 1}']
    assert "engine='fast'; expected 'local' or 'spark'" in str(_failure(streamkit))


def _failure(streamkit):
    with pytest.raises(ConfigError) as caught:
        streamkit("sql", "--engine", "fast", "-e", "SELECT 1")
    return caught.value


def test_errors_of_a_file_have_its_name(as_program, tmp_path):
    """All faults of a file are told with their class and their places in it, and nothing of it is done."""
    script = tmp_path / "shop.sql"
    script.write_text("CREATE STREAM clicks (who STRING KEY);\nSELECT nobody FROM clicks;\nDROP STREAM klicks;\n")
    code, out, err = as_program("sql", "-f", str(script))

    assert (code, out) == (1, "")
    assert err.startswith("SqlError: the script has 2 faults\n")
    assert f"{script}:2:8\n    SELECT nobody FROM clicks;\n           ^^^^^^\n" in err
    assert f"{script}:3:13" in err
    assert "Traceback" not in err


def test_standard_input_is_a_script(streamkit):
    """Without a text, a file and a terminal the statements are read from standard input."""
    assert "clicks" in streamkit("sql", answer=f"{CLICKS}\nSHOW STREAMS;")
    assert "clicks" in streamkit("sql", "-f", "-", answer="SHOW STREAMS;")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-e", "SELECT 1", "-f", "x.sql"), "expected one of the two"),
        (("--set", "auto.offset.reset", "-e", "SELECT 1"), "expected NAME=VALUE"),
    ],
)
def test_options_that_do_not_fit_are_told(streamkit, arguments, message):
    """Two texts at once and a setting without a value are refused."""
    assert message in streamkit("sql", *arguments, code=2)


def test_settings_are_given_as_options(as_program):
    """A setting counts as by SET; one that there is not ends the command before anything is done."""
    code, _, err = as_program("sql", "--set", "auto.offset.resett=earliest", "-e", "SELECT 1")

    assert code == 1
    assert "there is no setting 'auto.offset.resett'" in err and "did you mean 'auto.offset.reset'" in err


def test_null_is_no_empty_text(streamkit):
    """Null has a text of its own in tables of rows, also of rows as they come, and an empty text has none."""
    rows = "CREATE TABLE t (k STRING PRIMARY KEY, v STRING, n INT) WITH (PARTITIONS = 1); INSERT INTO t VALUES ('a', '', NULL), ('b', NULL, 7);"
    out = streamkit("sql", "-e", f"{rows} SELECT k, v, n FROM t ORDER BY k;", "-e", "SELECT k, v, n FROM t EMIT CHANGES LIMIT 2")

    shown = [line.split() for line in out.splitlines()]
    assert shown.count(["a", "null"]) == shown.count(["b", "null", "7"]) == 2


def test_numbers_are_printed_as_sql_reads_them(streamkit):
    """A year, an id and milliseconds have no commas, in the rows of a query that is run once and of one that goes on."""
    made = "CREATE STREAM s (id BIGINT KEY, year INT); INSERT INTO s VALUES (1795956160000, 2013); SET 'auto.offset.reset' = 'earliest';"
    out = streamkit("sql", "-e", f"{made} SELECT year, id FROM s; SELECT id, year + 10000 AS later FROM s EMIT CHANGES LIMIT 1")
    words = out.split()
    assert {"2013", "1795956160000", "12013"} <= set(words) and not any("," in one and one[0].isdigit() for one in words)


def test_facts_of_several_lines_stand_below_the_table(streamkit):
    """A statement as it was written, and an error with its line and carets, are printed line by line, and not with marks for their ends."""
    out = streamkit("sql", "-e", "CREATE STREAM s (id INT KEY,\n  v INT\n)", "-e", "DESCRIBE s EXTENDED")
    assert "statement:\nCREATE STREAM s (id INT KEY,\n  v INT\n)" in out
    assert "\\n" not in out
