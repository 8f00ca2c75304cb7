"""`make demo-cdc`: what PostgreSQL has arrives in Delta Lake and Kafka, though the topology between them is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.sampling import TAKES_ALL

SCRIPT = Path(__file__).parents[3] / "scripts" / "demo_cdc.py"


@pytest.mark.skipif(not TAKES_ALL, reason="starts PostgreSQL and a broker: make torture")
def test_sums_are_equal():
    """After two kills the sums in all three systems are the same."""
    answer = subprocess.run([sys.executable, str(SCRIPT)], check=False, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count(": equal") == 2
