"""The keywords of the installed connectors."""

from sinkql.connector_api.registry import discover

WORDS = discover().keywords
