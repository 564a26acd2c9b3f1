"""Test pipelines, without Spark and servers: their input, output and errors."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import sinkql.testing
from sinkql.errors import SinkqlError
from sinkql.testing import Pipeline, assert_rows

_SCRIPT = """
CREATE SECRET key AS env_var('NOT_SET_ANYWHERE');
CREATE CONNECTION lake TO ICEBERG CATALOG
  (CATALOG TYPE = 'rest', URL = 'https://lake.invalid', WAREHOUSE = 'w', CREDENTIAL = 'id:' || SECRET key);
CREATE SOURCE orders (id bigint NOT NULL, customer text, amount numeric(12, 2), placed_at timestamp)
  FROM FILES (PATH = 'not there') FORMAT JSON WITH (ON ERROR = SKIP);
CREATE TABLE rates (country text PRIMARY KEY, rate numeric(5, 4) NOT NULL DEFAULT 1, since date DEFAULT '2020-01-01',
  name varchar(3) UNIQUE);
CREATE MATERIALIZED VIEW daily AS
SELECT customer, count(*) AS orders, sum(amount) AS revenue FROM orders WHERE amount > 0 GROUP BY customer;
CREATE MATERIALIZED VIEW cheap AS SELECT country, 100 / rate AS worth FROM rates;
CREATE SINK daily_sink FROM daily INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'daily')
  KEY (customer) MODE UPSERT WITH (COMMIT INTERVAL = '10s');
CREATE SINK changes_sink FROM daily INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'changes')
  MODE APPEND WITH (COMMIT INTERVAL = '10s');
CREATE SINK orders_sink FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'orders')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '10s');
CREATE SINK cheap_sink FROM cheap INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'cheap')
  KEY (country) MODE UPSERT WITH (COMMIT INTERVAL = '10s');
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.chdir(tmp_path)
    return sinkql.testing.loads(_SCRIPT)


def order(id_: int, customer: str | None, amount: object = "1.00") -> dict[str, Any]:
    return {"id": id_, "customer": customer, "amount": amount, "placed_at": "2026-01-01 08:00"}


