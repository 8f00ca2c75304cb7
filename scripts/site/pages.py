"""The pages of the repository as pages of the site: where each goes, and where its links lead then."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = (
    "start",
    "learn",
    "how-to",
    "coming-from",
    "reference",
    "explain",
    "inside",
)  # folders of docs/ that are parts of the site
AT_THE_ROOT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
ASSETS = (".svg", ".png", ".json", ".css")
LINK = re.compile(r"(!?)\[((?:[^\]\\]|\\.)*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2\n", re.MULTILINE | re.DOTALL)


def sources() -> list[Path]:
    """All files that the site is made of, from the root of the repository."""
    files = [path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", *ASSETS}]
    notebooks = (ROOT / "notebooks").glob("*.ipynb")
    return [Path(name) for name in AT_THE_ROOT] + sorted(path.relative_to(ROOT) for path in (*files, *notebooks))


def place_of(source: Path) -> Path | None:
    """Where a file of the repository is in the site; None if the site does not have it."""
    if source.as_posix() in AT_THE_ROOT:
        return Path("inside", source.name.lower())
    if source.parts[0] == "notebooks" and source.suffix == ".ipynb":
        return Path("learn", f"{source.stem}.md")
    if source.parts[0] != "docs" or source.suffix not in {".md", *ASSETS}:
        return None
    below = source.relative_to("docs")
    return below if below.as_posix() == "index.md" or below.parts[0] in PARTS else Path("inside", below)


def moved(source: Path, text: str) -> str:
    """The text of a page with links that lead to the same pages in the site; a link to a file outside of it becomes its text."""
    place = place_of(source)
    assert place is not None
    pieces, end = [], 0
    for block in FENCED.finditer(text):
        pieces += [_relinked(source, place, text[end : block.start()]), block.group()]
        end = block.end()
    return "".join([*pieces, _relinked(source, place, text[end:])])


def _relinked(source: Path, place: Path, prose: str) -> str:
    def link(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or not path:
            return found.group()
        aim = Path(os.path.normpath(source.parent / path))
        if not (ROOT / aim).exists():
            return found.group()  # the build says that it leads nowhere
        goal = place_of(aim)
        if goal is None or not (ROOT / aim).is_file():
            return label
        return f"{picture}[{label}]({os.path.relpath(goal, place.parent)}{mark}{anchor})"

    return LINK.sub(link, prose)
