"""ksqlDB's meaning of what the ksql dialect reads."""