def test_each_batch_changes_the_rows_of_a_keyed_sink(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.insert("orders", [order(1, "ann", Decimal("2.5")), order(2, "ann"), order(3, None), order(4, "bob", 0)])
    assert pipeline.rows("daily_sink") == [
        {"customer": "ann", "orders": 2, "revenue": Decimal("3.50")},
        {"customer": None, "orders": 1, "revenue": Decimal("1.00")},
    ]
    pipeline.insert("orders", order(5, "ann", 1))
    pipeline.insert("orders", order(6, "bob", 7))
    pipeline.commit()
    assert pipeline.changes("daily_sink") == [
        (-1, {"customer": "ann", "orders": 2, "revenue": Decimal("3.50")}),
        (1, {"customer": "ann", "orders": 3, "revenue": Decimal("4.50")}),
        (1, {"customer": "bob", "orders": 1, "revenue": Decimal("7.00")}),
    ]
    assert pipeline.changes("daily") == pipeline.changes("daily_sink")
    assert pipeline.rows("daily")[0] == {"customer": "ann", "orders": 3, "revenue": Decimal("4.50")}
    assert list(tmp_path.iterdir()) == []


def test_a_changelog_keeps_what_came_and_went(pipeline: Pipeline) -> None:
    for number in (1, 2):
        pipeline.insert("orders", order(number, "ann"))
        pipeline.commit()
    one = {"customer": "ann", "orders": 1, "revenue": Decimal("1.00")}
    two = {"customer": "ann", "orders": 2, "revenue": Decimal("2.00")}
    expected = [{**one, "_mz_diff": 1}, {**one, "_mz_diff": -1}, {**two, "_mz_diff": 1}]
    assert_rows(pipeline.rows("changes_sink"), expected)


def test_rows_have_the_values_of_their_types() -> None:
    types = "b boolean, s smallint, r real, d date, t timestamptz, u uuid, j jsonb, y bytea, n numeric(5, 2), p double"
    pipeline = sinkql.testing.loads(f"CREATE TABLE v ({types}); CREATE VIEW w AS SELECT * FROM v WHERE n IS NOT NULL;")
    instant, id_ = datetime(2026, 1, 1, 12, tzinfo=UTC), UUID(int=7)
    given = {"b": True, "s": 3, "r": 0.5, "d": date(2026, 1, 2), "t": instant, "u": id_, "j": {"a": [1, None]},
             "y": b"\0x", "n": Decimal("1.5"), "p": 1e300}  # fmt: skip
    texts = {"b": "yes", "s": "3", "r": "0.5", "d": "2026-01-02", "t": "2026-01-01 13:00+01", "u": str(id_),
             "j": '{"a":[1,null]}', "y": "\\x0078", "n": "1.50", "p": "1e300"}  # fmt: skip
    pipeline.insert("v", [given, texts])
    expected = {**given, "u": str(id_), "j": '{"a": [1, null]}', "n": Decimal("1.50")}
    assert pipeline.rows("w") == [expected, expected]
    assert str(pipeline.rows("w")[0]["n"]) == "1.50"


@pytest.mark.parametrize(
    ("relation", "row", "code"),
    [
        ("orders", {"idd": 1}, "SQ2204"),
        ("orders", {"customer": "ann"}, "SQ2421"),
        ("orders", {"id": "one"}, "SQ2212"),
        ("orders", {"id": 1.0}, "SQ2422"),
        ("orders", {"id": True}, "SQ2422"),
        ("orders", {"id": 2**63}, "SQ2422"),
        ("orders", {"id": 1, "amount": Decimal("0.001")}, "SQ2422"),
        ("orders", {"id": 1, "amount": 0.1}, "SQ2422"),
        ("orders", {"id": 1, "placed_at": datetime.now(UTC)}, "SQ2422"),
        ("orders", {"id": 1, "customer": 7}, "SQ2422"),
        ("rates", {"country": "de", "rate": None}, "SQ2421"),
        ("rates", {"country": "de", "name": "long"}, "SQ2422"),
        ("rates", [{"country": "de"}, {"country": "de"}], "SQ2420"),
        ("rates", [{"country": "de", "name": "a"}, {"country": "fr", "name": "a"}], "SQ2420"),
        ("daily", {"customer": "ann"}, "SQ2661"),
        ("order", {"id": 1}, "SQ2001"),
    ],
)
def test_what_no_source_would_give_is_refused_and_nothing_has_come(
    pipeline: Pipeline, relation: str, row: Any, code: str
) -> None:
    with pytest.raises(SinkqlError) as raised:
        pipeline.insert(relation, row)
    assert raised.value.code == code
    assert pipeline.rows("orders") == pipeline.rows("rates") == []


def test_a_row_whose_key_is_there_is_told_of_upsert_which_takes_it(pipeline: Pipeline) -> None:
    pipeline.insert("rates", {"country": "de", "name": "a"})
    with pytest.raises(SinkqlError) as raised:
        pipeline.insert("rates", {"country": "de", "name": "b"})
    assert (raised.value.code, raised.value.hint) == ("SQ2420", "Use upsert, which replaces the existing row.")
    pipeline.upsert("rates", {"country": "de", "name": "b"})
    assert [row["name"] for row in pipeline.rows("rates")] == ["b"]


def test_a_table_s_rows_come_go_and_take_each_other_s_place(pipeline: Pipeline) -> None:
    pipeline.insert("rates", [{"country": "de", "rate": "0.5"}, {"country": "fr"}])
    assert pipeline.rows("rates")[1] == {
        "country": "fr", "rate": Decimal("1.0000"), "since": date(2020, 1, 1), "name": None,
    }  # fmt: skip
    pipeline.upsert("rates", {"country": "de", "rate": "0.25"})
    assert pipeline.rows("cheap_sink") == [
        {"country": "de", "worth": Decimal("400.0000000000")},
        {"country": "fr", "worth": Decimal("100.0000000000")},
    ]
    pipeline.delete("rates", {"country": "de"})
    pipeline.upsert("rates", {"country": "fr", "rate": 2})
    assert [diff for diff, _ in pipeline.changes("cheap_sink")] == [-1, -1, 1]
    assert [row["country"] for row in pipeline.rows("cheap_sink")] == ["fr"]


def test_what_a_source_s_rows_cannot_do_is_refused(pipeline: Pipeline) -> None:
    pipeline.insert("orders", order(1, "ann"))
    keyless = sinkql.testing.loads("CREATE TABLE t (a int)")
    for refused, code in (
        (lambda: pipeline.delete("orders", {"id": 1}), "SQ2661"),
        (lambda: pipeline.upsert("orders", {"id": 1}), "SQ2661"),
        (lambda: pipeline.receive("rates", "{}"), "SQ2661"),
        (lambda: pipeline.delete("rates", {"country": "de"}), "SQ2662"),
        (lambda: keyless.upsert("t", {"a": 1}), "SQ2661"),
        (lambda: pipeline.changes("orders"), "SQ2003"),
    ):
        with pytest.raises(SinkqlError) as raised:
            refused()
        assert raised.value.code == code
    assert len(pipeline.rows("orders")) == 1


def test_a_failing_row_stops_its_sink_until_it_is_gone_and_no_other(pipeline: Pipeline) -> None:
    pipeline.insert("rates", [{"country": "de", "rate": 0}, {"country": "fr", "rate": 1}])
    pipeline.insert("orders", order(1, "ann"))
    for _ in range(2):
        with pytest.raises(SinkqlError) as raised:
            pipeline.commit()
    error = raised.value
    assert error.code == "SQ3201"
    assert error.text is not None
    assert error.span is not None
    assert error.text[error.span.start : error.span.end] == "100 / rate"
    assert error.detail is not None
    assert '"country": "de"' in error.detail
    assert len(pipeline.rows("daily_sink")) == 1
    pipeline.delete("rates", {"country": "de"})
    pipeline.commit()
    assert pipeline.rows("cheap_sink") == [{"country": "fr", "worth": Decimal("100.0000000000")}]


@pytest.mark.parametrize(
    ("call", "document", "said"),
    [
        ("jsonb_array_elements(j)", "{}", "cannot extract elements from an object"),
        ("jsonb_each_text(j)", "[1.5]", "cannot call jsonb_each_text on a non-object"),
    ],
)
def test_a_document_of_another_kind_is_an_error_of_its_row(call: str, document: str, said: str) -> None:
    pipeline = sinkql.testing.loads(
        f"CREATE TABLE t (id bigint, j jsonb); CREATE MATERIALIZED VIEW v AS SELECT id, e.* FROM t, {call} AS e;"
    )
    pipeline.insert("t", {"id": 1, "j": document})
    with pytest.raises(SinkqlError, match=re.escape(said)) as raised:
        pipeline.rows("v")
    error = raised.value
    assert error.code == "SQ3201"
    assert error.text is not None
    assert error.span is not None
    assert error.text[error.span.start : error.span.end].startswith(call)
    pipeline.delete("t", {"id": 1})
    assert pipeline.rows("v") == []


def test_a_null_key_of_an_object_is_an_error_of_its_row() -> None:
    pipeline = sinkql.testing.loads(
        "CREATE TABLE t (k text, x int); "
        "CREATE MATERIALIZED VIEW v AS SELECT jsonb_object_agg(k, x) FILTER (WHERE x > 1) AS o FROM t;"
    )
    pipeline.insert("t", [{"k": None, "x": 1}, {"k": "a", "x": 2}])
    assert pipeline.rows("v") == [{"o": '{"a": 2}'}]
    pipeline.insert("t", {"k": None, "x": 2})
    with pytest.raises(SinkqlError, match="field name must not be null"):
        pipeline.rows("v")


def test_records_are_decoded_as_the_source_s_format_says(pipeline: Pipeline) -> None:
    records = '{"id": 1, "customer": "ann", "amount": 2.5}\n{"id": "x"}\n'
    pipeline.receive("orders", records)
    pipeline.commit()
    assert pipeline.rows("orders_sink") == [
        {"id": 1, "customer": "ann", "amount": Decimal("2.50"), "placed_at": None},
    ]
    assert pipeline.skipped("orders") == 1
    failing = sinkql.testing.loads(_SCRIPT.replace(" WITH (ON ERROR = SKIP)", ""))
    failing.receive("orders", records.encode())
    with pytest.raises(SinkqlError) as raised:
        failing.commit()
    assert raised.value.code == "SQ3101"
    assert 'invalid row of source "materialize.public.orders" at 2:' in raised.value.message


def test_what_only_spark_computes_is_an_error_that_names_it() -> None:
    text = "CREATE TABLE t (a double); CREATE VIEW v AS SELECT a, sin(a + 1) AS s FROM t;"
    pipeline = sinkql.testing.loads(text)
    pipeline.insert("t", {"a": 1})
    with pytest.raises(SinkqlError, match=r"only Spark computes sin\(double precision\)") as raised:
        pipeline.rows("v")
    error = raised.value
    assert error.code == "SQ2663"
    assert error.text is not None
    assert error.span is not None
    assert error.text[error.span.start : error.span.end] == "sin(a + 1)"


def test_of_the_rows_of_a_promised_key_one_is_shown() -> None:
    lake = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
    into = "ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')"
    sink = f"CREATE SINK k FROM t INTO {into} KEY (a) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
    pipeline = sinkql.testing.loads(f"{lake} CREATE TABLE t (a int, b int); {sink}")
    pipeline.insert("t", [{"a": 1, "b": 1}, {"a": 1, "b": 2}])
    assert len(pipeline.rows("k")) == 1
    pipeline.delete("t", pipeline.rows("k"))
    assert len(pipeline.rows("k")) == 1
    pipeline.delete("t", {"a": 1})
    assert pipeline.rows("k") == []


def test_an_aggregate_without_groups_has_its_row_of_no_input() -> None:
    pipeline = sinkql.testing.loads("CREATE TABLE t (a int); CREATE VIEW v AS SELECT count(*) AS n, sum(a) AS s FROM t")
    assert pipeline.rows("v") == [{"n": 0, "s": None}]
    pipeline.insert("t", {"a": 3})
    assert pipeline.changes("v") == [(-1, {"n": 0, "s": None}), (1, {"n": 1, "s": 3})]


def test_a_sink_without_a_snapshot_begins_after_what_was_there() -> None:
    text = _SCRIPT.replace("ENVELOPE NONE WITH (COMMIT INTERVAL = '10s')",
                           "ENVELOPE NONE WITH (COMMIT INTERVAL = '10s', SNAPSHOT = false)")  # fmt: skip
    pipeline = sinkql.testing.loads(text)
    pipeline.insert("orders", order(1, "ann"))
    assert [row["id"] for row in pipeline.rows("orders_sink")] == [1]  # the sink was created before the row


def test_scripts_of_a_folder_may_stand_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "1.sql").write_text("CREATE VIEW v AS SELECT a + :by AS a FROM t;")
    (tmp_path / "2.sql").write_text("CREATE TABLE t (a int);")
    pipeline = sinkql.testing.load(tmp_path, variables={"by": "2"})
    pipeline.insert("t", {"a": 1})
    assert pipeline.rows("v") == [{"a": 3}]


