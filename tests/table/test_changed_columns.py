"""Added, widened or renamed columns reach the sinks' tables with their rows, or the change is refused."""

from __future__ import annotations

import math
import sqlite3
import struct
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinkql.connector_api.stream import Checkpoint
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, DATE, REAL, TEXT
from sinkql.parser import parse
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from sinkql.session.row.dml import change_rows
from sinkql.statement.operation import ChangeRows
from sinkql.statement.plan import plan_statement
from sinkql.table.file import TableFile, create, restore_rows
from sinkql.table.row import Codec
from support.readers import duckdb_folder, open_table, pyiceberg_rows
from support.running import drain
from table.test_table_sinks import loop

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, v int);
CREATE MATERIALIZED VIEW every AS SELECT * FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW listed AS SELECT id, v FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW counted AS SELECT v, count(*) AS rows FROM t GROUP BY v;
INSERT INTO t VALUES (1, 1), (2, 2);
"""
_ADD = "ALTER TABLE t ADD COLUMN c text;"
_LATER = "INSERT INTO t VALUES (3, 3, 'c'); UPDATE t SET v = 7 WHERE id = 1; UPDATE t SET c = 'two' WHERE id = 2;"
_ROWS = Counter([(1, 7, None), (2, 2, "two"), (3, 3, "c")])


def _sink(session: Session, relation: str, clauses: str) -> BatchLoop:
    session.execute(
        f"CREATE SINK s FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's')"
        f" {clauses} WITH (COMMIT INTERVAL = '1s')"
    )
    return _start(session, 1)


def _start(session: Session, epoch: int) -> BatchLoop:
    running = loop(session)
    running.start(epoch=epoch)
    return running


def _written(*columns: str) -> Counter[tuple[Any, ...]]:
    """Return the rows that DuckDB and PyIceberg read in these columns, with a changelog's changes consolidated."""
    table = open_table(Path(), "n.s")
    names = [field.name for field in table.schema().fields]
    wanted = (*columns, *(("_mz_diff",) if "_mz_diff" in names else ()))
    rows = pyiceberg_rows(table, wanted)
    assert Counter(rows) == Counter(duckdb_folder(table.location(), ", ".join(wanted)))
    if "_mz_diff" not in names:
        return Counter(rows)
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, diff in rows:
        found[tuple(row)] += diff
    assert all(count >= 0 for count in found.values())
    return +found


@pytest.mark.share(2)
@pytest.mark.parametrize("relation", ["t", "every"])
@pytest.mark.parametrize("clauses", ["MODE APPEND", "KEY (id) MODE UPSERT"])
def test_a_column_reaches_the_table_and_old_rows_have_null_there(session: Session, relation: str, clauses: str) -> None:
    session.execute(_SETUP)
    running = _sink(session, relation, clauses)
    drain(running)
    before = open_table(Path(), "n.s")
    session.execute(_ADD + _LATER)
    assert drain(running) == 0  # a sink with the old columns reads no wider rows
    running = _start(session, 2)
    after = open_table(Path(), "n.s")
    claim = after.current_snapshot()
    assert claim is not None
    assert (claim.parent_snapshot_id, claim.schema_id) == (
        before.metadata.current_snapshot_id, after.schema().schema_id
    )  # fmt: skip
    assert after.schema().find_field("c").field_id == before.metadata.last_column_id + 1
    assert {field.field_id: field.name for field in before.schema().fields}.items() < {
        field.field_id: field.name for field in after.schema().fields
    }.items()
    drain(running)
    assert _written("id", "v", "c") == _ROWS


def test_views_that_do_not_use_the_column_keep_their_plan_and_continue(session: Session) -> None:
    session.execute(_SETUP)
    running = _sink(session, "counted", "KEY (v) MODE UPSERT")
    drain(running)
    plan, state = running.job.plan, running.checkpoint.state
    session.execute(_ADD + _LATER)
    running = _start(session, 2)
    assert (running.job.plan, running.checkpoint.state) == (plan, state)
    drain(running)
    assert Counter([(7, 1), (2, 1), (3, 1)]) == _written("v", "rows")
    assert "c" not in open_table(Path(), "n.s").schema().column_names


