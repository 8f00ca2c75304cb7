"""Functions of arrays, maps and structs, and lambdas over them."""

from __future__ import annotations
