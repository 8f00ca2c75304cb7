"""The log: topics of typed rows in checked, immutable files, made visible by one transactional catalog."""

from __future__ import annotations
