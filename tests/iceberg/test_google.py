"""BigLake and Cloud Storage with a service account's key: tokens, their expiry, and refusals."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from sinkql import logical, physical
from sinkql.connectors.gcp import connector
from sinkql.connectors.gcp.store import ServiceAccount, open_store
from sinkql.connectors.iceberg.storage import storage_properties
from sinkql.connectors.iceberg.table.catalog import validate
from sinkql.connectors.iceberg.table.reader import lines
from sinkql.errors import SinkqlError
from sinkql.object_store.store import now
from support.access import Access
from support.google import Google, google, new_key
from support.google_server import CATALOG, RULES
from support.lake import NAMESPACE, Lake, Sink
from support.readers import Rows, connect, pyiceberg_rows, sorted_rows

pytestmark = pytest.mark.server
_KEY = {"service_account_key": {"secret_text": [{"secret": "s"}]}}


@dataclass
class GoogleLake(Lake):
    """A catalog like BigLake's; only the test moves its clock."""

    google: Google = field(kw_only=True)
    delegated: bool = False
    ahead: timedelta = timedelta(0)

    @property
    def using(self) -> None:
        return None

    @property
    def connection(self) -> physical.Connection:
        options = {
            "catalog_type": "rest",
            "url": self.google.catalog,
            "warehouse": self.google.warehouse,
            "gcp_connection": {"connection": "gcp"},
            **({"access_delegation": "vended-credentials"} if self.delegated else {}),
        }
        return physical.Connection("lake", "ICEBERG CATALOG", options, {"gcp": physical.Connection("gcp", "GCP", _KEY)})

    def store(self, connection: physical.Connection) -> ServiceAccount:
        found = open_store(connection.options, lambda _: self.google.key)
        found.keys.clock = self.clock
        return found

    def clock(self) -> datetime:
        return now() + self.ahead

    def catalog(self) -> Catalog:
        """Open the catalog as another program would."""
        token = self.store(physical.Connection("gcp", "GCP", _KEY)).properties()
        properties = {"token": token["gcs.oauth2.token"], "header.x-goog-user-project": "tests", **token}
        return load_catalog("default", type="rest", uri=self.google.catalog, warehouse="gs://lake", **properties)

    def rows(self, name: str, columns: tuple[str, ...] = ("id", "name")) -> Rows:
        """Return the table's rows, after checking that DuckDB and PyIceberg read the same."""
        table = self.table(name)
        found = pyiceberg_rows(table, columns)
        assert _duckdb(self, table.metadata_location) == found
        return found


@dataclass
class OpenLake(GoogleLake):
    """A catalog without tokens, with files in Cloud Storage; the sink names the service account."""

    @property
    def using(self) -> physical.Connection:  # type: ignore[override]  # the base class returns None
        return physical.Connection("gcp", "GCP", _KEY)

    @property
    def connection(self) -> physical.Connection:
        options = {"catalog_type": "rest", "url": self.google.catalog, "warehouse": self.google.warehouse}
        return physical.Connection("lake", "ICEBERG CATALOG", options)


def _duckdb(lake: GoogleLake, metadata: str) -> Rows:
    """Return the rows that DuckDB reads; it accesses Cloud Storage through PyArrow."""
    from fsspec.implementations.arrow import ArrowFSWrapper

    kind = type("Gs", (ArrowFSWrapper,), {"protocol": "gs"})
    with connect() as connection:
        connection.register_filesystem(kind(lake.google.files()))
        return sorted_rows(connection.execute(f"SELECT id, name FROM iceberg_scan('{metadata}')").fetchall())


@pytest.fixture(scope="module")
def shared() -> Iterator[Google]:
    with google() as running:
        yield running


@pytest.fixture
def server(shared: Google) -> Iterator[Google]:
    yield shared
    shared.rule(**RULES)


@pytest.fixture
def lake(tmp_path: Path, server: Google) -> GoogleLake:
    return GoogleLake(tmp_path, google=server)


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_a_table_is_made_written_maintained_and_read(lake: GoogleLake, name: str, *, upsert: bool) -> None:
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    for batch in range(12):
        sink.put((batch % 3 if upsert else batch, f"v{batch}"))
        sink.writer.maintenance.maintain()
    expected = [(each, f"v{9 + each}") for each in range(3)] if upsert else [(each, f"v{each}") for each in range(12)]
    assert lake.rows(name) == expected
    assert Sink(lake, name, upsert=upsert).start(epoch=2).end == {"numbers": {"batch": 12}}


