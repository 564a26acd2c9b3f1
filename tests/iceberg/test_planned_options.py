"""The dataclasses of planned options have all options that statements plan, under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.connectors.iceberg.plan.sink import dead_letter_write
from sinkql.lowering.job import lower_sink
from sinkql.parser import parse

SCRIPT = """
CREATE SECRET s AS env_var('S');
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'AK', SECRET ACCESS KEY = SECRET s);
CREATE CONNECTION gcp TO GCP (SERVICE ACCOUNT KEY = SECRET s);
CREATE CONNECTION rest TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:1', WAREHOUSE = 'w', CREDENTIAL = SECRET s, SCOPE = 'catalog',
  OAUTH2 SERVER URL = 'http://127.0.0.1:2', STORAGE PROVIDER = 's3', ACCESS DELEGATION = 'vended-credentials'
);
CREATE CONNECTION biglake TO ICEBERG CATALOG (
  CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1', GCP CONNECTION = gcp
);
CREATE CONNECTION glue TO ICEBERG CATALOG (CATALOG TYPE = 'glue', AWS CONNECTION = aws);
CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE SINK k
  FROM counter
  INTO ICEBERG CATALOG CONNECTION rest (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND
  PARTITION BY (bucket(3, counter))
  SORT BY (counter)
  WITH (
    COMMIT INTERVAL = '10s', FORMAT VERSION = 3, RETAIN SNAPSHOTS = 7, MAINTENANCE = false, MAINTENANCE SHARE = 5,
    EXISTING ROWS = KEEP, BRANCH = 'audit'
  );
"""


@pytest.fixture
def catalog() -> MemoryCatalog:
    catalog = MemoryCatalog(discover())
    for statement in parse(SCRIPT):
        assert isinstance(statement, ast.Create)
        catalog.add(statement, {})
    return catalog


def _check(options: Mapping[str, Any], planned: CatalogConnection | IcebergSink) -> None:
    """Assert that each option is in the dataclass; lists of options are tuples there."""
    assert options.keys() <= {field.name for field in fields(planned)}
    for name, value in options.items():
        if not name.endswith("_connection"):
            assert getattr(planned, name) == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize("name", ["rest", "biglake", "glue"])
def test_options_of_connections(catalog: MemoryCatalog, name: str) -> None:
    connection = catalog.item(f"materialize.public.{name}")
    assert isinstance(connection, logical.Connection)
    planned = CatalogConnection.from_plan(connection.options)
    _check(connection.options, planned)
    named = {"biglake": planned.gcp_connection, "glue": planned.aws_connection}.get(name)
    assert named is None or named.connection in ("materialize.public.gcp", "materialize.public.aws")
    assert (named is None) == (name == "rest")


def test_options_of_sinks(catalog: MemoryCatalog) -> None:
    sink = catalog.item("materialize.public.k")
    assert isinstance(sink, logical.Sink)
    planned = IcebergSink.from_plan(sink.options)
    _check(sink.options, planned)
    assert (planned.format_version, planned.existing_rows, planned.branch) == (3, "keep", "audit")


def test_options_of_dead_letters(catalog: MemoryCatalog) -> None:
    sink = catalog.item("materialize.public.k")
    assert isinstance(sink, logical.Sink)
    write = dead_letter_write(lower_sink(sink, catalog, sink_id="k").write, ())
    planned = IcebergSink.from_plan(write.options)
    _check(write.options, planned)
    assert (planned.table, planned.letters, planned.existing_rows) == ("t__errors", True, "keep")
