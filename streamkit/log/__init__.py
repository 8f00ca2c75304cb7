"""
The log: topics of typed rows in checked, immutable files, made visible by one transactional catalog.

It lies in rooms, each of which imports only from itself and those before it (`tests/unit/test_layers.py`):

    values        numbers, keys as bytes, sound texts, Python's values
    topic         the declaration of a topic, its settings, schema versions and formats
    database      SQLite or PostgreSQL, where they are, and the heartbeats beside them
    storage       where files lie: a folder, memory, several storage roots
    slab          files of frames, their bytes and checks
    rows          what users hand in as records
    catalog       the SQL of each noun, the transactions, the journal
    consume       readers, consumers, groups, pins
    maintenance   merge, compaction, retention, trash, orphans
    produce       producers, their drafts and receipts
    rescue        check, backup, rebuild, repair

At the root are `Log`, how it is opened, and what needs several rooms: statistics, upkeep, salvage.
"""

from __future__ import annotations
