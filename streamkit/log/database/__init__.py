"""The database below the catalog, SQLite or PostgreSQL, its place, and the heartbeats beside it."""

from __future__ import annotations
