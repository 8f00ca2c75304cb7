"""Values and columns of them: whole numbers, keys as bytes, sound texts, Python's values."""

from __future__ import annotations
