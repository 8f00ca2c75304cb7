"""Scripts in SQL, read into statements."""
