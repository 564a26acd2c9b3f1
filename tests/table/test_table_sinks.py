"""After each batch, the Iceberg table of a sink holds the result of its SQL over the source table's rows."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sinkql.connector_api.stream import Limit
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session import Session
from support.readers import duckdb_folder, open_table, pyiceberg_rows
from support.running import drain, loop_of

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, g int, n numeric(10, 2), name text);
CREATE TABLE loose (id bigint, name text);
CREATE MATERIALIZED VIEW many AS SELECT id, upper(name) AS name FROM t WHERE n >= 2;
CREATE MATERIALIZED VIEW grouped AS
  SELECT g, count(*) AS rows, sum(n) AS total, max(n) AS most, count(DISTINCT name) AS names FROM t GROUP BY g;
CREATE MATERIALIZED VIEW whole AS SELECT count(*) AS rows, sum(n) AS total, min(name) AS least FROM t;
CREATE MATERIALIZED VIEW wholes AS
  SELECT 'all' AS name, count(*) AS rows FROM t UNION ALL SELECT 'many', count(*) FROM loose WHERE id > 5;
CREATE MATERIALIZED VIEW both AS SELECT id, name FROM t WHERE n > 3 UNION ALL SELECT id, name FROM loose;
"""


@dataclass(frozen=True)
class Kind:
    relation: str
    clauses: str
    expected: str
    changelog: bool = False


KINDS = {
    "upsert": Kind("t", "KEY (id) MODE UPSERT", "SELECT id, g, n, name FROM t"),
    "changes": Kind("loose", "MODE APPEND", "SELECT id, name FROM loose", changelog=True),
    "mapped": Kind("many", "KEY (id) MODE UPSERT", "SELECT id, upper(name) FROM t WHERE n >= 2"),
    "grouped": Kind(
        "grouped",
        "KEY (g) MODE UPSERT",
        "SELECT g, count(*), sum(n), max(n), count(DISTINCT name) FROM t GROUP BY g",
    ),
    "union": Kind(
        "both",
        "MODE APPEND",
        "SELECT id, name FROM t WHERE n > 3 UNION ALL SELECT id, name FROM loose",
        changelog=True,
    ),
    "whole": Kind("whole", "MODE APPEND", "SELECT count(*), sum(n), min(name) FROM t", changelog=True),
    "wholes": Kind(
        "wholes",
        "MODE APPEND",
        "SELECT 'all', count(*) FROM t UNION ALL SELECT 'many', count(*) FROM loose WHERE id > 5",
        changelog=True,
    ),
    "picked": Kind("loose", "KEY (id) NOT ENFORCED MODE UPSERT", "SELECT id, any_value(name) FROM loose GROUP BY id"),
}


def sink(session: Session, kind: Kind, options: str = "") -> BatchLoop:
    """Return the loop of a new sink, without Spark."""
    session.execute(
        f"CREATE SINK s FROM {kind.relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's')"
        f" {kind.clauses} WITH (COMMIT INTERVAL = '1s'{options})"
    )
    return loop(session)


def loop(session: Session) -> BatchLoop:
    (job,) = session.jobs()
    return loop_of(job, session.context(job), session.catalog.registry)


def written(changelog: bool) -> Counter[tuple[Any, ...]]:
    """Return the rows of the sink's table, with an append sink's changes consolidated."""
    rows = pyiceberg_rows(open_table(Path(), "n.s"))
    if not changelog:
        return Counter(rows)
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, diff, _ in rows:
        found[tuple(row)] += diff
    assert all(count >= 0 for count in found.values())
    return +found


