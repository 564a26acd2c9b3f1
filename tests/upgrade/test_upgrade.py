"""Pipelines of earlier versions continue from their checkpoints, and their tables equal DuckDB's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from sinkql.connectors.iceberg.write import table_index
from sinkql.runtime.batch.events import SinkCommitted, SinkRecovering, SinkRereading
from support.port import held_ports
from support.readers import connect
from upgrade.capture import TABLE
from upgrade.pipeline import REGION, Pipeline, Store, opened, stored
from upgrade.save import SAVED, STEPS, restore

pytestmark = [pytest.mark.server, pytest.mark.long]

_LAST = STEPS + 2
"""The last step of input: an archive has all before it, the one before only for captures and views."""
_INPUTS = """
CREATE VIEW orders AS FROM read_csv('orders/*.csv', ignore_errors = true, columns = {
  'id': 'BIGINT', 'customer': 'BIGINT', 'amount': 'DECIMAL(10, 2)', 'ordered_at': 'TIMESTAMP'});
CREATE VIEW events AS FROM read_json('events/*.json', columns = {
  'id': 'BIGINT', 'k': 'BIGINT', 'v': 'VARCHAR', 'opens': 'TIMESTAMPTZ', 'closes': 'TIMESTAMPTZ'});
CREATE VIEW lines AS FROM 'lines/*.parquet';
CREATE VIEW objects AS FROM read_json('objects/*.json', columns = {'id': 'BIGINT', 'v': 'VARCHAR'});
CREATE VIEW requests AS FROM 'requests/*.json';
CREATE TABLE customers (id bigint PRIMARY KEY, name text, region text);
"""
_LATEST = "SELECT * FROM events QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1"
_REGIONS = "SELECT region, count(*) AS n, max(name) FROM customers GROUP BY region"
_EXPECTED = {
    "orders": "FROM orders",
    "latest": _LATEST,
    "vectors": _LATEST,
    "sales": """SELECT customer, count(*), count(DISTINCT product), sum(quantity * price), min(price), max(price),
        {'items': array_agg(id ORDER BY id), 'dimensions': 1} FROM lines GROUP BY customer""",
    "named": """SELECT l.id, l.product, c.name FROM lines AS l JOIN customers AS c
        ON c.id = l.customer AND c.region <> 'west'""",
    "completed": "SELECT l.id, l.quantity, c.region FROM lines AS l LEFT JOIN customers AS c ON c.id = l.customer",
    "ranked": """SELECT customer, id, price, row_number() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place
        FROM lines QUALIFY place <= 2""",
    "summed": "SELECT id, product, sum(quantity) OVER (PARTITION BY product ORDER BY id) FROM lines",
    "open": "SELECT id, v FROM events WHERE now() >= opens AND now() < closes",
    "silent": "SELECT id FROM customers EXCEPT SELECT customer FROM lines",
    "dear": "SELECT id, price FROM lines WHERE price > (SELECT sum(price) / count(*) FROM lines)",
    "regions": _REGIONS,
    "large": f"SELECT region, n FROM ({_REGIONS}) WHERE n > 3",
    "keys": "SELECT p, 4, min(k), max(k) FROM (SELECT k, k % 4 AS p FROM range(16) AS t (k)) GROUP BY p",
    "numbers": "SELECT n FROM range(1, 21) AS t (n)",
    "objects": "FROM objects",
    "hooks": 'SELECT DISTINCT printf(\'{"n": %d, "step": %d}\', body.n, body.step), key FROM requests',
    "orders__errors": "SELECT NULL LIMIT 0",
}
"""The expected rows of each table, as DuckDB's SQL over the input."""
_UNCHANGED = ("orders", "sales", "named")
_GENERATED = ("keys", "numbers")
"""Tables of sources that have produced all their rows before the archive is written."""
_DEAD_LETTERS = "letters"
"""The plan in the checkpoints of a dead-letter table."""


@dataclass
class Before:
    """The archived tables: their snapshot ids, and the plan hash in their last checkpoint."""

    snapshots: dict[str, set[int]] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)

    def look(self, tables: dict[str, Table]) -> None:
        for name, table in tables.items():
            self.snapshots[name] = {each.snapshot_id for each in table.metadata.snapshots}
            newest = table.current_snapshot()
            assert newest is not None
            assert newest.summary is not None
            plan = newest.summary.get("sinkql.plan")
            if plan is not None:
                self.plans[name] = plan


@dataclass
class Upgraded:
    """A pipeline that continued from an archive, and its tables."""

    pipeline: Pipeline
    before: Before
    tables: dict[str, Table]


