"""Functions of numbers."""

from __future__ import annotations
