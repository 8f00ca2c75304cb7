"""From queries as values to streams and tables of `dsl`."""
