"""Queries that go on: rows as they come, for as long as somebody looks."""
