"""From what a user wrote, SQL text too, to typed expressions and their evaluation."""

from __future__ import annotations
