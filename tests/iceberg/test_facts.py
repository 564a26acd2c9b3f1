"""The facts that CREATE SINK reads from its catalog before the sink exists."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType
from sqlalchemy.sql.compiler import SQLCompiler

from sinkql import ast, logical
from sinkql.connector_api.types import parse_type
from sinkql.connectors.iceberg.commit.table_facts import find
from sinkql.errors import SinkqlError, Span
from support.lake import Lake, Sink

CONNECTION_SPAN = Span(40, 44)
STATEMENT = ast.CreateSink(
    relation=ast.Name((ast.Ident("numbers"),)),
    kind="ICEBERG CATALOG",
    connection=ast.Name((ast.Ident("lake"),), CONNECTION_SPAN),
)


class Access:
    """Access to a single connection."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def secret(self, full_name: str) -> str:
        raise KeyError(full_name)

    def connection(self, full_name: str) -> logical.Connection:
        connection = self._lake.connection
        return logical.Connection(connection.name, connection.kind, connection.options)

    def store(self, full_name: str) -> Any:
        raise KeyError(full_name)

    def path(self, option: str) -> Path:
        return Path(option)


def sink(table: str, **options: Any) -> logical.Sink:
    columns = (
        logical.Column("id", parse_type("bigint"), nullable=False),
        logical.Column("name", parse_type("text")),
    )
    return logical.Sink(
        name="materialize.public.s",
        relation="materialize.public.numbers",
        kind="ICEBERG CATALOG",
        connection="lake",
        store=None,
        cluster="quickstart",
        mode=logical.SinkMode.APPEND,
        changelog=False,
        key=(),
        enforced=False,
        commit_interval=timedelta(seconds=1),
        max_rows_per_commit=1000,
        snapshot=True,
        options={"namespace": "shop", "table": table, **options},
        shape=logical.Shape(columns),
    )


def refusal(lake: Lake, planned: logical.Sink) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        find(STATEMENT, planned, Access(lake))
    assert caught.value.span == CONNECTION_SPAN
    return caught.value


def test_absent_table_is_no_fact(lake: Lake, name: str) -> None:
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}


def test_table_without_rows_is_described(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    table = lake.table(name)
    assert find(STATEMENT, sink(name), Access(lake)) == {
        "table": {
            "uuid": str(table.metadata.table_uuid),
            "location": table.location(),
            "columns": {"id": "long", "name": "string"},
        }
    }


def test_table_with_rows_is_refused_unless_they_are_kept(lake: Lake, name: str) -> None:
    other = Sink(lake, name)
    other.start()
    other.put((1, "a"))
    assert refusal(lake, sink(name)).code == "SQ3507"
    assert find(STATEMENT, sink(name, existing_rows="keep"), Access(lake))["table"] is not None


def test_table_with_other_columns_is_refused(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    with lake.table(name).update_schema() as update:
        update.add_column("city", StringType())
    assert refusal(lake, sink(name)).code == "SQ3504"


def test_table_of_a_lower_format_version_is_refused(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    assert refusal(lake, sink(name, format_version=3)).code == "SQ3512"


# --- caches of an opened catalog --------------------------------------------------------------------------------------


def test_nothing_is_compiled_a_second_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    find(STATEMENT, sink("first"), Access(lake))  # creates the catalog's tables
    find(STATEMENT, sink("second"), Access(lake))
    compiled: list[str] = []
    compile_one = SQLCompiler.__init__

    def watched(self: SQLCompiler, *arguments: Any, **options: Any) -> None:
        compile_one(self, *arguments, **options)
        compiled.append(self.string)

    monkeypatch.setattr(SQLCompiler, "__init__", watched)
    assert find(STATEMENT, sink("third"), Access(lake)) == {"table": None}
    assert compiled == []


def test_what_others_did_to_a_catalog_is_seen(lake: Lake, name: str) -> None:
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}
    Sink(lake, name).start()
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None
    lake.catalog().drop_table(("shop", name))
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}


def test_another_file_in_the_place_of_a_catalog_is_seen(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None
    file, aside = lake.folder / "catalog.db", lake.folder / "aside.db"
    file.rename(aside)
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}
    aside.replace(file)
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None


def test_a_catalog_without_the_column_for_views_is_read(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    with sqlite3.connect(lake.folder / "catalog.db") as connection:
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None


def test_a_catalog_is_left_closed(lake: Lake, name: str) -> None:
    find(STATEMENT, sink(name), Access(lake))
    assert lake.folder / "catalog.db" not in {each.resolve() for each in Path("/proc/self/fd").iterdir()}


def test_other_options_of_a_connection_lead_to_another_catalog(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sink(lake, name).start()
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None
    options = {**lake.connection.options, "url": f"sqlite:///{lake.folder}/other.db"}
    monkeypatch.setattr(Lake, "connection", type(lake.connection)("lake", "ICEBERG CATALOG", options))
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}


def test_a_relative_url_is_one_of_the_working_folder(
    lake: Lake, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sink(lake, name).start()
    options = {**lake.connection.options, "url": "sqlite:///catalog.db"}
    monkeypatch.setattr(Lake, "connection", type(lake.connection)("lake", "ICEBERG CATALOG", options))
    monkeypatch.chdir(lake.folder)
    assert find(STATEMENT, sink(name), Access(lake))["table"] is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert find(STATEMENT, sink(name), Access(lake)) == {"table": None}
