"""Queries are planned as relations with the right columns, keys, change kinds, spans and errors."""

from __future__ import annotations

import pytest

from expressions import vectors
from sinkql import ast, logical
from sinkql.connector_api.types import parse_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Change, Column, Shape, Type
from sinkql.logical import expression as trees
from sinkql.lowering.spark.expression import spark_sql
from sinkql.parser.read.lexer import MAX_DEPTH
from sinkql.planner.query.plan import plan_query
from sinkql.planner.query.rename import qualify_query

_COLUMNS = {
    "id": "integer", "amount": "numeric(12,2)", "price": "double precision", "note": "text", "at": "timestamp",
    "paid": "boolean", "Odd Name": "text",
}  # fmt: skip
_SHAPE = Shape(
    tuple(Column(name, parse_type(type_), name != "id") for name, type_ in _COLUMNS.items()),
    (frozenset({"id"}),),
)


def _tables(change: Change = Change.APPEND) -> vectors.Tables:
    shape = Shape(_SHAPE.columns, _SHAPE.keys, change)
    return vectors.Tables({"materialize.public.orders": shape, "materialize.other.orders": shape})


def _plan(text: str, change: Change = Change.APPEND) -> logical.Relation:
    return vectors.query(text, _tables(change)).relation


def _error(text: str, change: Change = Change.APPEND) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        _plan(text, change)
    return caught.value


def _caret(text: str, change: Change = Change.APPEND) -> tuple[str, str]:
    error = _error(text, change)
    assert error.span is not None
    return error.code, text[error.span.start : error.span.end]


def test_star_over_a_source_is_the_source() -> None:
    assert logical.Get("materialize.public.orders", _SHAPE) == _plan("SELECT * FROM orders")


def test_projection_keeps_a_key_under_its_new_name() -> None:
    assert (frozenset({"k"}),) == _plan("SELECT id AS k, note FROM orders").shape.keys
    assert _plan("SELECT id + 1 AS id FROM orders").shape.keys == ()


def test_group_by_is_keyed_by_its_columns_and_retracts() -> None:
    shape = _plan("SELECT note AS n, count(*) FROM orders GROUP BY note").shape
    assert (Change.RETRACT, (frozenset({"n"}),)) == (shape.change, shape.keys)
    assert (Column("n", Type("text")), Column("count", Type("bigint"), False)) == shape.columns


def test_aggregate_without_group_is_one_row() -> None:
    assert (frozenset(),) == _plan("SELECT count(*) FROM orders").shape.keys


def test_group_column_that_is_left_out_leaves_no_key() -> None:
    assert _plan("SELECT count(*) FROM orders GROUP BY note").shape.keys == ()


def test_distinct_is_keyed_by_the_key_it_had_or_by_all_columns() -> None:
    assert _plan("SELECT DISTINCT id, note FROM orders").shape.keys == (frozenset({"id"}),)
    assert _plan("SELECT DISTINCT note, paid FROM orders").shape.keys == (frozenset({"note", "paid"}),)


@pytest.mark.parametrize("group", ["1", "hour", "date_trunc('hour', at)", "date_trunc('hour', orders.at)"])
def test_group_by_place_alias_or_expression_is_the_same(group: str) -> None:
    select = "SELECT date_trunc('hour', at) AS hour, max(id) AS last FROM orders GROUP BY "
    assert _plan(select + "date_trunc('hour', at)") == _plan(select + group)


def test_input_column_wins_over_an_alias_in_group_by() -> None:
    assert _error("SELECT note || '!' AS id, note FROM orders GROUP BY id").code == "SQ2206"


@pytest.mark.parametrize(
    ("number", "type_"),
    [("-2147483648", "integer"), ("-(2147483648)", "integer"), ("2147483648", "bigint"), ("-2147483649", "bigint"),
     ("-9223372036854775808", "bigint"), ("-(2147483648::bigint)", "bigint"),
     ("9223372036854775808", "numeric(38,0)"), ("-1.5", "numeric(38,1)")],
)  # fmt: skip
def test_a_number_has_the_type_that_its_sign_leaves(number: str, type_: str) -> None:
    assert type_ == str(_plan(f"SELECT {number} AS x FROM orders").shape.columns[0].type)


def test_average_is_a_sum_and_a_count_below_a_projection() -> None:
    relation = _plan("SELECT avg(amount) AS a FROM orders")
    assert isinstance(relation, logical.Project)
    assert isinstance(relation.input, logical.Aggregate)
    assert [(call.function, str(call.type)) for call in relation.input.calls] == [
        ("count", "bigint"),
        ("sum", "numeric(38,2)"),
    ]