@pytest.mark.parametrize("clauses", ["MODE APPEND", "KEY (id) MODE UPSERT"])
def test_a_listed_column_comes_with_the_view_as_long_as_no_row_had_a_value(session: Session, clauses: str) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", clauses))
    session.execute(_ADD)
    drain(_start(session, 2))
    session.execute("UPDATE t SET v = 5 WHERE id = 1")
    drain(_start(session, 3))
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT c, id, v FROM t WHERE v > 0;")
    session.execute(_LATER)
    drain(_start(session, 4))
    assert _written("id", "v", "c") == _ROWS
    session.execute("ALTER TABLE t ADD COLUMN d int; UPDATE t SET d = 4 WHERE id = 3;")
    wider = "CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT d, c, id, v FROM t WHERE v > 0;"
    if "UPSERT" in clauses:  # its rows can be recomputed
        session.execute(wider)
        drain(_start(session, 5))
        assert _written("id", "v", "c", "d") == Counter([(1, 7, None, None), (2, 2, "two", None), (3, 3, "c", 4)])
        return
    with pytest.raises(SinkqlError) as refused:
        session.execute(wider)
    assert (refused.value.code, "may have a value" in refused.value.message) == ("SQ2985", True)
    drain(_start(session, 5))
    assert _written("id", "v", "c") == _ROWS


def test_rows_that_came_while_a_view_was_changed_stop_the_sink(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", "KEY (id) MODE UPSERT"))
    session.execute(_ADD)
    running = _start(session, 2)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT id, v, c FROM t WHERE v > 0;")
    session.execute(_LATER)
    drain(running)  # it does not know the change yet
    with pytest.raises(SinkqlError) as stopped:
        _start(session, 3)
    assert stopped.value.code == "SQ3413"


def test_rows_that_came_while_the_sink_was_claimed_stop_it_too(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", "KEY (id) MODE UPSERT"))
    session.execute(_ADD)
    old = _start(session, 2)
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT id, v, c FROM t WHERE v > 0;")
    session.execute(_LATER)
    new = loop(session)
    claim = new.writer.claim

    def late(*given: Any, **named: Any) -> Checkpoint:
        drain(old)  # after the checkpoint is loaded, before the claim
        return claim(*given, **named)

    new.writer.claim = late  # type: ignore[method-assign]  # between load and claim
    before = old.checkpoint
    with pytest.raises(SinkqlError) as stopped:
        new.start(epoch=3)
    assert stopped.value.code == "SQ3413"
    assert old.checkpoint.end != before.end
    assert new.writer.load_checkpoint() == old.checkpoint


def test_two_changes_while_nobody_runs_the_sink_are_made_at_once(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "every", "KEY (id) MODE UPSERT"))
    session.execute(_ADD + "ALTER TABLE t ADD COLUMN d bigint;" + _LATER.replace("'c'", "'c', 9"))
    drain(_start(session, 2))
    assert Counter([(1, 7, None, None), (2, 2, "two", None), (3, 3, "c", 9)]) == _written("id", "v", "c", "d")
    drain(_start(session, 3))


def test_a_column_and_the_view_that_shows_it_come_in_one_transaction(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", "KEY (id) MODE UPSERT"))
    view = "CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT id, v, c, NULL::bigint AS d FROM t WHERE v > 0;"
    session.execute(f"BEGIN; {_ADD} {view} COMMIT; {_LATER}")
    drain(_start(session, 2))
    assert Counter({(*row, None): 1 for row in _ROWS}) == _written("id", "v", "c", "d")


@pytest.mark.parametrize(
    ("relation", "mine"),
    [
        ("listed", "CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT * FROM t WHERE v > 0;"),
        ("listed", "CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT *, NULL::text AS d FROM t WHERE v > 0;"),
        ("listed", "ALTER SINK s SET FROM every;"),
        ("every", "CREATE OR REPLACE MATERIALIZED VIEW every AS SELECT id, v FROM t WHERE v > 0;"),
    ],
)
def test_a_transaction_does_not_go_by_plans_that_sinks_had_before_others_changed_them(
    session: Session, relation: str, mine: str
) -> None:
    session.execute(_SETUP)
    drain(_sink(session, relation, "MODE APPEND"))
    session.execute(f"BEGIN; {mine}")
    with Session() as other:
        other.execute(_ADD)
    with pytest.raises(SinkqlError) as refused:
        session.execute("COMMIT;")
    assert (refused.value.code, refused.value.detail) == ("SQ5210", 'what sink "s" reads was changed')
    drain(_start(session, 2))
    assert Counter([(1, 1), (2, 2)]) == _written("id", "v")


def test_a_transaction_keeps_what_sinks_follow_where_others_changed_something_else(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", "KEY (id) MODE UPSERT"))
    session.execute(
        "BEGIN; CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT *, NULL::text AS d FROM t WHERE v > 0;"
    )
    with Session() as other:
        other.execute("CREATE TABLE u (id int); CREATE OR REPLACE MATERIALIZED VIEW every AS SELECT v FROM t;")
    session.execute("COMMIT;")
    drain(_start(session, 2))
    assert Counter([(1, 1, None), (2, 2, None)]) == _written("id", "v", "d")


def test_state_continues_where_a_column_stands_above_it(session: Session) -> None:
    session.execute(_SETUP)
    running = _sink(session, "counted", "KEY (v) MODE UPSERT")
    drain(running)
    state = running.checkpoint.state
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW counted AS"
        " SELECT v, count(*) AS rows, NULL::text AS note FROM t GROUP BY v;"
    )
    running = _start(session, 2)
    assert (running.checkpoint.state, running.checkpoint.plan) == (state, running.job.plan)
    session.execute("INSERT INTO t VALUES (3, 2)")
    drain(running)
    assert Counter([(1, 1, None), (2, 2, None)]) == _written("v", "rows", "note")
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW counted AS SELECT v, count(*) AS rows, NULL::text AS note,"
                    " sum(id) AS total FROM t GROUP BY v;")  # fmt: skip
    again = _start(session, 3)
    assert again.needs_full_refresh()
    drain(again)
    session.execute("INSERT INTO t VALUES (4, 2)")
    drain(again)
    assert Counter([(1, 1, None, 1), (2, 3, None, 9)]) == _written("v", "rows", "note", "total")


_NARROW = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id int PRIMARY KEY, v int, r real, n numeric(6, 2));
CREATE MATERIALIZED VIEW a AS SELECT id, v, r, n FROM t;
CREATE SINK s FROM a INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's') {clauses}
  WITH (COMMIT INTERVAL = '1s');
