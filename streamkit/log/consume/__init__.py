"""Reading: snapshots, consumers, groups and pins."""

from __future__ import annotations