@pytest.fixture(scope="module", params=sorted(SAVED.glob("*.tar.xz")), ids=lambda path: path.name[: -len(".tar.xz")])
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """Continue an archive's pipeline: first its sinks' unread input, then a new step."""
    folder, before = tmp_path_factory.mktemp("upgraded"), Before()
    with stored() as store, held_ports(1) as (port,):
        restore(request.param, folder, store)
        before.look(store.tables())
        with opened(folder, store, port) as pipeline:
            pipeline.move()
            with patch.object(table_index, "build_index", side_effect=AssertionError("a key index is built again")):
                pipeline.step(_LAST)
            yield Upgraded(pipeline, before, store.tables())


def test_plans_of_today_are_those_of_the_checkpoints(upgraded: Upgraded) -> None:
    jobs = [*upgraded.pipeline.jobs(), upgraded.pipeline.captured.job()]
    assert upgraded.pipeline.plans == {job.sink: job.plan for job in jobs}
    plans = {str(job.write.options["table"]): job.plan for job in jobs if not job.view}
    assert upgraded.before.plans == {**plans, "orders__errors": _DEAD_LETTERS}


def test_no_state_is_computed_again(upgraded: Upgraded) -> None:
    for events in upgraded.pipeline.events.values():
        assert [each for each in events if isinstance(each, SinkRecovering | SinkRereading)] == []


def test_every_job_committed(upgraded: Upgraded) -> None:
    events = upgraded.pipeline.events
    committed = {name for name, each in events.items() if any(isinstance(one, SinkCommitted) for one in each)}
    jobs = (*upgraded.pipeline.jobs(), upgraded.pipeline.captured.job())
    generated = {f"materialize.public.{name}_sink" for name in _GENERATED}
    assert committed == {job.sink for job in jobs} - generated


def test_snapshots_of_before_are_ancestors(upgraded: Upgraded) -> None:
    assert upgraded.tables.keys() == upgraded.before.snapshots.keys()
    for name, table in upgraded.tables.items():
        by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
        line, current = set(), table.metadata.current_snapshot_id
        while current is not None:
            line.add(current)
            current = by_id[current].parent_snapshot_id
        assert upgraded.before.snapshots[name] < line, name


@pytest.mark.share(3)
@pytest.mark.parametrize("name", _EXPECTED)
def test_rows_are_those_that_duckdb_computes(upgraded: Upgraded, name: str) -> None:
    table = upgraded.tables[name]
    found = _by_duckdb(upgraded.pipeline.store, table)
    assert found == _by_pyiceberg(table)
    if name == "orders__errors":
        assert sum(found.values()) == _LAST
        return
    assert found == _expected(upgraded.pipeline.folder, _EXPECTED[name])


def test_rows_of_a_captured_table_are_those_of_its_server(upgraded: Upgraded) -> None:
    table = upgraded.tables[TABLE]
    found = _by_duckdb(upgraded.pipeline.store, table)
    assert found == _by_pyiceberg(table)
    assert found == Counter(map(_plain, upgraded.pipeline.captured.rows().items()))


def test_an_unchanged_input_makes_no_commit(upgraded: Upgraded) -> None:
    upgraded.pipeline.events.clear()
    jobs = upgraded.pipeline.jobs()
    upgraded.pipeline.run([job for job in jobs if job.view or job.write.options["table"] in _UNCHANGED])
    committed = [
        name
        for name, events in upgraded.pipeline.events.items()
        if any(isinstance(each, SinkCommitted) for each in events)
    ]
    assert committed == []


def _expected(folder: Path, sql: str) -> Counter[Any]:
    with duckdb.connect() as connection:
        connection.execute(f"SET file_search_path = '{folder}'; SET timezone = 'UTC'; {_INPUTS}")
        for step in range(1, _LAST + 1):
            connection.execute((folder / "statements" / f"{step}.sql").read_text())
        return Counter(map(_plain, connection.execute(sql).fetchall()))


def _by_duckdb(store: Store, table: Table) -> Counter[Any]:
    with connect() as connection:
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID 'any', SECRET 'any', REGION '{REGION}', "
            f"ENDPOINT '{store.address.removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
        )
        connection.execute("SET timezone = 'UTC'")
        found = connection.execute(f"FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()
        return _rows(found)


def _by_pyiceberg(table: Table) -> Counter[Any]:
    return _rows(table.scan().to_arrow())


def _rows(found: pa.Table) -> Counter[Any]:
    """Return rows without the columns that an append sink adds; check that each row was inserted once."""
    names = [name for name in found.column_names if not name.startswith("_mz_")]
    if "_mz_diff" in found.column_names:
        assert set(found.column("_mz_diff").to_pylist()) == {1}
    return Counter(_plain(tuple(row.values())) for row in found.select(names).to_pylist())


def _plain(row: Any) -> Any:
    return tuple(str(each) for each in row)
