"""Records in files: CSV, JSON lines, Parquet."""
