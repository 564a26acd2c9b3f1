"""Names of items for shell completion, read from the catalog file; empty without a valid file."""

from __future__ import annotations

from pathlib import Path

from sinkql.catalog.sqlite.item_names import item_names
from sinkql.session import Session

_ITEMS = """
CREATE SCHEMA "a.b"; CREATE SECRET t AS 'x'; CREATE SECRET "t.u" AS 'x'; CREATE SECRET "a.b".s AS 'x';
CREATE TABLE t1 (id bigint);
"""


def test_names_are_read_as_they_are_typed(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_ITEMS)
        path = session.catalog.database.folder / "catalog.db"
    assert item_names(path, "SECRET") == ['"a.b".s', "t", '"t.u"']
    assert item_names(path, "TABLE", "SOURCE", "SECRET") == ["t1", '"a.b".s', "t", '"t.u"']


def test_there_are_none_without_a_catalog(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1000)
    assert item_names(damaged, "SINK") == []
    assert item_names(tmp_path / "none.db", "SINK") == []
    assert item_names(tmp_path, "SINK") == []