def test_a_mistake_of_a_script_is_told_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE VIEW v AS SELECT a FROM t;")
    for path in (tmp_path, tmp_path / "a.sql"):
        with pytest.raises(SinkqlError) as raised:
            sinkql.testing.load(path)
        assert (raised.value.code, raised.value.path) == ("SQ2202", str(tmp_path / "a.sql"))


@pytest.mark.long
def test_no_spark_and_no_library_of_a_lake_is_loaded_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    code = f"""if True:
        import sys, sinkql.testing
        pipeline = sinkql.testing.loads({_SCRIPT!r})
        pipeline.insert("orders", [{{"id": 1, "customer": "ann", "amount": 1}}])
        pipeline.commit()
        assert len(pipeline.rows("daily_sink")) == 1
        print(*(name for name in ("pyspark", "pyiceberg", "duckdb", "sqlalchemy.orm") if name in sys.modules))
    """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": "", "TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_rows_that_differ_are_shown_side_by_side() -> None:
    nothing: dict[str, Any] = {"day": 2, "revenue": None}
    expected: list[dict[str, Any]] = [{"day": 1, "revenue": Decimal("2.5")}, nothing, nothing]
    assert_rows(reversed([*expected]), expected)
    assert_rows([{"a": float("nan")}], [{"a": float("nan")}])
    actual: list[dict[str, Any]] = [{"day": 1, "revenue": Decimal("2.25")}, {"day": 2, "revenue": None}, {"day": 3}]
    with pytest.raises(AssertionError) as raised:
        assert_rows(actual, expected)
    assert str(raised.value).splitlines() == [
        "2 rows missing (-), 2 rows not expected (+), 1 as expected",
        "   day  revenue",
        "+  1    Decimal('2.25')",
        "-  1    Decimal('2.5')",
        "-  2    None",
        "+  3",
    ]


