"""What keeps a log small and quick: merge, compaction, retention, trash and orphans."""

from __future__ import annotations
