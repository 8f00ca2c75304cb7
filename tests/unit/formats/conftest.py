"""Formats are tested with a few values, which Arrow's reader of JSON is to read too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamkit.formats import json_columns


@pytest.fixture(autouse=True, scope="package")
def _arrow_reads_few_bytes() -> Iterator[None]:
    few, json_columns.FEW_BYTES = json_columns.FEW_BYTES, 0
    yield
    json_columns.FEW_BYTES = few
