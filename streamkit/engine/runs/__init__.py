"""From a topology to a run: compile, start, plan an epoch, commit it, on Spark or in one process."""

from __future__ import annotations
