"""What a start makes of the state of the start before: kept, filled, migrated, or refused."""

from __future__ import annotations
