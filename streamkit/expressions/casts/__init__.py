"""From one type to another."""

from __future__ import annotations
