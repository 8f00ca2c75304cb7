"""What users hand in as records: checked, converted, timed and counted."""

from __future__ import annotations
