"""Functions that users wrote in Python."""

from __future__ import annotations
