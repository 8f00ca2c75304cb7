"""
Random cases with what Kafka Streams itself gave for each step.

`data/recorded.json.gz` names the version and the seeds. A step at which Kafka Streams failed expects `{"error": …}`, and is the last.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "data" / "recorded.json.gz"


def recorded() -> list[dict[str, Any]]:
    """All cases."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
    return cases
