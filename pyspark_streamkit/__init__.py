"""
Where Spark finds `format("streamkit")` by itself: it looks for top-level modules `pyspark_…` with a `DefaultSource`.

Every session that reads any Python data source imports this module once, so it must be light and must not fail.
"""

from streamkit.spark.dataframe.source import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
