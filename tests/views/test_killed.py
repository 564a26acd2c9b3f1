"""Queries of several relations in processes that are killed: the next one's tables are as DuckDB says, of all rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from support.command import run, start
from support.fault import armed
from support.leftover import left, marked
from support.readers import connect
from views import tpch
from views.harness import Content
from views.queries import queries
from views.rows import Row, Rows, different, plain

pytestmark = pytest.mark.slow
_QUERIES = queries("tpch.sql")
_SINKS = ("q3", "q4", "q13", "q16", "q22")
_SCRIPT = """
CREATE CLUSTER c (SIZE = 'local[2]');
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_SOURCE = "CREATE SOURCE {name} ({columns}) FROM FILES (PATH = '{name}', MAX FILES PER COMMIT = 1) FORMAT JSON;\n"
_SINK = """CREATE MATERIALIZED VIEW {name} AS {sql};
CREATE SINK {name}_sink IN CLUSTER c FROM {name}
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def _write(folder: Path, number: int, rows: Mapping[str, list[Row]]) -> None:
    """Add a file to each relation's folder."""
    for relation in tpch.RELATIONS:
        (folder / relation.name).mkdir(exist_ok=True)
        lines = [dict(zip(relation.columns, map(_json, row), strict=True)) for row in rows[relation.name]]
        (folder / relation.name / f"{number}.json").write_text("".join(json.dumps(each) + "\n" for each in lines))


def _json(value: object) -> object:
    return str(value) if isinstance(value, Decimal | date) else value


def _read(folder: Path, name: str) -> Rows:
    found: Rows = Counter()
    with connect() as connection:
        of = f"iceberg_scan('{folder / 'lake' / 'n' / name}')"
        for *row, diff in connection.execute(f"SELECT * EXCLUDE (_mz_timestamp) FROM {of}").fetchall():
            found[plain(row)] += diff
    assert all(count >= 0 for count in found.values())
    return +found


def test_sinks_of_killed_processes_go_on(tmp_path: Path) -> None:
    sources = [
        _SOURCE.format(name=each.name, columns=", ".join(map(" ".join, each.columns.items())))
        for each in tpch.RELATIONS
    ]
    sinks = [_SINK.format(name=name, sql=_QUERIES[name]) for name in _SINKS]
    (tmp_path / "pipeline.sql").write_text("".join([_SCRIPT, *sources, *sinks]))
    random_ = random.Random(7)
    rows = tpch.rows(60, random_)
    halves = [{name: random_.sample(each, len(each)) for name, each in rows.items()}]
    _write(tmp_path, 0, {name: each[: len(each) // 2] for name, each in halves[0].items()})
    mark = marked()
    running = start("exec", "pipeline.sql", folder=tmp_path, environment=armed("commit-reply#8=kill") | mark)
    try:
        assert running.end() == -9
    finally:
        running.kill()
    assert left(mark) == []
    _write(tmp_path, 1, {name: each[len(each) // 2 :] for name, each in halves[0].items()})
    killed = run("exec", "--once", "pipeline.sql", folder=tmp_path, environment=armed("commit-request#7=kill"))
    assert killed.returncode == -9
    ended = run("exec", "--once", "pipeline.sql", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    content = Content(tpch.RELATIONS)
    content.apply({name: [(row, 1) for row in each] for name, each in rows.items()})
    for name in _SINKS:
        found = different(_read(tmp_path, name), content.ask(_QUERIES[name]))
        assert not found, f"{name}: {found}"
    content.close()
