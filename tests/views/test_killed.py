"""Queries over several relations in processes that are killed: the next process's tables agree with DuckDB."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from support.command import run, start
from support.fault import armed
from support.gzipped import write_gzipped
from support.leftover import left, marked
from support.readers import connect
from views import tpch
from views.harness import Content
from views.queries import queries
from views.rows import Row, Rows, different, plain

pytestmark = pytest.mark.slow
_QUERIES = queries("tpch.sql")
_SCRIPT = """
CREATE CLUSTER c (SIZE = 'local[2]', EXECUTION = SPARK);
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
    """Write a file to each relation's folder."""
    for relation in tpch.RELATIONS:
        (folder / relation.name).mkdir(exist_ok=True)
        lines = [dict(zip(relation.columns, map(_json, row), strict=True)) for row in rows[relation.name]]
        path = folder / relation.name / f"{number}.json.gz"
        write_gzipped(path, "".join(json.dumps(each) + "\n" for each in lines))


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


def _hold(folder: Path, names: Sequence[str], rules: Sequence[str], *, size: int) -> None:
    """Run sinks in processes, all but the last of them killed, each over more rows than the one before.

    The first process follows its sources, as users run it.
    """
    sources = [
        _SOURCE.format(name=each.name, columns=", ".join(map(" ".join, each.columns.items())))
        for each in tpch.RELATIONS
    ]
    sinks = [_SINK.format(name=name, sql=_QUERIES[name]) for name in names]
    (folder / "pipeline.sql").write_text("".join([_SCRIPT, *sources, *sinks]))
    random_ = random.Random(7)
    rows = tpch.rows(size, random_)
    mixed = {name: random_.sample(each, len(each)) for name, each in rows.items()}
    for number in range(len(rules) + 1):
        _write(folder, number, {name: each[number :: len(rules) + 1] for name, each in mixed.items()})
        if number == len(rules):
            break
        mark, failpoints = marked(), armed(f"{rules[number]}=kill")
        running = start(
            "exec", *([] if not number else ["--once"]), "pipeline.sql", folder=folder, environment=failpoints | mark
        )
        try:
            assert running.end() == -signal.SIGKILL, rules[number]
        finally:
            running.kill()
        assert left(mark) == []
    ended = run("exec", "--once", "pipeline.sql", folder=folder)
    assert ended.returncode == 0, ended.stderr
    content = Content(tpch.RELATIONS)
    content.apply({name: [(row, 1) for row in each] for name, each in rows.items()})
    for name in names:
        expected = content.ask(_QUERIES[name])
        found = different(_read(folder, name), expected)
        assert not found, f"{name}: {found}"
        assert expected, name
    content.close()


@pytest.mark.soak
def test_sinks_of_a_killed_process_continue(tmp_path: Path) -> None:
    _hold(tmp_path, ("q3", "q13", "q22"), ["commit-reply#5"], size=60)


@pytest.mark.soak
def test_sinks_of_processes_killed_anywhere_continue(tmp_path: Path) -> None:
    names = ("q1", "q2", "q3", "q4", "q5", "q9", "q13", "q15", "q16", "q22")
    _hold(
        tmp_path,
        names,
        ["commit-reply#8", "state-manifest#4", "commit-request#9", "claim#6", "data-files#5"],
        size=90,
    )
