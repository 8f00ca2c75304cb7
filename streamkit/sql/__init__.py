"""SQL: ksqlDB's statements over Spark's expressions, read into trees, and lowered to the streams and tables of `dsl`."""
