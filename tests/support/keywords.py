"""The words of the connectors that are installed."""

from sinkql.connector_api.registry import discover

WORDS = discover().keywords
