"""Functions of texts and bytes."""

from __future__ import annotations
