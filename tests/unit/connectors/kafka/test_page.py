"""The page for users about Kafka prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.documented import run_page

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "kafka.md"

pytestmark = pytest.mark.foreign("kafka")


def test_page_prints_what_it_shows(tmp_path, monkeypatch, broker):
    """The page runs from top to bottom with a broker: rows go to Kafka and come back."""
    monkeypatch.chdir(tmp_path)

    assert run_page(PAGE, tmp_path, {"__name__": "page"}, {"localhost:9092": broker.address}) == 1
