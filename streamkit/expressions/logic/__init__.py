"""Conditions, comparisons and assertions."""

from __future__ import annotations
