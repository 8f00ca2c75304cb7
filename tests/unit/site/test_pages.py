"""Every page for users is run from top to bottom, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkit.errors import SqlError
from tests.kit.documented import blocks_of, needs_of, run_page

DOCS = Path(__file__).parents[3] / "docs"
PARTS = ("start", "how-to", "coming-from", "explain")
PAGES = [*sorted(page for part in PARTS for page in (DOCS / part).glob("*.md")), DOCS / "sql.md"]
LOCAL = [page for page in PAGES if not needs_of(page)]
ON_SPARK = [page for page in PAGES if needs_of(page) == {"spark"}]
ELSEWHERE = {"kafka", "postgres"}  # tests/unit/connectors/test_pages.py


def name_of(page):
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, in which no setting of the environment holds."""
    monkeypatch.chdir(tmp_path)
    for name in ("STREAMKIT_LOG", "STREAMKIT_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("page", LOCAL, ids=name_of)
def test_page_prints_what_it_shows(page, folder):
    """The blocks of a page run in their order, and print just what stands below them."""
    run_page(page, folder, {"__name__": "page"})


@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK, ids=name_of)
def test_page_prints_what_it_shows_on_spark(page, folder, spark):
    """The same of a page that has a session of Spark."""
    run_page(page, folder, {"__name__": "page", "spark": spark})


def test_every_page_is_run():
    """What a page needs is there in one of the tests, and how-to pages have something to run."""
    needs = {need for page in PAGES for need in needs_of(page)}
    silent = [name_of(page) for page in PAGES if page.parent.name == "how-to" and not any(map(is_run, blocks_of(page)))]

    assert needs <= {"spark", *ELSEWHERE}
    assert silent == ["how-to/index"]


def is_run(block):
    return block.file is None and block.language in ("python", "console", "sql")


WRONG = [
    ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "prints:\n1"),
    ("```python\nprint(1)\n```\n\nand\n\n```text\n1\n```\n", "prints:\n1"),
    ("```python\nx = 1\n```\n\n```text\n1\n```\n", "prints:\n$"),
    ("```console\n$ streamkit topics --help\nnothing\n```\n", "prints:"),
    ("```console\n$ ls\n```\n", "'ls' is not run"),
]


@pytest.mark.parametrize(("text", "found"), WRONG)
def test_another_output_is_found(folder, text, found):
    """An output that is another one, missing, or of no block is an error, and so is a command that nobody would run."""
    page = folder / "page.md"
    page.write_text(text)

    with pytest.raises(AssertionError, match=found.replace("$", "")):
        run_page(page, folder, {})


def test_statements_are_executed(folder):
    """A block of SQL is executed behind the statements of the comment before it, each in a log of its own."""
    page = folder / "page.md"
    made = "<!-- before: CREATE STREAM s (a INT); INSERT INTO s VALUES (1); -->\n\n```sql\nSELECT a FROM s;\n```\n"
    page.write_text(made * 2)
    assert run_page(page, folder, {}) == 2

    page.write_text(made + "```sql\nSELECT a FROM s;\n```\n")
    with pytest.raises(SqlError, match="there is no stream, table or topic 's'"):
        run_page(page, folder, {})


def test_blocks_share_their_names(folder):
    """A block sees what those before it have made, files too; an error names the line of the page."""
    page = folder / "page.md"
    file = '```csv title="a/b.csv"\nx\n```\n'
    made = "```python\nfrom pathlib import Path\nx = 1\n```\n"
    seen = '```python\nprint(x, Path("a/b.csv").read_text())\n```\n\n```text\n1 x\n\n```\n'
    page.write_text(file + made + seen)
    assert run_page(page, folder, {}) == 2

    page.write_text("# A page\n\n```python\nx = 1\nraise ValueError(x)\n```\n")
    with pytest.raises(ValueError) as failed:
        run_page(page, folder, {})
    assert (failed.traceback[-1].path, failed.traceback[-1].lineno + 1) == (page, 5)
