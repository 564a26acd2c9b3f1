"""The rows of a sink's table that a user sees, and the printed commands that read it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from sinkql import physical
from sinkql.connector_api.stream import PlanChange
from sinkql.connectors.iceberg.commit.table_facts import current_rows
from sinkql.connectors.iceberg.table import reader
from sinkql.connectors.iceberg.table.reader import lines
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, TEXT, parse_type
from support.lake import Lake, Sink
from support.readers import connect
from support.seaweed import SECRET


def test_before_there_is_a_table_nothing_is_shown_of_it(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    assert lines(sink.planned, sink.context) == []
    assert current_rows(sink.planned, sink.context, sink.columns, 10).num_rows == 0


def test_rows_and_a_way_to_read_them_are_shown_once_they_are_there(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    sink.put((1, "a"), (2, None))
    found = current_rows(sink.planned, sink.context, sink.columns, 10)
    assert found.column_names == ["id", "name"]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(1, "a"), (2, None)]


def test_a_column_has_the_name_that_the_next_claim_gives_it(any_lake: Lake, name: str) -> None:
    old = Sink(any_lake, name, upsert=True)
    old.start()
    old.put((1, "a"))
    columns = (physical.Column("id", BIGINT, nullable=False), physical.Column("title", TEXT),
               physical.Column("name", TEXT))  # fmt: skip
    new = Sink(any_lake, name, upsert=True, columns=columns)
    for again in ((), ("plan",)):
        switch = PlanChange("new", {"plan": {"name": "title"}}, again=frozenset(again))
        found = current_rows(new.planned, new.context, columns, 10, switch=switch).to_pylist()
        assert found == [{"id": 1, "title": None if again else "a", "name": "a" if again else None}]
    assert any_lake.table(name).schema().column_names == ["id", "name"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_list_of_arrays_is_not_one_without_elements(lake: Lake, name: str, version: int) -> None:
    columns = (physical.Column("id", BIGINT, nullable=False), physical.Column("l", parse_type("text[] list")))
    sink = Sink(lake, name, upsert=True, columns=columns, options={"format_version": version})
    sink.start()
    sink.put((1, None), (2, [["gone"]]), (3, [None, [], ["x", None]]))  # type: ignore[arg-type]  # other columns
    sink.put((2, []))  # type: ignore[arg-type]  # other columns
    found = current_rows(sink.planned, sink.context, columns, 10).to_pydict()
    assert sorted(zip(*found.values(), strict=True)) == [(1, None), (2, []), (3, [None, [], ["x", None]])]
    assert current_rows(sink.planned, sink.context, columns, 2).num_rows == 2


def test_a_table_with_dots_in_its_name_is_loaded_by_its_parts(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sink = Sink(lake, "b.c", options={"namespace": "n.a"})
    sink.start()
    named = re.search(r"\.load_table\((.+?)\)\.scan", lines(sink.planned, sink.context)[-1])
    assert named is not None
    assert lake.catalog().load_table(ast.literal_eval(named[1])).name() == ("n", "a", "b.c")
    with pytest.raises(SinkqlError, match=r'table "n\.a\."b\.c""'):
        current_rows(sink.planned, sink.context, (physical.Column("other", TEXT),), 10)


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("options", [{}, {"branch": "audit's"}], ids=["main", "branch"])
def test_printed_lines_work_as_printed(any_lake: Lake, name: str, options: dict[str, str]) -> None:
    sink = Sink(any_lake, name, options=options)
    sink.start()
    sink.put((1, "a"), (2, None))
    printed = dict(line.split(":", 1) for line in lines(sink.planned, sink.context))
    assert list(printed) == [*(["Set first"] if any_lake.server else []), "DuckDB", "PyIceberg"]
    assert SECRET not in str(printed)
    named = re.findall(r"[A-Z_]{5,}", printed.get("Set first", ""))
    credentials = {place: "admin" if place.endswith("_ID") else SECRET for place in named}
    with connect() as connection:
        # DuckDB's shell has getenv, its library does not
        cases = "".join(f" WHEN '{place}' THEN '{value}'" for place, value in credentials.items())
        connection.execute(f"CREATE MACRO getenv(name) AS CASE name {cases or 'WHEN NULL THEN NULL'} END")
        assert sorted(connection.execute(printed["DuckDB"]).fetchall()) == [(1, "a"), (2, None)]
    command = [sys.executable, "-c", printed["PyIceberg"].strip()]
    done = subprocess.run(command, env=os.environ | credentials, capture_output=True, text=True, check=True)
    rows_read = ast.literal_eval(done.stdout)
    assert sorted(rows_read, key=lambda row: row["id"]) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_a_database_password_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = SimpleNamespace(properties={"uri": "postgresql://u:p%40w@h/db"})
    table: Any = SimpleNamespace(location=lambda: "s3://lake/t", catalog=catalog)
    duckdb, properties = reader._read_sql_catalog(table)
    assert duckdb is None
    (argument,) = [each for each in reader._arguments(properties) if each.startswith("uri=")]
    assert "p%40w" not in argument
    monkeypatch.setenv("CATALOG_PASSWORD", "p@w")
    known = {"os": os, "quote": quote}
    assert eval(argument.removeprefix("uri="), known) == "postgresql://u:p%40w@h/db"