def expected(session: Session, sql: str) -> Counter[tuple[Any, ...]]:
    """Return DuckDB's result of the SQL over the tables' rows."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, types in (("t", (pa.int64(), pa.int32(), pa.decimal128(10, 2), pa.string())),
                            ("loose", (pa.int64(), pa.string()))):  # fmt: skip
            (result,) = session.execute(f"SELECT * FROM {name}")
            columns = list(zip(*result.rows, strict=True)) or [()] * len(types)
            arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
            connection.register(name, pa.table(arrays, names=list(result.columns)))
        return Counter(connection.execute(sql).fetchall())


def change(session: Session, random_: random.Random) -> None:
    """Change rows by one or two random statements; some change nothing."""
    key, value = random_.randrange(12), random_.choice(["NULL", "0", "1.5", "2", "3.25", "7"])
    name = random_.choice(["NULL", "'a'", "'b'", "'c'"])
    (taken,) = session.execute(f"SELECT count(*) FROM t WHERE id = {key}")
    if taken.rows == ((0,),):
        session.execute(f"INSERT INTO t VALUES ({key}, {key % 3}, {value}, {name}), ({key + 100}, NULL, 1, 'x')")
        session.execute(f"DELETE FROM t WHERE id = {key + 100}")
    else:
        session.execute(random_.choice([
            f"UPDATE t SET n = {value}, name = {name} WHERE id <= {key}", f"DELETE FROM t WHERE id = {key}",
            f"UPDATE t SET g = {key % 4} WHERE n > 1 OR name IS NULL", "UPDATE t SET n = n + 0.25",
        ]))  # fmt: skip
    others = [
        f"INSERT INTO loose VALUES ({key}, {name}), ({key}, {name})",
        f"INSERT INTO loose VALUES ({key + 1}, {name})",
        f"DELETE FROM loose WHERE id < {key}",
        f"UPDATE loose SET name = {name}",
    ]
    session.execute(random_.choice(others))


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_holds_what_its_table_gives_after_every_batch(session: Session, kind: str) -> None:
    each, random_ = KINDS[kind], random.Random(kind)
    session.execute(_SETUP)
    for _ in range(5):
        change(session, random_)  # rows older than the sink are part of it
    running = sink(session, each)
    running.start(epoch=1)
    for batch in range(8):
        if batch == 4:
            running = loop(session)  # another process continues where the first one stopped
            running.start(epoch=2)
        for _ in range(random_.randrange(4)):
            change(session, random_)
        drain(running)
        if kind == "picked":
            assert {key for key, _ in written(False)} == {key for key, _ in expected(session, each.expected)}
            assert set(written(False)) <= set(expected(session, "SELECT id, name FROM loose"))
        else:
            assert written(each.changelog) == expected(session, each.expected)
    assert Counter(duckdb_folder(open_table(Path(), "n.s").location())) == Counter(
        pyiceberg_rows(open_table(Path(), "n.s"))
    )


@pytest.mark.parametrize("kind", ["whole", "wholes"])
def test_an_aggregate_without_groups_has_its_row_of_a_table_without_rows(session: Session, kind: str) -> None:
    each = KINDS[kind]
    session.execute(_SETUP)
    running = sink(session, each)
    running.start(epoch=1, once=True)
    assert not running.caught_up()
    assert drain(running) == 1
    assert running.caught_up()
    assert written(True) == expected(session, each.expected)
    again = loop(session)
    again.start(epoch=2, once=True)
    assert again.caught_up()  # the row is written once
    session.execute("INSERT INTO t VALUES (1, 1, 1, 'a'); INSERT INTO loose VALUES (6, 'b')")
    again = loop(session)
    again.start(epoch=3)
    drain(again)
    assert written(True) == expected(session, each.expected)
    session.execute("DELETE FROM t; DELETE FROM loose")
    drain(again)
    assert written(True) == expected(session, each.expected)


def test_no_commit_holds_half_a_statement(session: Session) -> None:
    session.execute(_SETUP)
    session.execute("INSERT INTO t (id, n) VALUES (1, 1), (2, 2), (3, 3); UPDATE t SET n = n + 1; DELETE FROM t")
    running = sink(session, KINDS["upsert"], ", MAX ROWS PER COMMIT = 2")
    running.start(epoch=1)
    table = running.readers["materialize.public.t"]
    ends = []
    while (end := table.latest(running.checkpoint.end["materialize.public.t"], Limit(2)))["change"] < 12:
        running.commit_batch(running.checkpoint.end, {"materialize.public.t": end})
        ends.append((end["change"], sum(written(False).values())))
    assert ends == [(3, 3), (9, 3)]


def test_a_sink_without_a_snapshot_begins_at_the_end_of_the_table(session: Session) -> None:
    session.execute(_SETUP)
    session.execute("INSERT INTO loose VALUES (1, 'before')")
    running = sink(session, KINDS["changes"], ", SNAPSHOT = false")
    running.start(epoch=1)
    session.execute("INSERT INTO loose VALUES (2, 'after')")
    drain(running)
    assert written(True) == Counter([(2, "after")])
