"""Queries that are run once: from stores, tables and streams as of one moment to rows."""
