"""Check, backup, rebuild and repair of a log."""

from __future__ import annotations
