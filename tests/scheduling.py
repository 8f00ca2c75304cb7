"""Which tests go to which worker: whatever starts Spark to one, since a run has one JVM, the rest to whoever is free."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

STARTS_SPARK = re.compile(r"mark\.spark|^def \w+\(.*\bspark\b.*\):", re.MULTILINE)


class OneSparkScheduling(LoadScopeScheduling):
    """Tests of files that need Spark are one scope, which is the largest and so comes first; every other test is its own."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if starts_spark(self.config.rootpath / nodeid.split("::", maxsplit=1)[0]) else nodeid


@cache
def starts_spark(file: Path) -> bool:
    """Whether a test of the file is marked so, or asks for a session."""
    return bool(STARTS_SPARK.search(file.read_text(encoding="utf-8")))
