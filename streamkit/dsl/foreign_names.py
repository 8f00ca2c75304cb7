"""What to call instead of a verb of Kafka Streams, PySpark or Faust, or of one that is not there yet."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from streamkit.errors import TopologyError, UnknownVerbError
from streamkit.names import snake_case
from streamkit.plan.location import user_location
from streamkit.plan.store_kinds import CALLED

_FILTER, _COLUMNS, _TO = "filter(condition)", "with_columns(name=expression)", 'to("topic")'
_LATEST = 'emit("latest"), or emit("every") for a row of every change'
_COMMAND = 'to("topic"), and then: streamkit consume topic'
_WINDOWS_OF_CHANGES = (
    'to_stream() of the table, because changes can have windows: table.to_stream().group_by("column").windowed_by(…)'
)
_ONLY_STREAMS = (
    "map",
    "flat_map",
    "flat_map_values",
    "process",
    "process_values",
    "merge",
    "peek",
    "foreach",
    "select_key",
    "without_key",
    "split",
    "repartition",
    "map_batches",
)
_OF_BOTH = {
    "where": _FILTER, "filter_expr": _FILTER, "with_column": _COLUMNS, "assign": _COLUMNS, "select_expr": "select(…)",
    "with_column_renamed": 'rename(old="new")', "with_columns_renamed": 'rename(old="new")', "to_df": 'rename(old="new")',
    "left_join": 'join(table, how="left")', "inner_join": "join(table)", "outer_join": 'join(table, how="outer")', "cross_join": "join(table)",
    "alias": 'named("name")', "show": _COMMAND, "collect": _COMMAND, "to_pandas": _COMMAND, "foreach_batch": _TO, "write_stream": _TO,
    "write": _TO, "sink": _TO, "produce": _TO, "agg": 'group_by("column").agg(…)', "count": 'group_by("column").count()',
}  # fmt: skip
FOREIGN: dict[str, dict[str, str]] = {
    "Stream": _OF_BOTH | {
        "union": "merge(stream)", "union_all": "merge(stream)", "union_by_name": "merge(stream)", "combine": "merge(stream)",
        "through": 'to("topic"), and then stream("topic") of the topology', "key_by": 'select_key("column")',
        "transform_values": 'map_values(function, schema="column type")', "aggregate": 'group_by("column").aggregate(initial, update, schema)',
        "reduce": 'group_by("column").reduce(function)', "cogroup": 'group_by("column").cogroup(update)',
        "with_watermark": 'group_by("column").windowed_by(sk.tumbling("1 hour", grace="10 minutes"))', "echo": _TO,
        "explode": 'flat_map(F.explode("column"))', "branch": 'split().branch(condition, "name").default("rest")',
        **dict.fromkeys(("map_in_arrow", "map_in_pandas", "map_partitions"), 'map_batches(function, schema="column type")'),
        "transform": 'process(processor, schema="column type")', "flat_transform": 'process(processor, schema="column type")',
        "flat_transform_values": 'process_values(processor, schema="column type")',
        "drop_duplicates_within_watermark": 'drop_duplicates("column", within="1 hour")', "deduplicate": 'drop_duplicates("column", within="1 hour")',
        "windowed_by": 'group_by("column").windowed_by(…)', "dropna": 'filter("column IS NOT NULL")', "fillna": _COLUMNS,
        **dict.fromkeys(("temporal_join", "asof_join", "as_of_join"), 'join(table) with a table(topic, versioned="1 day")'),
        **dict.fromkeys(("interval_join", "window_join"), 'join(stream, within=sk.within("5 s", grace="0 s"))'),
    },
    "Table": _OF_BOTH | {
        **{verb: f"to_stream().{verb}(…)" for verb in _ONLY_STREAMS}, "windowed_by": 'to_stream().group_by("column").windowed_by(…)',
        "reduce": 'group_by("column").reduce(adder, subtractor)',
        "aggregate": 'group_by("column").aggregate(initial, adder, subtractor, schema)',
        "to_table": "to_stream(), since it is a table already", "print": "to_stream().print()",
        "queryable_store_name": 'store("name") of the run or of the log, with the name given by store=',
        "to_changelog_stream": "to_stream()", "changes": "to_stream()", "until_window_closes": "suppress(until=sk.window_closes())",
        "until_time_limit": 'suppress(until=sk.time_limit("5 minutes"))',
        "query": 'store("name") of the run or of the log', "transform_values": 'map_values(function, schema="column type")',
    },
    "GlobalTable": {name: call for name, call in _OF_BOTH.items() if call in (_FILTER, _COLUMNS)} | {"with_column_renamed": 'rename(old="new")'},
    "Split": {
        "default_branch": 'default("name")', "no_default_branch": "no_default()", "otherwise": 'default("name")', "when": 'branch(condition, "name")',
    },
    "Grouped": {
        "late_to": 'windowed_by(window, late_to="topic")',
        "emit_strategy": 'count() or agg(…), and then emit("final")',
        "window": "windowed_by(window)", "tumbling": "windowed_by(sk.tumbling(…))", "hopping": "windowed_by(sk.hopping(…))",
        **dict.fromkeys(("session", "session_window"), "windowed_by(sk.session(…))"), "sliding": "windowed_by(sk.sliding(…))",
        **{name: f'agg(name=F.{name}("column"))' for name in ("sum", "avg", "min", "max")}, "mean": 'agg(name=F.avg("column"))',
        "emit": 'count() or agg(…), and then emit("final")', "to": "count() or agg(…), and then to(topic)", "fold": "aggregate(initial, update, schema)",
    },
    "GroupedTable": {
        **{name: f'agg(name=F.{name}("column"))' for name in ("sum", "avg", "min", "max")}, "mean": 'agg(name=F.avg("column"))',
        "fold": "aggregate(initial, adder, subtractor, schema)",
        **dict.fromkeys(("windowed_by", "window", "tumbling", "hopping", "session", "sliding"), _WINDOWS_OF_CHANGES),
        "cogroup": 'to_stream() of the table, and then group_by("column").cogroup(update)',
        "emit": "count() or agg(…), and then to_stream()", "to": "count() or agg(…), and then to(topic)",
    },
    "Cogrouped": {
        "window": "windowed_by(window)", "tumbling": "windowed_by(sk.tumbling(…))", "hopping": "windowed_by(sk.hopping(…))",
        **dict.fromkeys(("agg", "count", "reduce"), "aggregate(initial, schema)"), "emit": 'aggregate(initial, schema), and then emit("final")',
        "to": "aggregate(initial, schema), and then to(topic)",
    },
    "Topology": {
        **dict.fromkeys(("set_uncaught_exception_handler", "processing_exception_handler"), 'Topology(name, on_error="skip")'),
        **dict.fromkeys(("versioned_table", "temporal_table"), 'table("topic", versioned="1 day")'),
        "topic": 'stream("topic")', "source": 'stream("topic")', "read_stream": 'stream("topic")', "add_source": 'stream("topic")', "agent": 'stream("topic")',
        "run": "sk.run(topology)", "start": "sk.run(topology)", "main": "sk.main(topology)", "build": "sk.compile(topology)", "show": "describe()",
        "to_string": "describe()", "add_state_store": "add_store(sk.key_value_store(…))", "add_processor": "stream(topic).process(…)",
        "add_sink": 'stream("topic").to("other")', "add_global_store": 'global_table("topic")', "add_read_only_state_store": 'table("topic")',
        "connect_processor_and_state_stores": "stream(topic).process(…, stores=[…])",
        **dict.fromkeys(("with_logging_disabled", "without_logging", "without_changelog"), 'disable_logging("store")'),
    },
}  # fmt: skip
FOREIGN_MODES = {
    "changes": _LATEST, "update": _LATEST, "append": 'emit("final")', "on_window_close": 'emit("final")', "on_window_update": _LATEST,
    "complete": _LATEST, "eager": 'emit("every")',
}  # fmt: skip
FOREIGN_CLASSES = {
    "StreamsBuilder": 'sk.Topology("name")', "KafkaStreams": "sk.run(topology)", "SparkSession": "sk.run(topology)",
    **dict.fromkeys(("KStream", "KTable", "GlobalKTable"), 'stream("topic"), table("topic") and global_table("topic") of sk.Topology("name")'),
    "KGroupedStream": "sk.Grouped", "KGroupedTable": "sk.GroupedTable", "CogroupedKStream": "sk.Cogrouped",
    "TimeWindows": 'sk.tumbling("1 hour", grace="0 s"), or sk.hopping("1 hour", "5 minutes", grace="0 s")',
    "SessionWindows": 'sk.session("30 minutes", grace="0 s")', "SlidingWindows": 'sk.sliding("10 minutes", grace="0 s")',
    "UnlimitedWindows": "a group without windowed_by(…)", "JoinWindows": 'sk.within("5 seconds", grace="0 s")',
    "Suppressed": "suppress(until=sk.window_closes()), or until=sk.time_limit(…)", "EmitStrategy": 'emit("final"), or emit("every")',
    "Materialized": 'store="name" of a verb', "Stores": CALLED,
    **dict.fromkeys(("Serdes", "Serde", "Consumed", "Produced"), "columns with types: a topic's, or schema= of stream(…) and table(…)"),
    **dict.fromkeys(("Named", "Joined", "StreamJoined", "TableJoined", "Repartitioned", "Branched"), "name= of a verb"),
    "KeyValue": "a dict of columns", "Punctuator": "context.schedule(interval, clock, function)",
    **dict.fromkeys(
        ("WindowedSerdes", "TimeWindowedSerde", "SessionWindowedSerde"),
        'columns window_start and window_end; app.table("topic", windowed=sk.tumbling("1 hour", grace="0 s")) reads them as windows',
    ),
}  # fmt: skip
NOT_YET: dict[str, dict[str, str]] = {
    "Stream": {},
    "Table": {},
    "GlobalTable": {},
    "Split": {},
    "Grouped": {},
    "GroupedTable": {},
    "Cogrouped": {},
    "Topology": {"timer": ""},
}  # fmt: skip
_NOUNS = {
    "Stream": "a stream",
    "Table": "a table",
    "GlobalTable": "a global table",
    "Split": "a split",
    "Grouped": "a group",
    "GroupedTable": "a group of a table's rows",
    "Cogrouped": "a group of several streams",
    "Topology": "a topology",
}


class ForeignNames:
    """A handle that names the right verb if it is asked for one that it does not have."""

    if not TYPE_CHECKING:  # a type checker must not think that every name is there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # names that Python and notebooks look for by themselves
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UnknownVerbError(_message(type(self), name), user_location())

        __iter__ = __contains__ = None  # without these, a __getitem__ would make it a sequence

        def __getitem__(self, name: object) -> Any:
            raise TopologyError(
                f"found [{name!r}]; expected F.col({name!r}) for a column, or select(…) for several", user_location()
            )


def _message(handle: type, name: str) -> str:
    kind = next(one.__name__ for one in handle.__mro__ if one.__name__ in _NOUNS)
    noun, snake = _NOUNS[kind], snake_case(name)
    if _is_there(handle, snake):
        return f"{noun} has no {name!r}; expected {snake}(…)"
    call = FOREIGN[kind].get(snake)
    verb = re.split(r"\W", call)[0] if call else snake
    if call and (verb not in NOT_YET[kind] or _is_there(handle, verb)):
        return f"{noun} has no {name!r}; expected {call}"
    if verb in NOT_YET[kind]:
        meanwhile = NOT_YET[kind][verb]
        return f"{verb}() of {noun} does not exist yet" + (f"; until then: {meanwhile}" if meanwhile else "")
    verbs = sorted(one for one in dir(handle) if not one.startswith("_"))
    close = difflib.get_close_matches(snake, verbs, 1)
    return f"{noun} has no {name!r}" + (
        f"; did you mean {close[0]}?" if close else f"; it has {', '.join(verbs)}; a column is F.col({name!r})"
    )


def _is_there(handle: type, verb: str) -> bool:
    return any(verb in vars(one) for one in handle.__mro__)