"""
_MANY = 5_000_000_000
_VALUES = {"v": int, "r": float, "n": Decimal}


def _apply(session: Session, text: str) -> tuple[str, str]:
    """Apply a script; return the action and the effect of the sink's step."""
    deployment = plan_deployment([Script("a.sql", text)], session)
    apply(deployment, session)
    (step,) = (each for each in deployment.steps if each.kind == "SINK")
    return step.action, step.effect


@pytest.mark.parametrize("clauses", ["MODE APPEND", "KEY (id) MODE UPSERT"])
def test_columns_get_wider_types_and_other_names_in_place(session: Session, clauses: str) -> None:
    text = _NARROW.format(clauses=clauses).replace("(6, 2));", "(6, 2), u uint2);").replace("r, n FROM", "r, n, u FROM")
    session.execute(text + "INSERT INTO t VALUES (1, 1, 0.1, 1.25, NULL), (2, 2, 2, 2, 7);")
    drain(_start(session, 1))
    ids = {field.name: field.field_id for field in open_table(Path(), "n.s").schema().fields}
    wider = text.replace("int P", "bigint P").replace("v int", "v bigint").replace("(6, 2)", "(9, 2)")
    wider = (
        wider.replace("uint2", "uint4")
        .replace("real", "double precision")
        .replace("SELECT id, v, r", "SELECT v AS w, id, r")
    )
    widened = [("id", "integer", "bigint"), ("w", "integer", "bigint"), ("r", "real", "double precision"),
               ("n", "numeric(6,2)", "numeric(9,2)"), ("u", "uint2", "uint4")]  # fmt: skip
    listed = ", ".join(f'widens column "{name}" from {old} to {new}' for name, old, new in widened)
    assert _apply(session, wider) == ("alter", f'its table renames column "v" to "w", {listed}; nothing is read again')
    session.execute(
        f"INSERT INTO t VALUES ({_MANY}, {_MANY}, 0.1, 1234567.25, {2**32 - 1}); UPDATE t SET v = 7 WHERE id = 1;"
    )
    running = _start(session, 2)
    now = {field.name: field.field_id for field in open_table(Path(), "n.s").schema().fields}
    assert now == {name if name != "v" else "w": id_ for name, id_ in ids.items()}
    drain(running)
    tenth = struct.unpack("f", struct.pack("f", 0.1))[0]
    rows = [(1, 7, tenth, None, "1.25"), (2, 2, 2.0, 7, "2.00"), (_MANY, _MANY, 0.1, 2**32 - 1, "1234567.25")]
    found = Counter({(*row[:-1], str(row[-1])): count for row, count in _written("id", "w", "r", "u", "n").items()})
    assert Counter(rows) == found
    drain(_start(session, 3))


