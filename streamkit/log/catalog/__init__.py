"""The catalog: SQL by noun, one transaction a method, and the journal of what changed it."""

from __future__ import annotations
