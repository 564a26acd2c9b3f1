"""Processes of a view and two of its sinks are killed: the next one continues, and no row is lost or doubled."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.view.log import Entry, ViewLog
from sinkql.connectors.view.rows import read_runs, schema_of
from sinkql.logical.type import BIGINT, INTEGER
from sinkql.physical import Column
from support.command import run, start
from support.fault import armed
from support.readers import duckdb_folder, open_table
from view.test_view_in_spark import QUERY, Rows, add, expected, script, tables

pytestmark = pytest.mark.slow
_HISTORIES, _KILLS = 10, 3
_POINTS = ("view-entry", "view-entry-made", "claim", "commit-request", "commit-reply", "state-manifest", "committed")
_COLUMNS = (Column("g", INTEGER), Column("n", BIGINT), Column("s", BIGINT), Column("most", INTEGER))


@pytest.mark.soak
def test_a_view_and_its_sinks_continue_where_they_were_killed(tmp_path: Path) -> None:
    names = script(tmp_path, 2)
    for number, rules in enumerate(("view-entry-made#2=kill", "commit-reply#2=kill")):
        add(tmp_path, 2 * number)
        add(tmp_path, 2 * number + 1)
        running = start("exec", "pipeline.sql", folder=tmp_path, environment=armed(rules))
        try:
            assert running.end() == -signal.SIGKILL, rules
        finally:
            running.kill()
    ended = run("exec", "--once", "pipeline.sql", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert tables(tmp_path, names) == dict.fromkeys(names, expected(tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(_HISTORIES))
def test_each_commit_of_a_sink_is_the_view_at_the_commit_that_it_names(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    names, killed, files = script(tmp_path, 2), 0, 0
    for number in range(_KILLS + 1):
        for _ in range(random_.randint(1, 3)):
            add(tmp_path, files)
            files += 1
        rules = f"{random_.choice(_POINTS)}#{random_.randint(1, 4)}=kill"
        ended = run(
            "exec", "--once", "pipeline.sql", folder=tmp_path, environment=armed(rules) if number < _KILLS else {}
        )
        assert ended.returncode in ((0, -signal.SIGKILL) if number < _KILLS else (0,)), (rules, ended.stderr)
        killed += ended.returncode != 0
    assert killed
    assert tables(tmp_path, names) == dict.fromkeys(names, expected(tmp_path))
    (folder,) = (tmp_path / ".sinkql" / "views").iterdir()
    log = ViewLog(folder)
    possible = [_of_files(tmp_path, count) for count in range(files + 1)]
    views = {number: _contents(log, log.entry(number)) for number in log.numbers()}
    reached = [possible.index(views[number]) for number in sorted(views)]
    assert reached == sorted(reached)
    assert reached[-1] == files
    commits = [_check(tmp_path, name, views) for name in names]
    print(f"{killed} kills, {len(views)} entries, {sum(commits)} commits")


def _of_files(folder: Path, count: int) -> Rows:
    """Return the view's rows over the first `count` files."""
    paths = [str(folder / "in" / f"{number:03}.json.gz") for number in range(count)]
    if not paths:
        return Counter()
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW events AS SELECT * FROM read_json({paths}, format = 'newline_delimited', "
            "columns = {g: 'INTEGER', x: 'INTEGER'})"
        )
        return Counter(connection.execute(QUERY).fetchall())


def _contents(log: ViewLog, entry: Entry | None) -> Rows:
    assert entry is not None
    found: Rows = Counter()
    for kept in entry.contents.values():
        table = read_runs(log.stored_runs(kept), schema_of(_COLUMNS))
        for *row, diff in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found[tuple(row)] += diff
    return +found


def _check(folder: Path, name: str, views: dict[int, Rows]) -> int:
    """Compare each snapshot of a table with the view at the entry in its offsets; return the number of snapshots."""
    checked = 0
    for snapshot in markers.ancestry(open_table(folder / "lake", f"n.{name}")):
        told = markers.own_checkpoint(snapshot, markers.writer_of(snapshot) or "")
        assert told is not None
        ((_, end),) = json.loads(told["offsets"])["end"].items()
        found = Counter(duckdb_folder(folder / "lake" / "n" / name, "g, n, s, most", snapshot=snapshot.snapshot_id))
        assert found == (views[end["at"]] if end["at"] else Counter()), (name, end)
        checked += 1
    return checked
