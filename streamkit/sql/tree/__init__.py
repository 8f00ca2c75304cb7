"""Statements and queries as values: what a script says, before anything is known about topics and types."""
