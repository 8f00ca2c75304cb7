"""What all families of functions are made of: operations, types, literals, rows, groups."""

from __future__ import annotations
