"""The page for users about PostgreSQL prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.documented import run_page

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "postgres.md"

pytestmark = pytest.mark.foreign("postgres")


def test_page_prints_what_it_shows(tmp_path, monkeypatch, url):
    """The page runs from top to bottom with a server: rows come, and an update of one changes the total."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP", url)

    assert run_page(PAGE, tmp_path, {"__name__": "page"}) == 1
