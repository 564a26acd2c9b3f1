"""The words of the connectors that are installed."""

from sinkql.extension.registry import discover

WORDS = discover().vocabulary
