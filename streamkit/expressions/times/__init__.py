"""Functions of days, times, time zones and intervals."""

from __future__ import annotations