def test_arrays_and_times_go_in_and_come_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = sinkql.testing.loads("""
    CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///c.db', WAREHOUSE = 'w');
    CREATE TABLE t (id bigint PRIMARY KEY, tags text[], sizes int list list, at time);
    CREATE MATERIALIZED VIEW v AS SELECT id, tags, sizes, at, tags[1] AS tag FROM t WHERE at < '23:00';
    CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
      KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '10s');
    """)
    pipeline.insert("t", {"id": 1, "tags": ["a", None], "sizes": [[1], None, []], "at": time(12, 30)})
    pipeline.insert("t", {"id": 2, "tags": "{b}", "sizes": None, "at": "3:04 PM"})
    pipeline.insert("t", {"id": 3, "tags": [], "sizes": [], "at": time(23, 30)})
    assert pipeline.rows("s") == [
        {"id": 1, "tags": ("a", None), "sizes": ((1,), None, ()), "at": time(12, 30), "tag": "a"},
        {"id": 2, "tags": ("b",), "sizes": None, "at": time(15, 4), "tag": "b"},
    ]
    with pytest.raises(SinkqlError, match='5 is no value for column "tags" of type text'):
        pipeline.insert("t", {"id": 4, "tags": [5]})


def test_maps_and_records_go_in_and_come_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = sinkql.testing.loads("""
    CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///c.db', WAREHOUSE = 'w');
    CREATE TABLE t (id bigint PRIMARY KEY, m map[text=>numeric(4, 1)], r record(a int, b text list NOT NULL));
    CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
      KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '10s');
    """)
    pipeline.insert("t", {"id": 1, "m": {"b": 2, "a": None}, "r": {"b": ["x", None]}})
    pipeline.insert("t", {"id": 2, "m": "{a=>1.5}", "r": '(1,"{y}")'})
    assert pipeline.rows("s") == [
        {"id": 1, "m": (("a", None), ("b", Decimal("2.0"))), "r": (None, ("x", None))},
        {"id": 2, "m": (("a", Decimal("1.5")),), "r": (1, ("y",))},
    ]
    for wrong in ({"a": 1}, {"b": [], "c": 1}, 7):
        with pytest.raises(SinkqlError, match='is no value for column "r" of type record'):
            pipeline.insert("t", {"id": 3, "r": wrong})
    with pytest.raises(SinkqlError, match='is no value for column "m" of type map'):
        pipeline.insert("t", {"id": 3, "m": [1]})
