"""
Compare families, or files of SQL texts, with Spark, and print what differs.

    python -m tests.unit.expressions.parity [--zone ZONE] [FAMILY | FILE …]
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

from tests.unit.expressions.parity.columns import rows
from tests.unit.expressions.parity.comparison import differences
from tests.unit.expressions.parity.families import FAMILIES, read_family
from tests.unit.expressions.parity.oracle import in_spark


def main():
    parser = argparse.ArgumentParser(description="Compare expressions with Spark.")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--zone", default="UTC")
    options = parser.parse_args()
    texts = [text for name in options.families or FAMILIES for text in FAMILIES.get(name) or read_family(name)]
    batch = rows()
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    expected = in_spark(spark, batch, texts, options.zone)
    wrong = {text: lines for text in texts if (lines := differences(text, expected[text], batch, options.zone))}
    print("\n".join(line for lines in wrong.values() for line in lines))
    print(f"{len(texts) - len(wrong)} of {len(texts)} expressions are as in Spark")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
