"""Functions of JSON texts."""

from __future__ import annotations
