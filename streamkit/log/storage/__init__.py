"""Where files lie: one folder, memory, or copies on several storage roots."""

from __future__ import annotations
