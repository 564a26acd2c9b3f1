"""ALTER SINK … PUBLISH in a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from sinkql.session.session import Session
from support.running import drain, loop_of, rows

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (k bigint NOT NULL, v bigint) FROM FILES (PATH = '{folder}/in', GLOB = '*.json') FORMAT JSON;
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s', BRANCH = 'audit');
"""
_PUBLISH = "ALTER SINK s PUBLISH"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "in").mkdir()
    with Session(tmp_path / "catalog.db") as found:
        found.execute(_SCRIPT.format(folder=tmp_path))
        yield found


def put(folder: Path, number: int) -> None:
    (folder / "in" / f"{number}.json").write_text("\n".join(json.dumps({"k": each, "v": number}) for each in range(3)))


def run(session: Session) -> None:
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=1, once=True)
    drain(loop)


def table(folder: Path) -> Table:
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    return catalog.load_table("n.t")


def test_what_a_sink_has_committed_is_published(session: Session, tmp_path: Path) -> None:
    put(tmp_path, 1)
    run(session)
    assert table(tmp_path).current_snapshot() is None
    columns, (row,) = session.status(["s"])
    assert dict(zip(columns, row, strict=True))["branch"] == "audit"
    (seen,) = session.execute("SELECT k, v FROM s ORDER BY k")
    assert seen.rows == ((0, 1), (1, 1), (2, 1))
    (done,) = session.execute(_PUBLISH)
    head = table(tmp_path).metadata.refs["audit"].snapshot_id
    assert done.tag == "ALTER SINK"
    assert [notice.message for notice in done.notices] == [
        f'main of table "n.t" is now where branch "audit" is, at snapshot {head}'
    ]
    assert rows(tmp_path) == [(0, 1), (1, 1), (2, 1)]
    (again,) = session.execute(_PUBLISH)
    assert again.skipped
    assert "was already" in again.notices[0].message
    put(tmp_path, 2)
    run(session)
    assert rows(tmp_path) == [(0, 1), (1, 1), (2, 1)]
    session.execute(_PUBLISH)
    assert rows(tmp_path) == [(0, 2), (1, 2), (2, 2)]
