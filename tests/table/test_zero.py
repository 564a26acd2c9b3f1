"""A zero keeps its sign, from statements and through a table to readers of Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.readers import duckdb_folder, open_table, pyiceberg_rows
from support.running import drain, loop_of

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE TABLE t (id int PRIMARY KEY, f double precision, r real);
INSERT INTO t VALUES (1, '-0', '-0'), (2, 0, 0), (3, -0.0::double precision * 1, NULL), (4, '0', '-0.0');
CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def test_the_sign_of_a_zero_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_SETUP)
        (shown,) = session.execute("SELECT * FROM t")
        (job,) = session.jobs()
        loop = loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine(2))
        loop.start(epoch=1)
        assert drain(loop) == 1
    rows = "[(1, -0.0, -0.0), (2, 0.0, 0.0), (3, -0.0, None), (4, 0.0, -0.0)]"
    assert repr(sorted(shown.rows)) == rows
    assert repr(duckdb_folder(Path("lake/n/t"))) == rows
    assert repr(pyiceberg_rows(open_table(Path("lake"), "n.t"))) == rows