def test_equal_aggregates_are_computed_once() -> None:
    relation = _plan("SELECT sum(id) AS a, sum(id) + 1 AS b, avg(id) AS c FROM orders HAVING sum(id) > 1")
    aggregate = relation
    while not isinstance(aggregate, logical.Aggregate):
        assert isinstance(aggregate, logical.Project | logical.Filter)
        aggregate = aggregate.input
    assert [call.function for call in aggregate.calls] == ["sum", "count", "sum"]


def test_filter_of_an_aggregate_is_a_case_in_its_argument() -> None:
    relation = _plan("SELECT count(*) FILTER (WHERE paid) AS n FROM orders")
    assert isinstance(relation, logical.Aggregate)
    argument = relation.calls[0].argument
    assert argument is not None
    assert spark_sql(argument) == "CASE WHEN `paid` THEN true END"


def test_union_takes_the_first_names_and_common_types() -> None:
    relation = _plan("SELECT id AS x FROM orders UNION ALL SELECT amount FROM orders UNION ALL SELECT 7 FROM orders")
    assert isinstance(relation, logical.Union)
    assert (Column("x", Type("numeric", 38, 2)),) == relation.shape.columns
    assert len(relation.inputs) == 3
    assert {("x", "numeric(38,2)")} == {
        (column.name, str(column.type)) for each in relation.inputs for column in each.shape.columns
    }


def test_union_of_appends_appends_and_with_retractions_retracts() -> None:
    assert _plan("SELECT id FROM orders UNION ALL SELECT id FROM orders").shape.change == Change.APPEND
    assert _plan("SELECT id FROM orders UNION ALL SELECT DISTINCT id FROM orders").shape.change == Change.RETRACT
    assert _plan("SELECT id FROM orders UNION SELECT id FROM orders").shape.change == Change.RETRACT


def test_cte_hides_an_item_of_its_name() -> None:
    text = "WITH orders AS (SELECT note AS n FROM orders) SELECT n FROM orders"
    assert (Column("n", Type("text")),) == _plan(text).shape.columns


def test_quoted_names_keep_their_case_and_others_fold() -> None:
    relation = _plan('SELECT "Odd Name" AS "X", NOTE AS Y FROM Orders')
    assert [column.name for column in relation.shape.columns] == ["X", "y"]


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("upper(note)", "upper"), ("id + 1", "?column?"), ("CASE WHEN paid THEN 1 END", "case"), ("id::text", "id"),
        ("'1'::integer", "int4"), ("coalesce(note, '')", "coalesce"), ("(note)", "note"), ("trim(note)", "btrim"),
        ("extract(year FROM at)", "extract"), ("count(*)", "count"), ("sum(id) FILTER (WHERE paid)", "sum"),
        ("at AT TIME ZONE 'UTC'", "timezone"), ("true", "?column?"), ("CASE WHEN paid THEN 1 ELSE id END", "id"),
        ("row_number() OVER (ORDER BY id)", "row_number"), ("sum(id) FILTER (WHERE paid) OVER ()", "sum"),
        ("EXISTS (SELECT 1)", "exists"), ("(SELECT max(id) FROM orders)", "max"), ("(SELECT 1)", "?column?"),
        ("CASE WHEN paid THEN 1 ELSE (SELECT 2) END", "?column?"), ("(id, note)", "row"), ("'{1}'::int[]", "int4"),
        ("(string_to_array(note, ','))[1:2]", "string_to_array"),
    ],
)  # fmt: skip
def test_columns_are_named_as_in_postgres(item: str, name: str) -> None:
    assert name == _plan(f"SELECT {item} FROM orders").shape.columns[0].name


