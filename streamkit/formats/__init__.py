"""Formats of values: bytes as typed columns and back, plain or in the wire format of a schema registry."""
