"""
A plain interpreter of conformance topologies: one record at a time, in dictionaries, written from Kafka Streams' rules.

It shares no operator with the engine, so that it can judge it.
`run.results(case, rules)` gives what each step emits, by Kafka Streams' rules or by StreamKit's.
"""
