"""An epoch as a value: its slices and order, stream time, where the plan lies, and what the tasks report."""

from __future__ import annotations