@pytest.mark.parametrize(
    ("column", "old", "new", "value"),
    [
        ("v", "v int", "v bigint", str(_MANY)),
        ("r", " real", " double precision", "'0.1'"),
        ("r", " real", " double precision", "'1e300'"),
        ("n", "(6, 2)", "(9, 2)", "1234567.25"),
    ],
)
def test_who_has_the_old_type_writes_no_value_that_it_cannot_hold(
    session: Session, column: str, old: str, new: str, value: str
) -> None:
    text = _NARROW.format(clauses="KEY (id) MODE UPSERT")
    session.execute(text + "INSERT INTO t VALUES (1, 1, 2, 1.25), (2, NULL, '-Infinity', NULL), (3, 3, NULL, 3);")
    running = _start(session, 1)
    drain(running)
    _apply(session, text.replace(old, new))
    session.execute(f"INSERT INTO t (id, {column}) VALUES (4, {value});")
    with pytest.raises(SinkqlError) as refused:
        drain(running)
    assert (refused.value.code, refused.value.retryable) == ("SQ3414", True)
    assert f'column "{column}" of table' in refused.value.message
    drain(_start(session, 2))
    assert dict(_written("id", column).keys())[4] == _VALUES[column](value.strip("'"))


def test_a_real_that_is_no_number_or_nothing_is_held_as_it_is() -> None:
    (found,) = Codec([REAL]).arrays([(math.nan,), (None,), (math.inf,), (0.5,)])
    assert str(found.to_pylist()) == "[nan, None, inf, 0.5]"


def test_a_cast_in_the_view_widens_too(session: Session) -> None:
    session.execute(_NARROW.format(clauses="KEY (id) MODE UPSERT") + "INSERT INTO t VALUES (1, 1, 0.1, 1.25);")
    drain(_start(session, 1))
    session.execute("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT id, v::bigint, r, n FROM t;")
    session.execute("INSERT INTO t VALUES (2, 2, 2, 2);")
    drain(_start(session, 2))
    assert Counter([(1, 1), (2, 2)]) == _written("id", "v")


@pytest.mark.parametrize("view", ["SELECT id, v, r, n, NULL::text AS c FROM t", "SELECT id, v AS w, r, n FROM t"])
def test_a_sink_is_read_before_its_table_has_changed(session: Session, view: str) -> None:
    session.execute(_NARROW.format(clauses="KEY (id) MODE UPSERT") + "INSERT INTO t VALUES (1, 1, 2, 1.25);")
    drain(_start(session, 1))
    session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW a AS {view};")
    expected = ((1, 1, 2.0, Decimal("1.25"), *([] if " w," in view else [None])),)
    assert session.execute("SELECT * FROM s;")[0].rows == expected
    drain(_start(session, 2))
    assert session.execute("SELECT * FROM s;")[0].rows == expected


def test_a_sink_is_altered_before_its_table_has_the_columns_to_come(session: Session) -> None:
    """ALTER is planned against the table as the next claim will leave it."""
    text = _NARROW.format(clauses="KEY (id) MODE UPSERT")
    session.execute(text)
    drain(_start(session, 1))
    wider = text.replace("n numeric(6, 2)", "n numeric(6, 2), c text").replace("SELECT id, v,", "SELECT id, c, v AS w,")
    wider = wider.replace("'1s'", "'2s'")
    gets = 'column "c", which has NULL in existing rows; nothing is read again'
    assert _apply(session, wider) == ("alter", f'its table renames column "v" to "w", gets {gets}')
    session.execute("ALTER SINK s SET (COMMIT INTERVAL = '3s');")
    assert _apply(session, wider) == ("alter", "it continues where it is")
    session.execute("INSERT INTO t VALUES (1, 1, 2, 1.25, 'c');")
    drain(_start(session, 2))
    assert Counter([(1, "c", 1)]) == _written("id", "c", "w")