@pytest.mark.parametrize(
    ("text", "code", "caret"),
    [
        ("SELECT nope FROM orders", "SQ2204", "nope"),
        ("SELECT x.id FROM orders", "SQ2202", "x.id"),
        ("SELECT id FROM ordres", "SQ2202", "ordres"),
        ("SELECT id, note AS id FROM orders", "SQ2008", "note AS id"),
        ('SELECT id AS "$seq" FROM orders', "SQ2009", 'id AS "$seq"'),
        ("SELECT note + 1 FROM orders", "SQ2211", "note + 1"),
        ("SELECT id FROM orders WHERE note", "SQ2219", "note"),
        ("SELECT id FROM orders WHERE count(*) > 1", "SQ2216", "count(*)"),
        ("SELECT sum(max(id)) FROM orders", "SQ2216", "max(id)"),
        ("SELECT id, 1 + frobnicate(note, 2) AS x FROM orders", "SQ2210", "frobnicate(note, 2)"),
        ("SELECT count(*), summ(id) FROM orders", "SQ2210", "summ(id)"),
        ("SELECT id, now() FROM orders", "SQ2217", "now()"),
        ("SELECT current_timestamp FROM orders", "SQ2217", "current_timestamp"),
        ("SELECT note::integer[][] list[] FROM orders", "SQ2935", "integer[][] list[]"),
        ("SELECT note::timestamp(3) FROM orders", "SQ2223", "timestamp(3)"),
        ("SELECT at + at AS d FROM orders", "SQ2211", "at + at"),
        ("SELECT id FROM orders GROUP BY 2", "SQ2222", "2"),
        ("SELECT id = 1 = paid FROM orders", "SQ2215", "id = 1 = paid"),
        ("SELECT id FROM orders UNION ALL SELECT id, note FROM orders", "SQ2221", "SELECT id, note FROM orders"),
        ("SELECT CASE WHEN paid THEN 1 ELSE note END FROM orders", "SQ2213", "CASE WHEN paid THEN 1 ELSE note END"),
        ("SELECT at > 'tomorrow' FROM orders", "SQ2212", "'tomorrow'"),
        ("WITH RECURSIVE x AS (SELECT id FROM orders) SELECT id FROM x", "SQ2924", None),
        ("SELECT id FROM orders FOR UPDATE", "SQ2933", None),
        ("SELECT U&'x' FROM orders", "SQ2215", "U&'x'"),
        ("SELECT id FROM", "SQ2201", ""),
        ("SELECT (id FROM orders", "SQ2201", "FROM"),
        ("SELECT id FROM orders WHERE", "SQ2201", ""),
        ("SELECT 'x FROM orders", "SQ2201", None),
    ],
)
def test_error_points_at_what_is_wrong(text: str, code: str, caret: str | None) -> None:
    found = _caret(text)
    assert (code, caret if caret is not None else found[1]) == found


def test_span_lies_in_the_whole_file() -> None:
    text = "SELECT id,\n  note || amount * 1.5 FROM orders"
    query = ast.Query(text, Span(100, 100 + len(text)))
    with pytest.raises(SinkqlError) as caught:
        plan_query(query, _tables())
    assert caught.value.span == Span(100 + text.index("amount"), 100 + text.index(" FROM"))


def test_outputs_cover_their_expression_in_the_text() -> None:
    text = "SELECT (id + 1) * 2 AS x, upper(trim(note)) FROM orders"
    relation = _plan(text)
    assert isinstance(relation, logical.Project)
    spans = [output.expression.span for output in relation.outputs]
    assert [text[span.start : span.end] for span in spans] == ["(id + 1) * 2", "upper(trim(note))"]


def test_float_sum_over_retractions_is_refused_with_a_cast_as_the_way_out() -> None:
    text = "SELECT sum(price) FROM (SELECT DISTINCT id, price FROM orders) AS d"
    error = _error(text)
    assert error.code == "SQ2220"
    assert error.hint == "Cast it: sum(value::numeric(38,10))."
    assert _plan(text.replace("sum(", "max(")).shape.columns[0].name == "max"


def test_rows_overwrite_each_other_as_long_as_their_key_is_there() -> None:
    for text in ("SELECT id, note FROM orders WHERE id > 1", "SELECT id AS number FROM orders WHERE paid"):
        assert _plan(text, Change.UPSERT).shape.change == Change.UPSERT
    for text in (
        "SELECT note FROM orders",
        "SELECT count(*) FROM orders",
        "SELECT DISTINCT note FROM orders",
        "SELECT id FROM orders UNION ALL SELECT id FROM orders",
    ):
        assert _plan(text, Change.UPSERT).shape.change == Change.RETRACT
    assert _error("SELECT sum(price) FROM orders", Change.UPSERT).code == "SQ2220"


def test_long_operands_of_a_repeating_form_are_written_once() -> None:
    relation = _plan(f"SELECT {' + '.join(['price'] * 40)} AS x FROM orders")
    assert isinstance(relation, logical.Project)
    assert len(spark_sql(relation.outputs[0].expression)) < 20_000


def test_at_signs_in_patterns_and_keys_are_themselves() -> None:
    relation = _plan("SELECT note ~ 'a@0b' AS p, note::jsonb ->> 'k@1' AS q, to_char(at, '@0') AS r FROM orders")
    assert isinstance(relation, logical.Project)
    assert spark_sql(relation.outputs[0].expression) == r"`note` RLIKE 'a\\\u00400b'"
    assert r"k\u00401" in spark_sql(relation.outputs[1].expression)
    assert r"\u00400" in spark_sql(relation.outputs[2].expression)


