"""Rows in sliding windows, which depend on the rows: which windows there are, then folded by columns, or by functions."""
