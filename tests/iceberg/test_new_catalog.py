"""Several sinks open a new SQL catalog together; exactly one of them creates each shared object."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from sinkql import physical
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.table import Expected, ensure_table
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.logical.type import BIGINT
from support.access import Access
from support.postgres import Postgres

_TIMES, _SINKS = 5, 8
_COLUMNS = (physical.Column("id", BIGINT),)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    if request.param == "sqlite":
        yield [f"sqlite:///{tmp_path}/{number}.db" for number in range(_TIMES)]
        return
    server: Postgres = request.getfixturevalue("postgres")
    names = [server.database() for _ in range(_TIMES)]
    yield [f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/{name}" for name in names]
    for name in names:
        server.drop(name)


def test_many_sinks_make_a_catalog_a_namespace_and_tables_at_once(urls: list[str], tmp_path: Path) -> None:
    for url in urls:
        options = {"catalog_type": "sql", "url": url, "warehouse": str(tmp_path)}
        together = Barrier(_SINKS)

        def make(number: int, options: dict[str, str] = options, together: Barrier = together) -> str:
            together.wait()
            catalog = open_catalog("lake", options, Access())
            try:
                target = TargetTable(catalog, "a.b", f"t{number // 2}", "lake")
                found = ensure_table(target, Expected(_COLUMNS, changelog=False, upsert=False), sink_id="s")
                return str(found.metadata.table_uuid)
            finally:
                catalog.close()

        with ThreadPoolExecutor(_SINKS) as pool:
            made = [*pool.map(make, range(_SINKS))]
        assert len(set(made)) == _SINKS // 2
        assert made[::2] == made[1::2]