@pytest.mark.parametrize(
    "call",
    [
        "to_char(at, 'DDTHH24')", "to_char(at, 'BC')", "to_char(id, 'L9')", "to_char(id, '9EEEE9')",
        "to_timestamp(note, 'Y,YYY')", "to_timestamp(note, 'YYYY FF3')",
    ],
)  # fmt: skip
def test_a_pattern_that_has_no_exact_form_is_refused_at_its_place(call: str) -> None:
    assert _caret(f"SELECT {call} FROM orders") == ("SQ2214", call[call.index("'") : -1])


@pytest.mark.parametrize(
    "item", ["-fine", "fine + 1", "sum(fine)", "avg(fine)", "0.12345678901 + 1", "coalesce(fine, 1)"]
)
def test_digits_that_plain_numeric_cannot_keep_are_not_rounded_off(item: str) -> None:
    tables = vectors.table({"fine": "numeric(20,15)"})
    with pytest.raises(SinkqlError) as caught:
        vectors.query(f"SELECT {item} FROM t", tables)
    assert caught.value.code == "SQ2214"
    assert str(vectors.query("SELECT max(fine) FROM t", tables).relation.shape.columns[0].type) == "numeric(20,15)"


@pytest.mark.parametrize(
    ("constant", "type_"),
    [("0.12345678901", "numeric(11,11)"), ("9" * 38, "numeric(38,0)"), (f"0.{'9' * 38}", "numeric(38,38)")],
)
def test_a_constant_of_more_digits_than_a_plain_numeric_is_a_column_of_its_own(constant: str, type_: str) -> None:
    plan = vectors.query(f"SELECT {constant} AS x FROM t", vectors.table({"a": "integer"}))
    assert str(plan.relation.shape.columns[0].type) == type_


def test_deep_nesting_is_an_error_with_a_code() -> None:
    assert _error("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM orders").code == "SQ1019"


@pytest.mark.parametrize(
    "deep",
    [
        "(" * MAX_DEPTH + "id" + ")" * MAX_DEPTH,
        "abs(" * MAX_DEPTH + "id" + ")" * MAX_DEPTH,
        "CASE WHEN id > 0 THEN " * MAX_DEPTH + "id" + " END" * MAX_DEPTH,
        " + ".join(["id"] * (trees.MAX_DEPTH - 100)),
    ],
)
def test_brackets_as_deep_as_statements_have_them_are_planned(deep: str) -> None:
    (column,) = _plan(f"SELECT {deep} AS a FROM orders").shape.columns
    assert column.name == "a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT o.id FROM orders AS o", "SELECT o.id FROM materialize.public.orders AS o"),
        ("SELECT id FROM other.ORDERS -- orders", "SELECT id FROM materialize.other.orders -- orders"),
        ('SELECT 1 FROM "Or""ders"', 'SELECT 1 FROM materialize.public."Or""ders"'),
        (
            "WITH orders AS (SELECT * FROM orders) SELECT 'orders' FROM orders",
            "WITH orders AS (SELECT * FROM materialize.public.orders) SELECT 'orders' FROM orders",
        ),
        (
            "SELECT id FROM (SELECT id FROM orders) AS orders",
            "SELECT id FROM (SELECT id FROM materialize.public.orders) AS orders",
        ),
    ],
)  # fmt: skip
def test_item_names_are_written_in_full_and_the_rest_is_kept(text: str, expected: str) -> None:
    assert expected == qualify_query(ast.Query(text, Span(0, len(text))), _tables().resolve).text
    assert expected == qualify_query(ast.Query(expected, Span(0, len(expected))), _tables().resolve).text


def test_dependencies_are_the_items_in_the_order_of_the_text() -> None:
    plan = vectors.query(
        "SELECT id FROM other.orders UNION ALL SELECT id FROM orders UNION ALL SELECT id FROM orders", _tables()
    )
    assert plan.dependencies == ("materialize.other.orders", "materialize.public.orders")


def test_predicates_stand_in_parentheses_within_predicates() -> None:
    relation = _plan("SELECT (note IS NULL) = (id > 1) AS p, (id = 1) = (note = 'a') AS q FROM orders")
    assert isinstance(relation, logical.Project)
    assert [spark_sql(output.expression) for output in relation.outputs] == [
        "(`note` IS NULL) = (`id` > 1)",
        "(`id` = 1) = (`note` = 'a')",
    ]
