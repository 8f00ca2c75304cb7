"""Rows whose times alone say which windows hold them, or that have none: folded by columns, or by functions."""
