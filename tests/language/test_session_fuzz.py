"""Damaged statements through a whole session: parse, plan, SHOW, EXPLAIN, DML, SELECT over the system catalog."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from language.judge import changed
from sinkql.errors import SinkqlError
from sinkql.session import Session

pytestmark = pytest.mark.long

_COUNT = 3_000
_ITEMS = """CREATE SOURCE t (a int, b int, name text, at timestamp) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE TABLE u (id bigint, n numeric(5,2), s text);
"""
_STATEMENTS = (
    "SHOW TABLES WHERE name LIKE 'a%'",
    "SHOW SINKS",
    "SHOW COLUMNS FROM u WHERE nullable",
    "SHOW CREATE TABLE u",
    "SHOW CREATE SOURCE t",
    "SELECT name, id FROM mz_tables WHERE name = 'u' ORDER BY 1 LIMIT 3",
    "SELECT s.name, count(*) FROM mz_sinks s JOIN mz_objects o ON s.id = o.id GROUP BY s.name HAVING count(*) > 1",
    "WITH q AS (SELECT id FROM mz_tables) SELECT * FROM q WHERE id = ANY(ARRAY['u1'])",
    "INSERT INTO u (id, n) VALUES (1, 2.5), (3, NULL)",
    "UPDATE u SET n = n + 1, s = upper(s) WHERE id IN (1, 2)",
    "DELETE FROM u WHERE n BETWEEN 1 AND 2 OR s IS NULL",
    "EXPLAIN SELECT a + b AS x FROM t WHERE name ~ 'x'",
    "CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a",
    "CREATE SECRET s AS 'a' || '\\x61'",
    "COMMENT ON TABLE u IS 'x'",
)


def test_a_damaged_statement_runs_or_gets_a_coded_error_within_its_text(tmp_path: Path) -> None:
    random, outcomes, wrong = Random(11), Counter[str](), []
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_ITEMS)
        for _ in range(_COUNT):
            text = changed(random.choice(_STATEMENTS), random)
            try:
                session.execute(text)
                outcomes["right"] += 1
            except SinkqlError as error:
                outcomes[error.code] += 1
                if error.span is not None and not 0 <= error.span.start <= error.span.end <= len(text):
                    wrong.append((text, error.code, error.span))
    assert wrong == []
    assert outcomes["right"] > 100
    assert len(outcomes) > 15
