"""A session on a new catalog in a separate folder, with tables, views and an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.session import Session

SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, g int, x int);
CREATE TABLE other (g int, name text);
CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g;
CREATE MATERIALIZED VIEW large AS SELECT g, s FROM v WHERE n > 1;
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(SETUP)
        yield session