def test_one_token_is_for_catalog_and_files_until_half_of_its_time(lake: GoogleLake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    first = lake.google.asked()
    sink.put((1, "a"))
    lake.ahead = timedelta(minutes=31)
    sink.put((2, "b"))
    asked = lake.google.asked()
    assert len(asked["tokens"]) == len(first["tokens"]) + 1
    later = [(path.startswith(CATALOG), token) for _, path, token in asked["seen"][len(first["seen"]) :]]
    old, new = asked["tokens"][-2:]
    assert set(later) == {(True, old), (False, old), (True, new), (False, new)}
    assert lake.rows(name) == [(1, "a"), (2, "b")]


def test_a_token_that_is_refused_is_replaced(lake: GoogleLake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    lake.google.rule(revoke=True)  # during the load
    attempt = sink.attempt([(1, "a")])
    lake.google.rule(revoke=True)  # during the commit
    sink.finish(attempt)
    sink.writer.refresh()
    task = sink.writer.begin(bucketing="test", buckets=2)
    lake.google.rule(revoke=True)  # during the write; the next attempt uses a new token
    with pytest.raises(SinkqlError) as caught:
        sink.write(task, [(2, "b")])
    assert (caught.value.code, caught.value.retryable) == ("SQ4302", True)
    sink.put((2, "b"))
    assert lake.rows(name) == [(1, "a"), (2, "b")]


def test_a_sink_names_the_account_that_reaches_its_files(tmp_path: Path, server: Google, name: str) -> None:
    server.rule(open=True)
    sink = Sink(OpenLake(tmp_path, google=server), name)
    before = server.asked()
    sink.start()
    sink.put((1, "a"))
    asked = server.asked()
    tokens = {token for _, path, token in asked["seen"][len(before["seen"]) :] if not path.startswith(CATALOG)}
    assert tokens == {asked["tokens"][-1]}
    assert lines(sink.planned, sink.context) == []
    assert sink.lake.rows(name) == [(1, "a")]


def test_cloud_storage_is_not_waited_for_longer_than_a_minute(lake: GoogleLake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    table = sink.writer.table.load()
    for io in (table.io, load_file_io(storage_properties(table.io), table.location())):
        assert isinstance(io, PyArrowFileIO)
        _, (arguments,) = io.fs_by_scheme("gs", None).__reduce__()
        assert arguments["retry_time_limit"] == timedelta(minutes=1)
        assert arguments["access_token"] == lake.google.asked()["tokens"][-1]


@pytest.mark.parametrize("expiry", [RULES["expiry"], "gcs.oauth2.token_expires_at", ""])
def test_the_catalog_gives_tokens_for_files(tmp_path: Path, server: Google, name: str, expiry: str) -> None:
    server.rule(expiry=expiry, life=7200)
    sink = Sink(GoogleLake(tmp_path, google=server, delegated=True), name)
    before = server.asked()
    sink.start()
    sink.put((1, "a"))
    asked = server.asked()
    files = {token for _, path, token in asked["seen"][len(before["seen"]) :] if not path.startswith(CATALOG)}
    assert files
    assert files <= set(asked["vended"]) - set(before["vended"])
    end = datetime.fromtimestamp(int(sink.writer.table.load().io.properties[RULES["expiry"]]) / 1000, UTC)
    assert (end - now() > timedelta(minutes=90)) == bool(expiry)
    server.rule(**RULES)
    assert sink.lake.rows(name) == [(1, "a")]


def test_a_catalog_that_gives_no_tokens_for_files_is_told(tmp_path: Path, server: Google, name: str) -> None:
    server.rule(vend=False)
    with pytest.raises(SinkqlError) as caught:
        Sink(GoogleLake(tmp_path, google=server, delegated=True), name).start()
    assert (caught.value.code, caught.value.option) == ("SQ4210", "ACCESS DELEGATION")
    assert "AWS" not in (caught.value.hint or "")


def test_a_vended_token_is_asked_for_again_before_its_end(tmp_path: Path, server: Google, name: str) -> None:
    server.rule(life=0)
    sink = Sink(GoogleLake(tmp_path, google=server, delegated=True), name)
    sink.start()
    table = sink.writer.table.load()
    before = len(server.asked()["vended"])
    assert table.io.new_input(table.metadata_location).exists()
    assert len(server.asked()["vended"]) > before


def test_while_no_token_comes_the_one_that_is_there_continues(lake: GoogleLake) -> None:
    store = lake.store(physical.Connection("gcp", "GCP", _KEY))
    first = store.properties()
    lake.google.rule(refuse=True)
    lake.ahead = timedelta(minutes=40)
    assert store.properties() == first
    lake.ahead = timedelta(minutes=59)
    with pytest.raises(SinkqlError) as caught:
        store.properties()
    assert (caught.value.code, caught.value.option) == ("SQ4231", "SERVICE ACCOUNT KEY")


# --- refused keys ------------------------------------------------------------------------------------------------


def _validated(server: Google, key: str) -> SinkqlError:
    """Return the error of VALIDATE CONNECTION, which a catalog's connection must raise too."""
    lake = GoogleLake(Path(), google=server)
    gcp = logical.Connection("gcp", "GCP", _KEY)
    with pytest.raises(SinkqlError) as caught:
        connector.connections[0].validate(gcp, Access(key))  # type: ignore[misc]  # the function is not None
    assert caught.value.option == "SERVICE ACCOUNT KEY"

    class Both(Access):
        def store(self, full_name: str) -> Any:
            return open_store(_KEY, self.secret)

    with pytest.raises(SinkqlError) as other:
        validate(logical.Connection("lake", "ICEBERG CATALOG", lake.connection.options), Both(key))
    assert (other.value.code, other.value.option) == (caught.value.code, "GCP CONNECTION")
    assert "PRIVATE" not in f"{caught.value}{caught.value.detail}{other.value.detail}"
    return caught.value


def test_a_key_that_google_rejects_is_an_error_of_its_own(server: Google) -> None:
    assert _validated(server, server.key_of(new_key())).code == "SQ4231"
    server.rule(refuse=True)
    assert _validated(server, server.key).code == "SQ4231"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda key: key[1:], "it is not JSON"),
        (lambda key: "[]", 'its "type" is not "service_account"'),
        (lambda key: key.replace("service_account", "authorized_user"), 'its "type" is not "service_account"'),
        (lambda key: key.replace("client_email", "client_mail"), 'it has no "client_email"'),
        (lambda key: key.replace("-----BEGIN", "--BEGIN"), 'its "private_key" cannot be read'),
    ],
    ids=["text", "list", "type", "field", "pem"],
)
def test_what_is_no_key_says_why(server: Google, change: Any, why: str) -> None:
    found = _validated(server, change(server.key))
    assert (found.code, found.message.partition(": ")[2]) == ("SQ4230", why)


