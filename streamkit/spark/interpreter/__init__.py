"""A folder on the PYTHONPATH of the Python processes that Spark starts."""
