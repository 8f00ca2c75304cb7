"""The pages of docs/reference that are made from the code: `make reference` writes them, and a test compares."""

from __future__ import annotations

from pathlib import Path

from scripts.site.pages import ROOT
from scripts.site.reference import commands, errors, functions, http, ksql_functions, settings, verbs

FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Made from the code by `make reference`. -->\n\n"


def made() -> dict[str, str]:
    """The texts of all files that are made, by their names below docs/reference."""
    pages = {
        "verbs": verbs,
        "functions": functions,
        "ksql-functions": ksql_functions,
        "settings": settings,
        "command-line": commands,
        "errors": errors,
        "http": http,
    }
    return {f"{name}.md": NOTE + module.page().rstrip() + "\n" for name, module in pages.items()} | verbs.pictures()


def write(folder: Path = FOLDER) -> None:
    """Write the files, and delete pictures that are made no more."""
    files = made()
    for picture in (folder / "pictures").glob("*.svg"):
        if f"pictures/{picture.name}" not in files:
            picture.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