def test_without_google_auth_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.oauth2", None)
    with pytest.raises(SinkqlError) as caught:
        open_store(_KEY, lambda _: "{}")
    assert (caught.value.code, caught.value.hint) == ("SQ4233", "Run pip install 'sinkql[gcp]'.")


def test_a_token_server_that_is_away_is_told(server: Google) -> None:
    assert _validated(server, server.key.replace(str(server.port), "1")).code == "SQ4232"


def test_a_project_that_may_not_is_told_as_the_catalog_says_it(lake: GoogleLake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    account = lake.store(physical.Connection("gcp", "GCP", _KEY))
    account.project = None

    class Nobody(Access):
        def store(self, full_name: str) -> Any:
            return account

    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("lake", "ICEBERG CATALOG", lake.connection.options), Nobody())
    assert (caught.value.code, caught.value.option) == ("SQ4203", "GCP CONNECTION")


# --- readers -----------------------------------------------------------------------------------------------------


def test_the_printed_line_reads_the_table(lake: GoogleLake, name: str, tmp_path: Path) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"))
    printed = dict(line.split(":", 1) for line in lines(sink.planned, sink.context))
    assert list(printed) == ["Set first", "PyIceberg"]
    assert printed["Set first"].strip() == "GOOGLE_APPLICATION_CREDENTIALS in the environment"
    key = tmp_path / "key.json"
    key.write_text(lake.google.key)
    command = [sys.executable, "-W", "ignore", "-c", printed["PyIceberg"].strip()]
    environment = os.environ | {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == [{"id": 1, "name": "a"}]
    assert NAMESPACE in printed["PyIceberg"]
