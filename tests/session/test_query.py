"""SELECT over tables, sources and the tables of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from session.script import PIPELINE, fails
from sinkql import ast, logical, physical
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.connector_api.stream import Context, ReadCounts, Reader, Split
from sinkql.connectors.generator.reader import GeneratorReader
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.row import inputs

_FILES = """
CREATE SOURCE f (id bigint NOT NULL, at timestamp) FROM FILES (PATH = 'in', GLOB = '*.jsonl')
  FORMAT JSON WITH (ON ERROR = SKIP);
"""


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    return list(session.execute(text)[-1].rows)


def write(folder: Path, *lines: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{len(list((folder / 'in').iterdir()))}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_a_source_shows_what_is_there_now_and_tells_what_it_left_out(session: Session, folder: Path) -> None:
    write(folder, '{"id": 1, "at": "2024-01-02T03:04:05"}', '{"id": "x"}')
    session.execute(_FILES)
    write(folder, '{"id": 2}')
    (result,) = session.execute("SELECT id FROM f ORDER BY id DESC")
    assert result.rows == ((2,), (1,))
    assert [notice.code for notice in result.notices] == ["SQ2644"]


def test_a_limit_stops_the_reading(session: Session, folder: Path) -> None:
    write(folder, '{"id": 1}')
    write(folder, '{"id": "not read, or it would be told"}')
    session.execute(_FILES)
    (result,) = session.execute("SELECT * FROM f LIMIT 1")
    assert (result.rows, result.notices) == (((1, None),), ())


def test_window_functions_need_no_spark(session: Session) -> None:
    session.execute("CREATE TABLE t (g text, n integer, d double precision)")
    session.execute("INSERT INTO t VALUES ('a', 1, 0.5), ('a', 2, 0.25), ('b', 3, 'NaN'), (NULL, 4, -0.5)")
    query = (
        "SELECT g, n, row_number() OVER (PARTITION BY g ORDER BY n DESC), lag(n) OVER (ORDER BY n) FROM t ORDER BY n"
    )
    assert rows(session, query) == [("a", 1, 2, None), ("a", 2, 1, 1), ("b", 3, 1, 2), (None, 4, 1, 3)]
    assert rows(session, "SELECT DISTINCT ON (g) g, n FROM t ORDER BY g, n DESC") == [("a", 2), ("b", 3), (None, 4)]
    assert rows(session, "SELECT array_agg(n ORDER BY n) FROM t") == [((1, 2, 3, 4),)]
    assert session._spark is None


def test_the_error_of_a_row_has_the_place_in_the_query(session: Session) -> None:
    session.execute("CREATE TABLE t (n integer)")
    session.execute("INSERT INTO t VALUES (1), (0)")
    text = "SELECT 1 + 10 / n FROM t"
    with pytest.raises(SinkqlError) as raised:
        session.execute(text)
    assert raised.value.span is not None
    assert (raised.value.code, text[raised.value.span.start : raised.value.span.end]) == ("SQ3201", "10 / n")
    assert session._spark is None


def test_rows_that_came_and_went_are_not_shown(session: Session) -> None:
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10, MAX CARDINALITY 3)")
    assert sorted(rows(session, "SELECT * FROM n")) == [(8,), (9,), (10,)]


def test_a_query_reads_no_more_than_it_can_hold(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_ROWS", 9)
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10)")
    assert fails(session, "SELECT count(*) FROM n").code == "SQ2641"
    assert rows(session, "SELECT * FROM n LIMIT 10")[-1] == (10,)


def test_a_sink_without_a_table_has_no_rows(session: Session) -> None:
    session.execute(PIPELINE)
    assert rows(session, "SELECT * FROM user_activity_iceberg") == []


def test_a_sink_that_cannot_be_read_says_so(folder: Path) -> None:
    registry = discover()
    sinks = {name: replace(kind, rows=None) for name, kind in registry.sinks.items()}
    session = Session(registry=replace(registry, sinks=sinks))
    session.execute(PIPELINE)
    assert fails(session, "SELECT * FROM user_activity_iceberg").code == "SQ2643"


def test_a_source_whose_rows_are_overwritten_shows_the_last_of_each_key(folder: Path) -> None:
    session = Session(registry=_overwritten())
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10)")
    assert rows(session, "SELECT * FROM n ORDER BY counter") == [(number,) for number in (1, 2, 3, 4, 6, 8, 10)]
    assert len(rows(session, "SELECT * FROM n LIMIT 2")) == 2


@dataclass(frozen=True)
class _Overwriting(GeneratorReader):
    """Each number twice; the second row retracts 5, 7 and 9."""

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split, read_counts):
            numbers = batch.column(0).to_pylist()
            later = [-1 if number in (5, 7, 9) else 1 for number in numbers]
            yield pa.record_batch([batch.column(0), pa.array([1] * len(numbers))], names=["counter", "$diff"])
            yield pa.record_batch([batch.column(0), pa.array(later)], names=["counter", "$diff"])


def _overwritten() -> Registry:
    registry = discover()
    counter = registry.sources["LOAD GENERATOR COUNTER"]

    def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
        planned = counter.plan(statement, facts, planning)
        return replace(planned, shape=replace(planned.shape, change=logical.Change.UPSERT))

    def reader(read: physical.Read, context: Context) -> Reader:
        return _Overwriting.of(read)

    kind = replace(counter, plan=plan, reader=reader)
    return replace(registry, sources=registry.sources | {counter.name: kind})


def test_order_is_that_of_postgres(session: Session) -> None:
    session.execute("CREATE TABLE t (a double precision, b text)")
    session.execute("INSERT INTO t VALUES (1, 'é'), ('NaN', 'Z'), (NULL, 'a'), ('-Infinity', NULL), (-0.0, 'z')")
    assert [b for (b,) in rows(session, "SELECT b FROM t ORDER BY a")] == [None, "z", "é", "Z", "a"]
    assert [b for (b,) in rows(session, "SELECT b FROM t ORDER BY a DESC")] == ["a", "Z", "é", "z", None]
    assert [b for (b,) in rows(session, "SELECT b FROM t ORDER BY b, a NULLS FIRST")] == ["Z", "a", "z", "é", None]
    assert [b for (b,) in rows(session, "SELECT b FROM t WHERE a >= 'NaN' OR a = 0 ORDER BY 1 LIMIT 1")] == ["Z"]


def test_preview_shows_the_first_rows_of_anything(session: Session) -> None:
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE TABLE t (id int); INSERT INTO t VALUES (7)")
    assert session.preview("n", limit=2).rows == ((1,), (2,))
    assert (session.preview("t").columns, session.preview("t").rows) == (("id",), ((7,),))


def test_no_engine_starts_for_plain_statements(session: Session) -> None:
    session.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10, 2) DEFAULT 1); INSERT INTO t VALUES (1, 2.5);"
        "SELECT id, n + 1 AS m FROM t WHERE n > 2 AND id IS NOT NULL ORDER BY n DESC; SELECT count(*) FROM t;"
        "CREATE TABLE r (a real, b double precision); INSERT INTO r VALUES (0.1, 0.1), (1 / 3.0, 1e-30);"
        "CREATE TABLE u (id bigint, n numeric(10, 1)); INSERT INTO u SELECT id, n + 1.25 FROM t ORDER BY n LIMIT 1;"
        "DELETE FROM t WHERE id IN (1, 2) OR n BETWEEN 0 AND 1; SELECT now(), 1 + 1;"
    )
    assert rows(session, "SELECT * FROM u") == [(1, Decimal("3.8"))]
    assert session._spark is None


@pytest.mark.spark
def test_a_text_is_read_as_the_float_that_its_column_holds(session: Session) -> None:
    session.execute("CREATE TABLE t (r real, f double precision); INSERT INTO t VALUES (0.1, 0.1)")
    assert rows(session, "SELECT count(*) FROM t WHERE r = '0.1' AND f = '0.1'") == [(1,)]
    assert rows(session, "SELECT count(*) FROM t WHERE r = 0.1 OR r = f") == [(0,)]
    assert rows(session, "SELECT count(*) FROM t WHERE f = 0.1") == [(1,)]
