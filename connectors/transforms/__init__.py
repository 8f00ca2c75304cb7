"""Transforms of Kafka Connect by their names, on Arrow. docs/connectors/transforms.md says how."""
