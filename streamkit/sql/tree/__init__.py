"""Statements and queries as values: a script as it is written, before anything is known about topics and types."""
