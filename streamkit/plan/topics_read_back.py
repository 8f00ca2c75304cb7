"""Topics that a topology writes and reads again: what those will hold that its first start creates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streamkit.errors import TopicNotFoundError
from streamkit.log.topic.topic import Topic, declare_topic
from streamkit.plan.added_topics import WithAddedTopics, declared_output
from streamkit.plan.encoding import with_keys
from streamkit.plan.inputs import KnownTopics, known_topic, sources_of
from streamkit.plan.node import Node
from streamkit.plan.operators.source import SourceNode
from streamkit.plan.operators.write import To
from streamkit.plan.program import Output

OutputsOf = Callable[[Sequence[Node], KnownTopics], Sequence[Output]]


def with_topics_read_back(known: KnownTopics, roots: Iterable[Node], outputs_of: OutputsOf) -> KnownTopics:
    """
    A log in which the topics exist already that the topology both writes and reads.

    A topic holds what its source declares, and else what is written to it: `outputs_of` finds that of some ends of streams on a log that
    knows all the topics which they are made of. TopicNotFoundError for topics that are made of themselves and that no source declares.
    """
    roots = tuple(roots)
    sinks = [root for root in roots if isinstance(root, To)]
    sources = sources_of(roots)
    read_back = {source.topic for source in sources} & {sink.topic for sink in sinks}
    missing = {name for name in read_back if known_topic(known, name) is None}
    found = {
        one.topic: declare_topic(one.topic, one.schema, one.key) for one in sources if one.topic in missing and _is_plain(one)
    }
    while left := missing - found.keys():
        with_found = WithAddedTopics.of(known, tuple(found.values()))
        ready = [sink for sink in sinks if sink.topic in left and left.isdisjoint(one.topic for one in sources_of([sink]))]
        outputs = outputs_of(ready, with_found) if ready else ()
        made = {output.topic: declared_output(output, ()) for output in outputs if output.topic in left}
        found |= made or _opened_cycle([source for source in sources if source.topic in left])
    return WithAddedTopics.of(known, tuple(found.values()))


def _is_plain(source: SourceNode) -> bool:
    """Whether a source says the columns of its topic; one that decodes bytes says what it wants of them."""
    return source.schema is not None and source.decoding is None


def _opened_cycle(sources: Sequence[SourceNode]) -> dict[str, Topic]:
    """A topic of several that are made of each other, by the word of its source; TopicNotFoundError if none says what its topic holds."""
    for source in sources:
        decoding = source.decoding
        if decoding is not None:
            format, columns = decoding.topic_format, decoding.columns
            if columns is not None and decoding.key is not None and all(name in columns for name in decoding.key):
                format = with_keys(format, decoding.keys, columns.select(decoding.key))
            return {source.topic: declare_topic(source.topic, format=format)}
    names = sorted({source.topic for source in sources})
    topics, follow = (
        (f"topic {names[0]!r} does", "it") if len(names) == 1 else (f"topics {', '.join(map(repr, names))} do", "them")
    )
    at = sources[0].at
    raise TopicNotFoundError(
        f"the {topics} not exist, and what the topology writes to {follow} is made of {follow}; expected schema= and key= where one is read, "
        "or log.create_topic(…) before the start" + (f"\n  at {at}" if at else "")
    )
