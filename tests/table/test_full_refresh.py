"""If a change of a view alters written rows, the sink does a full refresh of its table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from support.readers import Rows, duckdb_folder, open_table, pyiceberg_rows
from support.running import drain
from table.test_table_sinks import loop

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, v int, w text);
CREATE MATERIALIZED VIEW m AS SELECT id, v, w FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW c AS SELECT w, count(*) AS rows, sum(v) AS total FROM t GROUP BY w;
"""
_ROWS = "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'a'), (4, -4, 'b');"
_SINK = """
CREATE SINK s FROM {} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's')
  KEY ({}) {} MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_OF_M, _OF_C = _SINK.format("m", "id", "NOT ENFORCED"), _SINK.format("c", "w", "")
_AGAIN = "; then its table gets the new rows in one commit, and has the old rows until then"


def _run(session: Session, epoch: int) -> bool:
    """Run the sink over all available data; return whether it did a full refresh."""
    running = loop(session)
    running.start(epoch=epoch, once=True)
    rebuilds = running.needs_full_refresh()
    drain(running)
    return rebuilds


def _read(*columns: str) -> Rows:
    table = open_table(Path(), "n.s")
    found = pyiceberg_rows(table, columns)
    assert found == duckdb_folder(table.location(), ", ".join(columns))
    return found


def _snapshots() -> int:
    return len(open_table(Path(), "n.s").metadata.snapshots)


def _effects(session: Session, text: str) -> list[tuple[str, str, str]]:
    """Plan and apply a script; return the action, kind and effect of each step."""
    deployment = plan_deployment([Script("a.sql", text)], session)
    apply(deployment, session)
    assert plan_deployment([Script("a.sql", text)], session).steps == ()
    return [(step.action, step.kind, step.effect) for step in deployment.steps]


def test_a_view_with_other_rows_and_columns(session: Session) -> None:
    session.execute(_SETUP + _OF_M + _ROWS)
    assert not _run(session, 1)
    before = _snapshots()
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v * 2 AS v, v + 1 AS n FROM t WHERE v <> 2;")
    session.execute("INSERT INTO t VALUES (5, 5, 'c')")
    assert _run(session, 2)
    assert _read("id", "v", "n") == [(1, 2, 2), (3, 6, 4), (4, -8, -3), (5, 10, 6)]
    assert [field.name for field in open_table(Path(), "n.s").schema().fields] == ["id", "v", "n"]
    assert _snapshots() == before + 2  # the claim's snapshot, and one with the rows
    session.execute("DELETE FROM t WHERE id = 1; UPDATE t SET v = 7 WHERE id = 2;")
    assert not _run(session, 3)
    assert _read("id", "v", "n") == [(2, 14, 8), (3, 6, 4), (4, -8, -3), (5, 10, 6)]


def test_apply_says_which_sinks_compute_their_rows_again(session: Session) -> None:
    text = _SETUP + _OF_M
    session.execute(text + _ROWS)
    _run(session, 1)
    changed = text.replace("SELECT id, v, w FROM t WHERE v > 0", "SELECT id, v + 1 AS v FROM t WHERE v > 1")
    assert _effects(session, changed) == [
        ("alter", "MATERIALIZED VIEW", ""),
        ("alter", "SINK", f're-reads source "t" from the start{_AGAIN}; it also drops column "w"'),
    ]
    assert _run(session, 2)
    assert _read("id", "v") == [(2, 3), (3, 4)]


def test_an_upsert_sink_reads_another_relation(session: Session) -> None:
    other = "CREATE MATERIALIZED VIEW d AS SELECT w, max(v) AS most FROM t WHERE v > 1 GROUP BY w;"
    session.execute(_SETUP + _OF_C + _ROWS)
    _run(session, 1)
    assert _read("w", "rows", "total") == [("a", 2, 4), ("b", 2, -2)]
    session.execute(f"{other} ALTER SINK s SET FROM d;")
    assert _run(session, 2)
    assert _read("w", "most") == [("a", 3), ("b", 2)]
    session.execute("INSERT INTO t VALUES (6, 6, 'c'), (7, 7, 'a')")
    assert not _run(session, 3)  # with the state of the full refresh
    assert _read("w", "most") == [("a", 7), ("b", 2), ("c", 6)]
    ((_, _, effect),) = _effects(session, _SETUP + other + _OF_C)
    columns = 'drops column "most", gets column "rows" and column "total"'
    assert effect == f're-reads source "t" from the start{_AGAIN}; it also {columns}'
    assert _run(session, 4)
    assert _read("w", "rows", "total") == [("a", 3, 11), ("b", 2, -2), ("c", 1, 6)]


def test_a_change_that_is_taken_back_before_the_sink_runs_reads_nothing_again(session: Session) -> None:
    session.execute(_SETUP + _OF_M + _ROWS)
    _run(session, 1)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v + 1 AS v, w FROM t WHERE v > 0;")
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v, w FROM t WHERE v > 0;")
    assert not _run(session, 2)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v + 1 AS v, w FROM t WHERE v > 0;")
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v + 1 AS x, w FROM t WHERE v > 0;")
    assert _run(session, 3)  # possible in place after the last change, but not after the table's last batch
    assert _read("id", "x", "w") == [(1, 2, "a"), (2, 3, "b"), (3, 4, "a")]


@pytest.mark.parametrize("clauses", ["KEY (id) NOT ENFORCED MODE UPSERT", "MODE APPEND"])
def test_a_column_that_goes_leaves_the_table_in_place(session: Session, clauses: str) -> None:
    text = _SETUP + _OF_M.replace("KEY (id) NOT ENFORCED MODE UPSERT", clauses)
    session.execute(text + _ROWS)
    _run(session, 1)
    old = open_table(Path(), "n.s").schema().find_field("v").field_id
    assert _effects(session, text.replace("SELECT id, v, w FROM t", "SELECT id, w FROM t")) == [
        ("alter", "MATERIALIZED VIEW", "its sinks continue where they are"),
        ("alter", "SINK", 'its table drops column "v"; nothing is read again'),
    ]
    session.execute("INSERT INTO t VALUES (5, 5, 'c')")
    assert not _run(session, 2)
    assert _read("id", "w") == [(1, "a"), (2, "b"), (3, "a"), (5, "c")]
    if clauses == "MODE APPEND":
        return
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v, w FROM t WHERE v > 0;")
    assert _run(session, 3)  # it returns as a new column, with all its values
    assert _read("id", "v") == [(1, 1), (2, 2), (3, 3), (5, 5)]
    assert open_table(Path(), "n.s").schema().find_field("v").field_id > old


def test_a_row_that_fails_in_the_new_view_can_be_corrected(session: Session) -> None:
    session.execute(_SETUP + _OF_M + _ROWS)
    _run(session, 1)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, 12 / (v - 2) AS v, w FROM t WHERE v > 0;")
    for epoch in (2, 3):
        with pytest.raises(SinkqlError) as failed:
            _run(session, epoch)
        assert failed.value.code == "SQ3201"
        assert _read("id", "v") == [(1, 1), (2, 2), (3, 3)]
        session.execute("INSERT INTO t VALUES (5, 5, 'c')" if epoch == 2 else "DELETE FROM t WHERE id = 2")
    assert _run(session, 4)
    assert _read("id", "v") == [(1, -12), (3, 12), (5, 4)]


def test_a_full_refresh_that_is_broken_off_leaves_the_table_as_it_is(session: Session) -> None:
    session.execute(_SETUP + _OF_C + _ROWS)
    _run(session, 1)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW c AS SELECT w, count(*) AS rows, min(v)::bigint AS total"
                    " FROM t GROUP BY w;")  # fmt: skip
    running = loop(session)
    running.start(epoch=2, once=True)
    steps: list[str] = []

    def between(step: str, rows: int) -> None:
        steps.append(step)
        if step == "comparing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.full_refresh(between)
    assert set(steps) == {"reading", "comparing"}
    assert _read("w", "rows", "total") == [("a", 2, 4), ("b", 2, -2)]
    assert _run(session, 3)
    assert Counter(_read("w", "rows", "total")) == Counter([("a", 2, 1), ("b", 2, -4)])


@pytest.mark.share(2)
@pytest.mark.parametrize("rows", [_ROWS, ""])
@pytest.mark.parametrize("clauses", ["KEY (id) NOT ENFORCED MODE UPSERT", "MODE APPEND"])
def test_rows_of_others_are_replaced_if_the_sink_says_so(session: Session, clauses: str, rows: str) -> None:
    sink = _OF_M.replace("KEY (id) NOT ENFORCED MODE UPSERT", clauses)
    session.execute(_SETUP + sink + "INSERT INTO t VALUES (1, 1, 'a'), (9, 9, 'z');")
    _run(session, 1)
    session.execute(f"DROP SINK s; DELETE FROM t; {rows}")
    with pytest.raises(SinkqlError) as refused:
        session.execute(sink)
    assert refused.value.code == "SQ3507"
    session.execute(sink.replace("'1s'", "'1s', EXISTING ROWS = REPLACE"))
    assert _run(session, 2) == ("UPSERT" in clauses)
    found = [(1, 1, "a"), (2, 2, "b"), (3, 3, "a")] if rows else []
    assert _read("id", "v", "w") == found
    assert not _run(session, 3)
    session.execute("INSERT INTO t VALUES (8, 8, 'h')")
    assert not _run(session, 4)
    assert _read("id", "v", "w") == [*found, (8, 8, "h")]


@pytest.mark.parametrize(
    ("clauses", "replacement"),
    [
        ("KEY (id) NOT ENFORCED MODE UPSERT", "which new rows replace"),
        ("MODE APPEND", "which the first commit removes before later commits add new rows"),
    ],
)
def test_plan_says_how_rows_are_replaced(session: Session, clauses: str, replacement: str) -> None:
    sink = _OF_M.replace("KEY (id) NOT ENFORCED MODE UPSERT", clauses)
    session.execute(_SETUP + sink + _ROWS)
    _run(session, 1)
    text = _SETUP + sink.replace("s FROM m", "other FROM m").replace("'1s'", "'1s', EXISTING ROWS = REPLACE")
    effects = [effect for _, kind, effect in _effects(session, text) if kind == "SINK"]
    assert effects[1] == (
        f'reads source "t" from the start, into table "n.s"; table "n.s" exists, with 3 rows, {replacement}'
    )


def test_a_view_that_fails_on_a_row_is_guarded_by_another_one_in_its_place(session: Session) -> None:
    session.execute(_SETUP.replace("WHERE v > 0", "WHERE 12 / v > 0") + _OF_M)
    session.execute("INSERT INTO t VALUES (1, 2, 'a')")
    _run(session, 1)
    session.execute("INSERT INTO t VALUES (2, 0, 'b')")
    with pytest.raises(SinkqlError) as failed:
        _run(session, 2)
    assert failed.value.code == "SQ3201"
    assert "CREATE OR REPLACE MATERIALIZED VIEW" in (failed.value.hint or "")
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE 12 / NULLIF(v, 0) IS NOT NULL")
    assert _run(session, 3)
    assert _read("id", "v") == [(1, 2)]
