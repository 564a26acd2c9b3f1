"""Errors that golden files do not show, because a script alone does not cause them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from sqlalchemy.exc import SQLAlchemyError

import sinkql
from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.secret import providers
from sinkql.catalog.sqlite import connection
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import ReadCounts, RowError, Split
from sinkql.connectors.iceberg.commit.committer import commit_proposal
from sinkql.connectors.iceberg.file import deletes
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.table.failure import catalog_error
from sinkql.connectors.iceberg.table.tag import TagState
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from sinkql.runtime.batch.dead_letter import open_dead_letter_table
from sinkql.runtime.local import task
from sinkql.runtime.spark import session as spark
from sinkql.runtime.spark.jvm import Jvm
from sinkql.runtime.spark.settings import SparkSettings
from sinkql.script.split import script_files
from sinkql.session import Session
from sinkql.shell import terminal
from sinkql.shell.terminal import run_shell
from support import running

_SINK = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = 'k')
  MODE APPEND WITH (COMMIT INTERVAL = '10s');
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\\nothing", "SQ4030"),
        ("\\watch", "SQ4031"),
        ("\\format cuneiform", "SQ4031"),
        ("\\o /no/such/folder/rows.txt", "SQ4032"),
        ("\\e", "SQ4035"),
        ("\\start", "SQ4036"),
        ("\\h FROBNICATE", "SQ4037"),
    ],
)
def test_mistake_in_a_command_of_the_shell_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, code: str
) -> None:
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    monkeypatch.delenv("VISUAL", raising=False)
    with Session(tmp_path / "catalog.db") as session:
        assert run_shell(session, [(text, None)]) != 0
    assert f"error[{code}]" in capsys.readouterr().err


def test_shell_that_runs_no_sinks_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        assert run_shell(session, [(_SINK, None)]) == 0
    assert (
        "notice: the sink is not running yet" in capsys.readouterr().err
    )  # SQ4034; the shell prints notices without their codes


def test_unforeseen_error_in_the_shell_is_told_without_its_message() -> None:
    try:
        raise ZeroDivisionError("a secret")
    except ZeroDivisionError as error:
        told = terminal._unforeseen(error)
    assert told.code == "SQ4038"
    assert "a secret" not in f"{told.message} {told.detail} {told.hint}"


def test_folder_without_scripts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert _code(script_files, [tmp_path]) == "SQ4017"


def test_catalog_file_that_stays_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "catalog.db"
    Session(file).close()
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.01)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with Session(file) as session:
            assert _code(session.execute, "CREATE SCHEMA s") == "SQ4104"
    finally:
        other.close()


def test_password_as_text_in_a_compiled_program_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = sinkql.compile(
        """
        CREATE CONNECTION rest TO ICEBERG CATALOG (
          CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1', WAREHOUSE = 'w', CREDENTIAL = 'id:secret'
        ) WITH (VALIDATE = false);
        CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
        CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION rest (NAMESPACE = 'x', TABLE = 'k')
          MODE APPEND WITH (COMMIT INTERVAL = '10s');
        """
    )
    assert "SQ4126" in [notice.code for notice in program.notices]


def test_answer_of_aws_that_is_an_error_of_its_own_is_told() -> None:
    answer = {"Error": {"Code": "InternalServiceError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
    assert providers._aws_error("login", "app/login", answer).code == "SQ4147"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SQLAlchemyError("no such column"), "SQ4207"),
        (RuntimeError("odd"), "SQ4208"),
        (OSError("AWS Error UNKNOWN: HTTP 301: the bucket is in another place"), "SQ4303"),
    ],
)
def test_failure_of_catalog_and_storage_is_told(error: Exception, code: str) -> None:
    assert catalog_error(error, "lake").code == code


def test_table_that_others_keep_changing_is_told() -> None:
    class Crowded:
        namespace, table, connection = "shop", "orders", "lake"
        tags = TagState()

        def load(self) -> object:
            return table

        def settle(self, *_: object) -> None:
            return

        def post(self, *_: object) -> object:
            raise CommitFailedException("the table has changed")

    class Attempt:
        def prepare(self, _: object) -> SimpleNamespace:
            return SimpleNamespace(requirements=(), updates=(), files=(), tag=None)

        def is_committed(self, _: object) -> bool:
            return False

        def check(self, *_: object) -> None:
            return

    target: Any = Crowded()
    attempt: Any = Attempt()
    table: Any = SimpleNamespace(metadata=SimpleNamespace(current_snapshot_id=1, next_sequence_number=lambda: 1))
    assert _code(commit_proposal, target, table, attempt) == "SQ5203"


def test_item_that_comes_to_depend_on_what_is_dropped_stops_the_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalog.db"
    with Session(file) as session, Session(file) as other:
        session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE VIEW v AS SELECT counter FROM n")
        change, late = Catalog.change, ["CREATE VIEW w AS SELECT counter FROM v"]

        def changed_before(catalog: Catalog, *given: Any, **named: Any) -> Any:
            if late:
                other.execute(late.pop())
            return change(catalog, *given, **named)

        monkeypatch.setattr(Catalog, "change", changed_before)
        assert _code(session.execute, "DROP VIEW v CASCADE") == "SQ5205"
        session.execute("DROP VIEW v CASCADE")


class _Reader:
    """A source that returns one batch of text, whatever it declares."""

    def read(self, _: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": ["one"]})


def test_source_with_other_columns_than_it_declares_is_refused() -> None:
    reader: Any = _Reader()
    split: Any = object()
    columns = (physical.Column("id", BIGINT, False),)
    what = physical.Read("orders", "odd", {}, columns)
    read = task.ReadTask(what, reader, (split,), diff=False, sequence=False, first=0)
    assert _code(lambda: list(read.rows([0], "a", list[object]().append))) == "SQ3390"


class _LosingReader:
    """A source that reads three records: one becomes a row, one fails, and one is not reported."""

    def read(self, _: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        read_counts.rows += 3
        read_counts.fail(RowError("1", "SQ3101", "it is none", b"x"))
        yield pa.record_batch({"id": [1]})


def test_source_that_loses_a_record_is_refused() -> None:
    reader: Any = _LosingReader()
    split: Any = object()
    what = physical.Read("orders", "odd", {}, (physical.Column("id", BIGINT, False),))
    read = task.ReadTask(what, reader, (split,), diff=False, sequence=False, first=0)
    assert _code(lambda: list(read.rows([0], "a", list[object]().append))) == "SQ3392"


def test_records_that_do_not_decode_go_to_no_sink_that_has_no_place_for_them(tmp_path: Path) -> None:
    registry = discover()
    job = running.job(running.csv_files(tmp_path), tmp_path)
    keeping = msgspec.structs.replace(job.write.input, options={"tuning": {"on_error": "dead letter"}})
    job = msgspec.structs.replace(job, write=msgspec.structs.replace(job.write, input=keeping))
    assert open_dead_letter_table(registry, job, running.contexts(tmp_path, job)) is not None
    sink = replace(registry.sinks["ICEBERG CATALOG"], dead_letter_write=None)
    registry = replace(registry, sinks={"ICEBERG CATALOG": sink})
    assert _code(open_dead_letter_table, registry, job, running.contexts(tmp_path, job)) == "SQ3393"


def test_split_that_gives_other_rows_the_second_time_is_refused() -> None:
    split: Any = object()
    words: list[object] = [
        task.SplitReport("orders", 0, ReadCounts(rows=3)),
        task.SplitReport("orders", 0, ReadCounts(rows=3)),
    ]
    task.source_tallies(words, {"orders": [split]})
    words.append(task.SplitReport("orders", 0, ReadCounts(rows=2)))
    assert _code(task.source_tallies, words, {"orders": [split]}) == "SQ3391"


def test_data_file_that_is_not_parquet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = SimpleNamespace(content=DataFileContent.DATA, file_format=FileFormat.ORC, file_path="a.orc")
    manifest = SimpleNamespace(
        content=ManifestContent.DATA,
        partition_spec_id=0,
    )
    monkeypatch.setattr(deletes, "manifests_of", lambda *_: [manifest])
    monkeypatch.setattr(deletes, "entries_of", lambda *_: [SimpleNamespace(data_file=file)])
    table: Any = SimpleNamespace(current_snapshot=lambda: None, io=None, name=lambda: ("shop", "orders"))
    assert _code(live_files, table) == "SQ3554"


def test_spark_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Java gateway process exited before sending its port number")

    monkeypatch.setattr(Jvm, "start", fail)
    settings = SparkSettings("local[1]", {}, tmp_path)
    with (tmp_path / "out").open("w") as output:
        assert _code(spark._launch, settings, Jvm(), None, tmp_path / "conf", output, {}) == "SQ4003"


def _code(call: Any, *given: object) -> str:
    with pytest.raises(SinkqlError) as raised:
        call(*given)
    return raised.value.code
