"""Rows between operators: batches with their places in the order, and how they travel from task to task."""

from __future__ import annotations