@pytest.mark.parametrize(
    ("view", "clauses", "why"),
    [
        ("SELECT id, v, r, n::numeric(9, 3) AS n FROM t", "MODE APPEND", "changes from"),
        ("SELECT id, v::bigint, r, n FROM t", "KEY (id) MODE UPSERT PARTITION BY (v)", "partitioned"),
        ("SELECT id, v + 1 AS w, r, n FROM t WHERE v > 1", "MODE APPEND", "computed differently"),
        ("SELECT id, v::text, r, n FROM t", "KEY (id) MODE UPSERT", "changes from integer to text"),
        ("SELECT id, v + 1 AS v, r, n FROM t", "KEY (id) MODE UPSERT, EXISTING ROWS = KEEP", "it did not write"),
        ("SELECT id, v + 1 AS v, r, n FROM t", "KEY (id) MODE UPSERT, SNAPSHOT = false", "SNAPSHOT = false"),
    ],
)
def test_what_is_not_the_same_column_is_refused(session: Session, view: str, clauses: str, why: str) -> None:
    clauses, _, option = clauses.partition(", ")
    session.execute(_NARROW.format(clauses=clauses).replace("'1s'", f"'1s', {option}" if option else "'1s'"))
    with pytest.raises(SinkqlError) as refused:
        session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW a AS {view};")
    assert (refused.value.code, why in refused.value.message) == ("SQ2985", True)


@pytest.mark.parametrize("view", ["SELECT id, v FROM t WHERE v > 5", "SELECT id, v + 1 AS v FROM t WHERE v > 0"])
def test_a_changelog_continues_only_with_the_rows_that_it_has(session: Session, view: str) -> None:
    """Otherwise the retraction of an older row would be filtered out, or have other values than the row."""
    text = _SETUP.partition("INSERT")[0] + (
        "CREATE SINK s FROM listed INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's')"
        " MODE APPEND WITH (COMMIT INTERVAL = '1s');"
    )
    other = f"CREATE MATERIALIZED VIEW other AS {view};"
    same = "CREATE MATERIALIZED VIEW same AS SELECT id, v FROM t WHERE v > 0;"
    session.execute(text)
    session.execute("INSERT INTO t VALUES (1, 1), (2, 2);")
    drain(_start(session, 1))
    refused = "rows that it has written are computed differently"
    for statement in (
        f"CREATE OR REPLACE MATERIALIZED VIEW listed AS {view};",
        f"{other} ALTER SINK s SET FROM other;",
    ):
        with pytest.raises(SinkqlError, match=refused) as raised:
            session.execute(statement)
        assert raised.value.code == "SQ2985"
    moved = text.replace("FROM listed", "FROM other").replace("CREATE SINK", f"{other} CREATE SINK")
    for change in (text.replace("SELECT id, v FROM t WHERE v > 0", view), moved):
        steps = plan_deployment([Script("a.sql", change)], session).steps
        assert [step.action for step in steps if step.kind == "SINK"] == ["replace"]
    assert _apply(session, text.replace("FROM listed", "FROM same").replace("CREATE SINK", f"{same} CREATE SINK")) == (
        "alter", 'it continues with new rows of "same"; nothing is read again'
    )  # fmt: skip
    session.execute("DELETE FROM t WHERE id = 1;")
    drain(_start(session, 2))
    assert Counter([(2, 2)]) == _written("id", "v")


def test_a_table_that_was_only_created_gets_the_column_too(session: Session) -> None:
    session.execute(_SETUP)
    session.execute(
        "CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's') MODE APPEND"
        " WITH (COMMIT INTERVAL = '1s')"
    )
    loop(session).writer.open()
    session.execute(_ADD + _LATER)
    drain(_start(session, 1))
    assert _written("id", "v", "c") == _ROWS


