"""A table's file is private, exact for every type, and recognized if it is missing or older."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest

import sinkql
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context, Limit, ReadCounts
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.table import file
from table.test_table_sinks import _SETUP, KINDS, sink

_TYPES = """
CREATE TABLE t (a boolean, b smallint, c integer, d bigint, e real, f double precision, g numeric(38, 20), h date,
  i timestamp, j timestamptz, k text, l bytea, m uuid, n jsonb);
INSERT INTO t VALUES
  (true, 32767, -2147483648, 9223372036854775807, 0.1, 'NaN', 123456789012345678.00000000000000000001, '0001-01-01',
   '9999-12-31 23:59:59.999999', '2024-03-31 02:30:00.000001+05:30', E'\\u0001''"\\\\ \\U0001F600', '\\x00ff',
   'A0EEBC999C0B4EF8BB6D6BB9BD380A11', '{"b": 1.10, "a": [1e2, null, "é"], "b": 2}'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (false, -32768, 0, -9223372036854775808, '-Infinity', '-0.0', -0.5, '9999-12-31', '0001-01-01', 'epoch', '', '', NULL,
   'null');
"""
_VALUES: list[tuple[Any, ...]] = [
    (
        True, 32767, -(2**31), 2**63 - 1, 0.10000000149011612, "nan",
        Decimal("123456789012345678.00000000000000000001"),
        date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2024, 3, 30, 21, 0, 0, 1, UTC),
        "\x01'\"\\ \U0001f600", b"\x00\xff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '{"a": [100, null, "é"], "b": 2}',
    ),
    (None,) * 14,
    (
        False, -32768, 0, -(2**63), float("-inf"), -0.0, Decimal("-0.5"), date(9999, 12, 31), datetime(1, 1, 1),
        datetime(1970, 1, 1, tzinfo=UTC), "", b"", None, "null",
    ),
]  # fmt: skip


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("nan" if isinstance(value, float) and value != value else value for value in row)  # NaN


@pytest.mark.spark
def test_every_type_comes_back_as_it_went_in(session: Session) -> None:
    session.execute(_TYPES)
    found = [plain(row) for row in session.execute("SELECT * FROM t")[0].rows]
    assert found == _VALUES
    assert str(found[2][5]) == "-0.0"
    session.execute("UPDATE t SET k = k || 'x' WHERE a = true; INSERT INTO t (k) VALUES ('y')")
    assert [row[:10] for row in _VALUES if row[0]] == [
        plain(row)[:10] for row in session.execute("SELECT * FROM t WHERE a")[0].rows
    ]


def test_a_file_is_its_owners_alone_and_goes_with_the_table(session: Session) -> None:
    session.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    (file,) = Path(".sinkql/tables").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    session.execute("DROP TABLE t")
    assert list(Path(".sinkql/tables").iterdir()) == []


def test_create_that_fails_leaves_no_file(session: Session) -> None:
    session.execute("CREATE SOURCE t FROM LOAD GENERATOR COUNTER")
    with pytest.raises(SinkqlError):
        session.execute("CREATE TABLE t (a int)")
    assert not Path(".sinkql/tables").exists()


@pytest.mark.parametrize("no_page", [True, False])
def test_a_full_disk_is_named_and_leaves_no_file(
    session: Session, monkeypatch: pytest.MonkeyPatch, no_page: bool
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "t.db")

    if no_page:
        monkeypatch.setattr(file, "_SCHEMA", f"PRAGMA max_page_count = 1; {file._SCHEMA}")
    else:
        monkeypatch.setattr(os, "open", full)
    with pytest.raises(SinkqlError) as refused:
        session.execute("CREATE TABLE t (a int)")
    assert (refused.value.code, refused.value.message) == (
        "SQ4306",
        "could not write the file of a table: no space left on device",
    )
    assert list(Path(".sinkql/tables").iterdir()) == []


def test_lost_and_older_files_are_told(session: Session, tmp_path: Path) -> None:
    session.execute(f"{_SETUP} INSERT INTO t (id) VALUES (1)")
    item = session.catalog.plans.item("materialize.public.t")
    path = Path(f".sinkql/tables/{item.options['table_id']}.db")  # type: ignore[union-attr]  # a table
    shutil.copy(path, tmp_path / "older.db")
    session.execute("INSERT INTO t (id) VALUES (2)")
    running = sink(session, KINDS["upsert"])
    running.start(epoch=1)
    reader = running.readers["materialize.public.t"]
    end = reader.target(reader.initial(at_end=False))
    shutil.copy(tmp_path / "older.db", path)
    with pytest.raises(SinkqlError) as older:
        reader.latest(end, Limit(10))
    path.unlink()
    with pytest.raises(SinkqlError) as lost:
        session.execute("SELECT * FROM t")
    with pytest.raises(SinkqlError) as closed:
        list(reader.read({"first": 1, "last": 1, "start": 0, "end": end}, ReadCounts()))
    assert (older.value.code, lost.value.code, closed.value.code) == ("SQ3421", "SQ3420", "SQ3420")
    assert not path.exists()  # reading does not create it


def test_a_compiled_table_has_no_rows(tmp_path: Path) -> None:
    program = sinkql.compile(
        "CREATE TABLE t (a int); CREATE CONNECTION l TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'l');"
        "CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION l (NAMESPACE = 'n', TABLE = 't') MODE APPEND"
        " WITH (COMMIT INTERVAL = '1s')"
    )
    (read,) = program.jobs[0].reads()
    with pytest.raises(SinkqlError) as compiled:
        discover().reader(read, Context("s", "s", tmp_path, str))
    assert compiled.value.code == "SQ3422"
