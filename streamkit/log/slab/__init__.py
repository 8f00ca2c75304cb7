"""Slabs and the frames in them: bytes, checks, references and extents."""

from __future__ import annotations
