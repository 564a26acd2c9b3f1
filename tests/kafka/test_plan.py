"""Errors that only a format with ENVELOPE DEBEZIUM can cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.connectors.kafka.formats import FORMATS
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from support.keywords import WORDS


def _catalog() -> MemoryCatalog:
    """Return an empty catalog whose JSON format claims to support the envelope."""
    registry = discover()
    json = next(each for each in FORMATS if each.name == "JSON")
    changing = replace(json, decoding=replace(json.decoding, changes=lambda *_: pytest.fail("nothing is read")))
    return MemoryCatalog(replace(registry, messages={**registry.messages, "JSON": changing}))


def test_a_key_that_the_rows_do_not_have_is_refused() -> None:
    catalog = _catalog()
    connection, source = parse(
        "CREATE CONNECTION k TO KAFKA (BROKER 'a:1'); CREATE SOURCE s (id bigint) FROM KAFKA CONNECTION k (TOPIC 't') "
        "KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE DEBEZIUM;",
        WORDS,
    )
    assert isinstance(connection, ast.CreateConnection)
    assert isinstance(source, ast.CreateSource)
    catalog.add(connection, {})
    with pytest.raises(SinkqlError, match="SQ2477"):
        catalog.add(source, {})
