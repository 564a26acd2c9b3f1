"""A Nessie catalog: another REST server, with its own branches of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog

from sinkql import logical, physical
from sinkql.connectors.iceberg.table.catalog import validate
from sinkql.errors import FencedError, SinkqlError
from support.access import Access
from support.dropping import check_dropping
from support.lake import NAMESPACE, Lake, Sink
from support.nessie import nessie
from support.patience import PATIENCE_S
from support.readers import Rows, connect, pyiceberg_rows, sorted_rows
from support.seaweed import SECRET, Seaweed

pytestmark = pytest.mark.soak


@dataclass
class NessieLake(Lake):
    """Tables of a Nessie server, with files in S3."""

    url: str = ""
    warehouse: str = "lake"

    @property
    def connection(self) -> physical.Connection:
        options = {"catalog_type": "rest", "url": self.url, "warehouse": self.warehouse}
        return physical.Connection("lake", "ICEBERG CATALOG", options)

    def catalog(self) -> Catalog:
        """Open the catalog as another program would."""
        assert self.server is not None
        return load_catalog("default", type="rest", uri=self.url, warehouse=self.warehouse, **self.server.storage)

    def rows(self, name: str, columns: tuple[str, ...] = ("id", "name")) -> Rows:
        """Return the table's rows, after checking that DuckDB and PyIceberg read the same."""
        found = pyiceberg_rows(self.table(name), columns)
        assert self.server is not None
        with connect() as connection:
            connection.execute(
                f"CREATE SECRET s (TYPE s3, KEY_ID 'admin', SECRET '{SECRET}', REGION 'us-east-1', "
                f"ENDPOINT '127.0.0.1:{self.server.s3}', URL_STYLE 'path', USE_SSL false)"
            )
            connection.execute(
                f"ATTACH '{self.warehouse}' AS lake (TYPE iceberg, ENDPOINT '{self.url}', AUTHORIZATION_TYPE 'none', "
                "ACCESS_DELEGATION_MODE 'none')"
            )
            read = connection.execute(f"SELECT {', '.join(columns)} FROM lake.{NAMESPACE}.{name}").fetchall()
        assert sorted_rows(read) == found
        return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, server: Seaweed) -> Iterator[str]:
    with nessie(tmp_path_factory.mktemp("nessie"), server) as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path, server: Seaweed, url: str) -> NessieLake:
    return NessieLake(tmp_path, server, url=url)


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_a_table_is_made_written_and_read(lake: NessieLake, name: str, *, upsert: bool) -> None:
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    for batch in range(30):
        sink.put((batch % 3 if upsert else batch, f"v{batch}"))
        sink.writer.maintenance.maintain()
    expected = [(each, f"v{27 + each}") for each in range(3)] if upsert else [(each, f"v{each}") for each in range(30)]
    assert lake.rows(name) == expected
    assert Sink(lake, name, upsert=upsert).start(epoch=2).end == {"numbers": {"batch": 30}}


def test_an_earlier_run_is_fenced(lake: NessieLake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    attempt = sink.attempt([(1, "late")])
    other = Sink(lake, name)
    other.start(epoch=2)
    with pytest.raises(FencedError):
        sink.finish(attempt)
    other.put((2, "b"))
    assert lake.rows(name) == [(2, "b")]


def test_a_branch_of_nessie_is_written_and_merged(lake: NessieLake, name: str) -> None:
    Sink(lake, f"{name}m", id="5f6e1c1e-0002").start()  # creates the namespace on main
    address = lake.url.removesuffix("/iceberg") + "/api/v2/trees"
    main = requests.get(f"{address}/main", timeout=PATIENCE_S).json()["reference"]
    params = {"name": name, "type": "BRANCH"}
    made = requests.post(address, json=main, params=params, timeout=PATIENCE_S)
    made.raise_for_status()
    audit = NessieLake(lake.folder, lake.server, url=f"{lake.url}/{name}")
    sink = Sink(audit, name)
    sink.start()
    sink.put((1, "a"))
    assert pyiceberg_rows(audit.table(name)) == [(1, "a")]
    assert not lake.catalog().table_exists((NAMESPACE, name))
    there = requests.get(f"{address}/{name}", timeout=PATIENCE_S).json()["reference"]
    merged = requests.post(
        f"{address}/main@{main['hash']}/history/merge",
        json={"fromRefName": name, "fromHash": there["hash"]},
        timeout=PATIENCE_S,
    )
    merged.raise_for_status()
    assert lake.rows(name) == [(1, "a")]


def test_a_branch_of_the_table_is_refused_before_rows_are_on_main(lake: NessieLake, name: str) -> None:
    for _ in range(2):
        sink = Sink(lake, name, options={"branch": "audit"})
        with pytest.raises(SinkqlError) as caught:
            sink.start()
        assert (caught.value.code, caught.value.retryable) == ("SQ3524", False)
    assert lake.rows(name) == []


def test_a_warehouse_that_nessie_does_not_know_is_told(lake: NessieLake) -> None:
    lake.warehouse = "nowhere"
    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("lake", "ICEBERG CATALOG", lake.connection.options), Access())
    assert (caught.value.code, caught.value.option) == ("SQ4204", "WAREHOUSE")


def test_the_table_of_a_dropped_sink_goes(lake: NessieLake, name: str) -> None:
    check_dropping(lake, name)
