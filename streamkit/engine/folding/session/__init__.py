"""Rows in sessions, which they extend, begin and merge: which sessions there are, then folded by columns, or by functions."""
