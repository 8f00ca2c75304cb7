"""What to call instead of a verb of Kafka Streams, PySpark or Faust, or of one that is not there yet."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from streamkit.errors import TopologyError, UnknownVerbError
from streamkit.plan.location import user_location

_FILTER, _COLUMNS, _TO = "filter(condition)", "with_columns(name=expression)", 'to("topic")'
_LATEST = 'emit("latest"), or emit("every") for a row of every change'
_COMMAND = 'to("topic"), and then: streamkit consume topic'
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
        "through": 'to("topic"), and then the topology\'s stream("topic")', "key_by": 'select_key("column")',
        "transform_values": 'map_values(function, schema="column type")', "aggregate": 'group_by("column").agg(…)',
        "with_watermark": 'group_by("column").windowed_by(sk.tumbling("1 hour", grace="10 minutes"))', "echo": _TO,
        **dict.fromkeys(("flat_map_values", "explode"), 'flat_map(F.explode("column"))'),
        "windowed_by": 'group_by("column").windowed_by(…)', "dropna": 'filter("column IS NOT NULL")', "fillna": _COLUMNS,
    },
    "Table": _OF_BOTH | {
        "to_stream": _LATEST, "to_changelog_stream": _LATEST, "changes": _LATEST, "until_window_closes": "suppress(until=sk.window_closes())",
        "until_time_limit": 'suppress(until=sk.time_limit("5 minutes"))',
        "query": 'store("name") of the run or of the log', "transform_values": 'map_values(function, schema="column type")',
    },
    "GlobalTable": {name: call for name, call in _OF_BOTH.items() if call in (_FILTER, _COLUMNS)} | {"with_column_renamed": 'rename(old="new")'},
    "Grouped": {
        "window": "windowed_by(window)", "tumbling": "windowed_by(sk.tumbling(…))", "hopping": "windowed_by(sk.hopping(…))",
        **{name: f'agg(name=F.{name}("column"))' for name in ("sum", "avg", "min", "max")}, "mean": 'agg(name=F.avg("column"))',
        "emit": 'count() or agg(…), and then emit("final")', "to": "count() or agg(…), and then to(topic)",
    },
    "Topology": {
        "topic": 'stream("topic")', "source": 'stream("topic")', "read_stream": 'stream("topic")', "add_source": 'stream("topic")', "agent": 'stream("topic")',
        "run": "sk.run(topology)", "start": "sk.run(topology)", "main": "sk.main(topology)", "build": "sk.compile(topology)", "show": "describe()",
        "to_string": "describe()",
    },
}  # fmt: skip
FOREIGN_MODES = {
    "changes": _LATEST, "update": _LATEST, "append": 'emit("final")', "on_window_close": 'emit("final")', "on_window_update": _LATEST,
    "complete": _LATEST, "eager": 'emit("every")',
}  # fmt: skip
NOT_YET: dict[str, dict[str, str]] = {
    "Stream": {
        **dict.fromkeys(("map", "map_batches"), "map_values(function, schema=…) runs a Python function on each row"),
        **dict.fromkeys(("process", "process_values", "transform"), ""),
        **dict.fromkeys(("split", "branch"), "a filter(condition) for each branch does the same"),
        "repartition": "",
        "to_table": 'to("topic") of a compacted topic, and the topology\'s table("topic")', "cogroup": "",
    },
    "Table": {
        "group_by": 'emit("every").group_by(…) counts every change as a record',
    },
    "GlobalTable": {},
    "Grouped": {
        **dict.fromkeys(("reduce", "aggregate"), "agg(name=F.sum(…)) takes count, count_if, sum, avg, min and max"), "cogroup": "",
    },
    "Topology": {"add_store": "", "add_state_store": "", "add_processor": "", "timer": ""},
}  # fmt: skip
_NOUNS = {
    "Stream": "a stream",
    "Table": "a table",
    "GlobalTable": "a global table",
    "Grouped": "a group",
    "Topology": "a topology",
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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
                f"found [{name!r}]; a column is F.col({name!r}), and select(…) takes some of them", user_location()
            )


def _message(handle: type, name: str) -> str:
    kind = next(one.__name__ for one in handle.__mro__ if one.__name__ in _NOUNS)
    noun, snake = _NOUNS[kind], _HUMP.sub("_", name).lower()
    if _is_there(handle, snake):
        return f"{noun} has no {name!r}; expected {snake}(…)"
    call = FOREIGN[kind].get(snake)
    verb = re.split(r"\W", call)[0] if call else snake
    if call and (verb not in NOT_YET[kind] or _is_there(handle, verb)):
        return f"{noun} has no {name!r}; expected {call}"
    if verb in NOT_YET[kind]:
        meanwhile = NOT_YET[kind][verb]
        return f"{verb}() of {noun} is not there yet" + (f"; until then: {meanwhile}" if meanwhile else "")
    verbs = sorted(one for one in dir(handle) if not one.startswith("_"))
    close = difflib.get_close_matches(snake, verbs, 1)
    return f"{noun} has no {name!r}" + (f"; did you mean {close[0]}?" if close else f"; it has {', '.join(verbs)}")


def _is_there(handle: type, verb: str) -> bool:
    return any(verb in vars(one) for one in handle.__mro__)
