"""Writing: producers, their drafts, transactions and receipts."""

from __future__ import annotations
