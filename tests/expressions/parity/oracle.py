"""What Spark makes of expressions: the type of each, whether it can be null, and its value or failure in every row."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streamkit.data_type import normalise_type
from tests.expressions.parity.cells import FAILED, cells

RULES = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification", "SimplifyConditionals", "PushFoldableIntoBranches", "ConstantFolding", "NullPropagation", "OptimizeIn",
        "SimplifyBinaryComparison", "ReorderAssociativeOperator", "SimplifyCasts", "SimplifyCaseConversionExpressions", "ConstantPropagation",
        "ReplaceNullWithFalseInPredicate", "SimplifyConditionalsInPredicate", "UnwrapCastInBinaryComparison", "LikeSimplification",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What Spark says of an expression; `refused` is its reason if it does not analyse it; all else is empty then."""

    type: str = ""
    nullable: bool = True
    cells: tuple[str, ...] = ()
    refused: str = ""


def in_spark(spark, batch, texts, zone="UTC"):
    """For each text what Spark makes of it, in a session whose time zone is `zone`."""
    session = _session(spark, zone)
    frame = session.createDataFrame(pa.Table.from_batches([batch.drop_columns(["nothing"])])).selectExpr("*", "NULL AS nothing")
    found = {}
    analysed = {}
    for text in texts:
        try:
            field = frame.selectExpr(f"{text} AS r").schema["r"]
            analysed[text] = (normalise_type(field.dataType.simpleString()), field.nullable)
        except Exception as error:
            found[text] = Expected(refused=str(error).splitlines()[0])
    columns = [_tried(session, text).alias(f"r{place}") for place, text in enumerate(analysed)]
    table = frame.select(*columns).toArrow().combine_chunks()
    for place, (text, (type, nullable)) in enumerate(analysed.items()):
        found[text] = Expected(type, nullable, tuple(_spark_cells(table.column(place).combine_chunks())))
    return found


def _session(spark, zone):
    session = spark.newSession()
    settings = {
        "spark.sql.session.timeZone": zone,
        "spark.sql.ansi.enabled": "true",
        "spark.sql.optimizer.excludedRules": RULES,  # they may drop a part that would fail
        "spark.sql.codegen.wholeStage": "false",  # compiling 700 columns takes longer than interpreting them
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _tried(session, text):
    """The value in an array of one; null instead of the array where it fails."""
    from pyspark.sql import Column, functions

    jvm = session._jvm
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    wrapped = functions.array(functions.expr(text))
    return Column(expressions.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expressions.expression(wrapped._jc))))


def _spark_cells(tried):
    values = iter(cells(tried.flatten()))
    return [next(values) if valid else FAILED for valid in tried.is_valid().to_pylist()]
