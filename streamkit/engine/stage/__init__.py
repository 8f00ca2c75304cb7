"""What runs one stage in a task: readers, kernels, the registry of operators, and the rows that made one fail."""

from __future__ import annotations
