"""A dead-letter table that a user drops or changes; the sinks run without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import BooleanType

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session.session import Session
from support.readers import duckdb_folder
from support.running import drain, loop_of

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (k bigint) FROM FILES (PATH = '{folder}/in') FORMAT JSON WITH (ON ERROR = DEAD LETTER);
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "in").mkdir()
    with Session(tmp_path / "catalog.db") as found:
        found.execute(_SCRIPT.format(folder=tmp_path))
        yield found


def _started(session: Session) -> BatchLoop:
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=1)
    return loop


def _commit(loop: BatchLoop) -> None:
    """Commit all data that is available now."""
    loop.targets = {name: reader.target(loop.checkpoint.end[name]) for name, reader in loop.readers.items()}
    drain(loop)


def _add(folder: Path, name: str) -> None:
    """Write a row and a record that does not decode."""
    (folder / "in" / name).write_text(f'{{"k": 1}}\n{{"k": "{name}"}}\n')


def _catalog(folder: Path) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")


def _kept(folder: Path) -> list[bytes]:
    return [row[0] for row in duckdb_folder(str(folder / "lake" / "n" / "t__errors"), "raw")]


@pytest.mark.parametrize("running", [False, True])
def test_a_table_that_was_dropped_is_recreated(session: Session, tmp_path: Path, running: bool) -> None:
    _add(tmp_path, "a")
    loop = _started(session)
    _commit(loop)
    _catalog(tmp_path).drop_table("n.t__errors")
    _add(tmp_path, "b")
    _commit(loop if running else _started(session))
    assert _kept(tmp_path) == [b'{"k": "b"}']
    assert len(duckdb_folder(str(tmp_path / "lake" / "n" / "t"), "k")) == 2


def test_a_table_with_other_columns_says_what_to_do_with_it(session: Session, tmp_path: Path) -> None:
    _add(tmp_path, "a")
    _commit(_started(session))
    with _catalog(tmp_path).load_table("n.t__errors").update_schema() as update:
        update.add_column("handled", BooleanType())
    _add(tmp_path, "b")
    with pytest.raises(SinkqlError) as stopped:
        _started(session)
    assert stopped.value.code == "SQ3504"
    assert "Rename or drop this dead-letter table" in (stopped.value.hint or "")
    _catalog(tmp_path).rename_table("n.t__errors", "n.handled")
    _commit(_started(session))
    moved = [row["raw"] for row in _catalog(tmp_path).load_table("n.handled").scan().to_arrow().to_pylist()]
    kept = [row["raw"] for row in _catalog(tmp_path).load_table("n.t__errors").scan().to_arrow().to_pylist()]
    assert (moved, kept) == ([b'{"k": "a"}'], [b'{"k": "b"}'])
