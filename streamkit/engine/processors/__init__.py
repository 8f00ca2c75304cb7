"""What the calls of a user's processor see: its context and its stores."""

from __future__ import annotations
