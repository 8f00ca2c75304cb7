"""What aggregates and joins share: windows, groups, sessions, versions, and the changes of tables."""

from __future__ import annotations
