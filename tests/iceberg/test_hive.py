"""A catalog in a Hive metastore: create, write, fence and publish tables; a late commit does not undo another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from sinkql import physical
from sinkql.connectors.iceberg.commit.proposal import publish
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.errors import FencedError, SinkqlError
from sinkql.session import Session
from support.access import Access
from support.dropping import check_dropping
from support.lake import NAMESPACE, Lake, Sink
from support.metastore import metastore
from support.readers import pyiceberg_rows


@dataclass
class HiveLake(Lake):
    """Databases and tables in a Hive metastore."""

    @property
    def connection(self) -> physical.Connection:
        url = f"thrift://127.0.0.1:{self.port}"
        return physical.Connection("hive", "ICEBERG CATALOG", {"catalog_type": "hive", "url": url})

    def catalog(self) -> Catalog:
        return open_catalog("hive", self.connection.options, Access())


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with metastore(tmp_path_factory.mktemp("hive")) as found:
        yield found


@pytest.fixture
def hive(tmp_path: Path, port: int) -> HiveLake:
    return HiveLake(tmp_path, port=port)


@pytest.mark.soak
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_a_table_is_made_written_and_read(hive: HiveLake, name: str, *, upsert: bool) -> None:
    sink = Sink(hive, name, upsert=upsert)
    sink.start()
    for batch in range(30):
        sink.put((batch % 3 if upsert else batch, f"v{batch}"))
        sink.writer.maintenance.maintain()
    expected = [(each, f"v{27 + each}") for each in range(3)] if upsert else [(each, f"v{each}") for each in range(30)]
    assert pyiceberg_rows(hive.table(name)) == expected
    assert Sink(hive, name, upsert=upsert).start(epoch=2).end == {"numbers": {"batch": 30}}


@pytest.mark.soak
def test_an_earlier_run_is_fenced(hive: HiveLake, name: str) -> None:
    sink = Sink(hive, name)
    sink.start()
    attempt = sink.attempt([(1, "late")])
    other = Sink(hive, name)
    other.start(epoch=2)
    with pytest.raises(FencedError):
        sink.finish(attempt)
    other.put((2, "b"))
    assert pyiceberg_rows(hive.table(name)) == [(2, "b")]


@pytest.mark.soak
def test_a_commit_that_comes_late_undoes_no_other(hive: HiveLake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(hive, name)
    sink.start()
    late: Any = hive.catalog()
    stage = late._update_and_stage_table

    def stand_still(*arguments: Any) -> Any:
        staged = stage(*arguments)
        sink.put((1, "a"))
        return staged

    monkeypatch.setattr(late, "_update_and_stage_table", stand_still)
    table = late.load_table((NAMESPACE, name))
    prepared = prepare(table, FileChange(), lambda snapshot, sequence: Notes({}, {}))
    with pytest.raises(CommitFailedException):
        late.commit_table(table, prepared.requirements, prepared.updates)
    assert pyiceberg_rows(hive.table(name)) == [(1, "a")]


@pytest.mark.soak
def test_spark_compares_too(hive: HiveLake, name: str) -> None:
    Sink(hive, name).start()
    assert hive.table(name).properties["engine.hive.lock-enabled"] == "false"


@pytest.mark.soak
def test_a_branch_is_published(hive: HiveLake, name: str) -> None:
    sink = Sink(hive, name, options={"branch": "audit"})
    sink.start()
    sink.put((1, "a"))
    assert hive.table(name).current_snapshot() is None
    publish(sink.planned, sink.context)
    assert pyiceberg_rows(hive.table(name)) == [(1, "a")]


@pytest.mark.soak
def test_a_long_checkpoint_lies_beside_the_table(hive: HiveLake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.checkpoint._INLINE_LIMIT", 10)
    folder = hive.folder / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    sink = Sink(hive, name)
    sink.start()
    sink.put((1, "a"))
    assert os.listdir(folder) == []
    assert Sink(hive, name).start(epoch=2).end == {"numbers": {"batch": 1}}


@pytest.mark.soak
def test_a_connection_is_validated(tmp_path: Path, port: int) -> None:
    statement = "CREATE CONNECTION {} TO ICEBERG CATALOG (CATALOG TYPE = 'hive', URL = 'thrift://127.0.0.1:{}')"
    with Session(tmp_path / "catalog.db") as session:
        session.execute(statement.format("hive", port))
        session.execute("VALIDATE CONNECTION hive")
        with pytest.raises(SinkqlError) as raised:
            session.execute(statement.format("nobody", 1))
        assert (raised.value.code, raised.value.option) == ("SQ4201", "URL")


@pytest.mark.soak
def test_an_old_metastore_is_refused(hive: HiveLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.table.hive_catalog._Client.getVersion", lambda self: "3.1.3")
    with pytest.raises(SinkqlError) as raised:
        hive.catalog()
    assert raised.value.code == "SQ4213"


def test_without_thrift_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thrift", None)
    monkeypatch.delitem(sys.modules, "sinkql.connectors.iceberg.table.hive_catalog", raising=False)
    with pytest.raises(SinkqlError) as raised:
        HiveLake(tmp_path, port=1).catalog()
    assert raised.value.code == "SQ4214"
    assert "sinkql[hive]" in str(raised.value)


@pytest.mark.soak
def test_the_table_of_a_dropped_sink_goes(hive: HiveLake, name: str) -> None:
    check_dropping(hive, name)
