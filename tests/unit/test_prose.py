"""Promises about the pages: lines that can be read at a glance, plain words, links and paths that lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from scripts.site.reference.write import FOLDER, made

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINE_LENGTH_MAX = 160
MADE = "<!-- Made from the code"  # pages of docs/reference, whose sentences are those of docstrings and of the command line
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WORDS = re.compile(r"\b(anew|mend(s|ed|ing)?|befall?s?|befell|lest|belongs? into|what is no(?! longer))\b", re.IGNORECASE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SENTENCE_END = re.compile(r"[^\s\d.][.!?] (?=[A-Z])")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"\.?\w[\w.-]*(/[\w.-]+)*/?")
# Where the pages' paths start, and the folders that are ours: `build/` and the folders of a log are not
TOPS = (ROOT, ROOT / "streamkit")
CODE = {"connectors", "state", "streamkit", "tests", "topologies"}
FOLDERS = {".ci", "conf", "connectors", "docs", "notebooks", "scripts", "state", "streamkit", "tests", "topologies"}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def written_pages():
    """The pages that nobody makes from the code."""
    return [page for page in PAGES if not page.read_text(encoding="utf-8").startswith(MADE)]


def prose_of(page):
    """The text of a page without its code, every line where it was."""
    text = page.read_text(encoding="utf-8")
    return FENCED.sub(lambda block: "\n" * block.group().count("\n"), text)


def lines_of(page):
    """(number, line) of a page's prose; the cells of a table are lines of their own."""
    for number, line in enumerate(prose_of(page).splitlines(), 1):
        for cell in line.split(" | ") if line.startswith("|") else [line]:
            yield number, cell


def anchors_of(page):
    """The anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    for heading in HEADING.findall(prose_of(page)):
        anchor = re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
        yield f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
        seen[anchor] += 1


def leads_somewhere(page, link):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors_of(target))


def is_path(text):
    """Whether a text in backticks is meant as a file or a folder of ours."""
    folder = text.split("/")[0]
    ours = folder in FOLDERS or (ROOT / "streamkit" / folder).is_dir()
    return PATH.fullmatch(text) is not None and (text.endswith((".py", ".md")) or ("/" in text and ours))


def test_lines_of_prose_are_short():
    """A line of prose, or a cell of a table, has at most 160 characters."""
    long = [
        f"{name_of(page)}:{n}: {len(line)}"
        for page in written_pages()
        for n, line in lines_of(page)
        if len(line) > LINE_LENGTH_MAX
    ]

    assert long == []


def test_a_line_is_a_sentence():
    """A line holds one sentence at most, so that a change of the text is a change of its line; tables may hold more."""
    lines = [
        (page, n, line) for page in written_pages() for n, line in enumerate(prose_of(page).splitlines(), 1) if line[:1] != "|"
    ]

    assert [f"{name_of(page)}:{n}: {line}" for page, n, line in lines if SENTENCE_END.search(line)] == []


def test_words_are_plain():
    """The pages use none of the words that readers stumble on."""
    found = [f"{name_of(page)}:{n}: {word[0]}" for page in PAGES for n, line in lines_of(page) for word in WORDS.findall(line)]

    assert found == []


def test_words_of_the_code_are_plain():
    """Docstrings, comments and messages use none of these words either, in no Python file of ours."""
    files = sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py") if file != Path(__file__))
    lines = [(file, n, line) for file in files for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)]

    assert [f"{name_of(file)}:{n}: {line.strip()}" for file, n, line in lines if WORDS.search(line)] == []
    assert {file.relative_to(ROOT).parts[0] for file in files} == CODE


def test_links_lead_somewhere():
    """Every link from page to page names a file that is there, and a heading that it has."""
    links = [(page, link) for page in PAGES for link in LINK.findall(prose_of(page)) if "://" not in link]

    assert [f"{name_of(page)}: {link}" for page, link in links if not leads_somewhere(page, link)] == []
    assert links


def test_paths_are_there():
    """Every file or folder that a page names in backticks exists; the changelog may name what has gone."""
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    paths = [(page, text) for page in pages for text in QUOTED.findall(prose_of(page)) if is_path(text)]

    assert [f"{name_of(page)}: {text}" for page, text in paths if not any((top / text).exists() for top in TOPS)] == []
    assert paths


def test_every_page_is_found():
    """ARCHITECTURE.md leads to every page of docs/."""
    linked = set(LINK.findall(prose_of(ROOT / "ARCHITECTURE.md")))

    assert {name_of(page) for page in ROOT.glob("docs/*.md")} - linked == set()


def test_every_page_is_in_the_site():
    """The navigation in mkdocs.yml names every page of docs/; those that lie in docs/ itself and in no part of the site are `inside/…` there."""
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}

    assert {page for page in pages if page not in listed and f"inside/{page}" not in listed} == set()


def test_reference_is_up_to_date():
    """What lies in docs/reference is what the code gives: `make reference` writes it."""
    files = made()
    stale = [name for name, text in files.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text("utf-8") != text]

    assert stale == [], "run: make reference"
    assert {f"pictures/{file.name}" for file in (FOLDER / "pictures").iterdir()} <= set(files), "run: make reference"
