"""A topic: its declaration, settings, schema versions and formats."""

from __future__ import annotations