def test_a_statement_that_does_not_know_the_column_changes_nothing(session: Session) -> None:
    session.execute(_SETUP)
    with Session() as other:
        other.execute("SELECT * FROM t")
        session.execute(_ADD + _LATER)
        (statement,) = parse("UPDATE t SET v = 9")
        operation = plan_statement(statement, other.catalog)
        assert isinstance(operation, ChangeRows)
        with pytest.raises(SinkqlError) as refused:
            change_rows(operation, other)  # planned before the change, run after it
        assert refused.value.code == "SQ5210"
        other.execute("UPDATE t SET v = 9")
    assert session.execute("SELECT c FROM t WHERE v = 9 ORDER BY id")[0].rows == ((None,), ("two",), ("c",))


def test_a_table_put_back_from_before_a_column_is_read_on_without_it(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy.db"
    create(path)
    narrow, wide = TableFile(path, Codec([BIGINT])), TableFile(path, Codec([BIGINT, TEXT]))
    start = narrow.first()
    with narrow.statement() as edit:
        edit.insert((1,))
    with sqlite3.connect(path) as before, sqlite3.connect(copy) as after:
        before.backup(after)
    with wide.statement() as edit:
        edit.delete(*edit.rows()[0])
        edit.insert((1, "one"))
        edit.insert((2, None))
    assert narrow.end(start, rows=100, size=1 << 20).change == 1
    restore_rows(path, copy)
    end = narrow.end(start, rows=100, size=1 << 20)
    assert end == narrow.last()
    assert end.change > 4
    (found,) = narrow.changes(1, end.change, start=start.change, end=end, most=100)
    assert [(diff, narrow.codec.decode(data)) for diff, data in found] == [(1, (1,))]
    assert narrow.rows() == [(1,)]


def test_what_was_in_a_column_before_its_table_was_put_back_is_known_and_read_by_nobody(tmp_path: Path) -> None:
    path, copy = tmp_path / "t.db", tmp_path / "copy.db"
    create(path)
    narrow, text, day = (TableFile(path, Codec(types)) for types in ([BIGINT], [BIGINT, TEXT], [BIGINT, DATE]))
    with narrow.statement() as edit:
        edit.insert((1,))
    first = narrow.last()
    with sqlite3.connect(path) as before, sqlite3.connect(copy) as after:
        before.backup(after)
    with text.statement() as edit:
        edit.delete(*edit.rows()[0])
        edit.insert((1, "x"))
    held = text.last()
    with text.statement() as edit:
        edit.insert((2, None))
    restore_rows(path, copy)
    back = narrow.last()
    assert (narrow.width(1), narrow.width(held.change), narrow.width(back.change), narrow.width()) == (1, 2, 1, 2)
    with day.statement() as edit:
        edit.insert((3, date(2026, 1, 2)))
    start, ends = day.first(), []
    while (end := day.end(start, rows=1, size=1)) != start:
        (part,) = day.changes(start.change + 1, end.change, start=start.change, end=end, most=100)
        ends.append([(diff, *day.codec.decode(data)) for diff, data in part])
        start = end
    assert ends == [[(1, 1, None)], [(-1, 1, None), (1, 1, None)], [(1, 3, date(2026, 1, 2))]]
    assert narrow.last() == back
    assert day.end(first, rows=1, size=1, until=held.change) == held


def test_a_sink_that_wrote_rows_that_were_put_back_does_not_get_a_column_that_they_had(session: Session) -> None:
    session.execute(_SETUP)
    drain(_sink(session, "listed", "MODE APPEND"))
    (path,) = Path().rglob("tables/*.db")
    with sqlite3.connect(path) as before, sqlite3.connect("copy.db") as after:
        before.backup(after)
    session.execute(_ADD + "UPDATE t SET c = 'x' WHERE id = 1;")
    drain(_start(session, 2))
    restore_rows(path, Path("copy.db"))
    with pytest.raises(SinkqlError) as refused:
        session.execute("CREATE OR REPLACE MATERIALIZED VIEW listed AS SELECT id, v, c FROM t WHERE v > 0;")
    assert (refused.value.code, "may have a value" in refused.value.message) == ("SQ2985", True)
    drain(_start(session, 3))
    assert Counter([(1, 1), (2, 2)]) == _written("id", "v")
