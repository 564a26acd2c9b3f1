"""A plan's identity depends only on its meaning; a file pins plans and their hashes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from expressions import vectors
from golden import casefile
from golden.casefile import Case
from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError, Span
from sinkql.explain import to_text
from sinkql.logical import function as functions
from sinkql.lowering.job import lower_sink
from sinkql.lowering.spark import expression as lowering
from sinkql.lowering.spark.sql import Form, Infix, Spelling
from sinkql.parser import parse
from sinkql.planner import plan as plan_statement

pytestmark = pytest.mark.long

_DEPTH = logical.expression.MAX_DEPTH
_PLANS = Path(__file__).with_name("plans.txt")
_INTO = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')"
_CONNECTION = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
_SOURCE = "CREATE SOURCE e (a bigint, b integer, t text) FROM FILES (PATH = 'in') FORMAT JSON;"


def _catalog(text: str) -> MemoryCatalog:
    catalog = MemoryCatalog(discover())
    _keep(catalog, text)
    return catalog


def _keep(catalog: MemoryCatalog, text: str) -> None:
    for statement in parse(text):
        assert isinstance(statement, ast.Create)
        catalog.add(statement, {})


def _job(catalog: MemoryCatalog, text: str) -> physical.Job:
    """Return the job of a CREATE SINK, or of a new sink that appends the changes of a query."""
    if not text.lstrip().upper().startswith("CREATE SINK"):
        name = f"v{len(catalog.names('MATERIALIZED VIEW'))}"
        _keep(catalog, f"CREATE MATERIALIZED VIEW {name} AS {text}")
        text = f"CREATE SINK s FROM {name} {_INTO} MODE APPEND WITH (COMMIT INTERVAL = '1s')"
    (statement,) = parse(text)
    assert isinstance(statement, ast.CreateSink)
    item = plan_statement(statement, {}, catalog, discover()).item
    assert isinstance(item, logical.Sink)
    return lower_sink(item, catalog)


def _plan(query: str) -> str:
    return _job(_catalog(_CONNECTION + _SOURCE), query).plan


def test_pinned_plans_keep_their_identity(request: pytest.FixtureRequest) -> None:
    expected = _PLANS.read_text("utf-8")
    cases, below = casefile.read(expected)
    catalog = MemoryCatalog(discover())

    def hashed(case: Case) -> Case:
        if case.command == "given":
            _keep(catalog, case.input)
            return case
        return replace(case, output=_job(catalog, case.input.rstrip().removesuffix(";")).plan)

    found = tuple(map(hashed, cases))
    actual = casefile.write(found, below)
    if request.config.getoption("--rewrite-plans"):
        _PLANS.write_text(actual, "utf-8")
    elif expected != actual:
        shown = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "pinned", "planned", lineterm="")
        pytest.fail("plans have changed their identity: sinks would stop at their tables\n" + "\n".join(shown))


def test_pinned_plans_are_many_and_different() -> None:
    cases, _ = casefile.read(_PLANS.read_text("utf-8"))
    hashes = [case.output for case in cases if case.command == "plan"]
    assert len(hashes) >= 80
    assert len(set(hashes)) == len(hashes)


def test_pinned_plans_take_in_every_operator_and_every_kind_of_expression() -> None:
    catalog = MemoryCatalog(discover())
    seen: set[type] = set()
    for case in casefile.read(_PLANS.read_text("utf-8"))[0]:
        if case.command == "given":
            _keep(catalog, case.input)
            continue
        for operator in _job(catalog, case.input.rstrip().removesuffix(";")).operators():
            seen.add(type(operator))
            if isinstance(operator, physical.Map):
                outputs = operator.outputs if operator.where is None else (*operator.outputs, operator.where)
                seen |= {type(node) for each in outputs for node in logical.expression.walk(each.expression)}
    operators = {physical.Read, physical.Map, physical.Union, physical.Aggregate, physical.Pick, physical.Use}
    assert seen == operators | {logical.Reference, logical.Literal, logical.Cast, logical.Case, logical.Call}


# --- spelling and meaning ---------------------------------------------------------------------------------------


def _otherwise(spelling: Spelling) -> Callable[[logical.Call], Form]:
    """Return an equivalent form with different SQL: everything in brackets, in an IF that is always true."""

    def form(call: logical.Call) -> Form:
        found = spelling if isinstance(spelling, Form | Infix) else spelling(call)
        if isinstance(found, Form):
            return Form(f"IF(true, ({found.template}), ({found.template}))", operands=found.operands)
        operands = call.arguments if found.operands is None else found.operands
        places = f" {found.operator} ".join(f"(@{place})" for place in range(len(operands)))
        return Form(f"IF(true, ({places}), NULL)", operands=found.operands)

    return form


def _jobs_of_vectors(chosen: Sequence[dict[str, Any]]) -> dict[str, physical.Job]:
    """Return the job of each vector's plan, over a separate source."""
    found = {}
    catalog = _catalog(_CONNECTION)
    for vector in chosen:
        if isinstance(vectors.planned(vector), SinkqlError) or vector.get("mode") == "query":
            continue
        columns = ", ".join(f'"{name}" {type_}' for name, type_ in vector["columns"].items())
        _keep(catalog, f"CREATE SOURCE t ({columns}) FROM FILES (PATH = 'in') FORMAT JSON;")
        found[vector["id"]] = _job(catalog, vectors.text_of(vector))
        for name in ("v0", "t"):
            catalog.remove(f"materialize.public.{name}")
    return found


@pytest.mark.share(3)
@pytest.mark.parametrize("part", range(3))
def test_another_spelling_of_every_function_is_the_same_plan(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = vectors.load()[part::3]
    before = _jobs_of_vectors(chosen)
    texts = {id_: _texts(job) for id_, job in before.items()}
    assert len(before) > 130
    monkeypatch.setattr(lowering, "FORMS", {id_: _otherwise(spelling) for id_, spelling in lowering.FORMS.items()})
    after = _jobs_of_vectors(chosen)
    assert {id_: job.plan for id_, job in before.items()} == {id_: job.plan for id_, job in after.items()}
    respelled = [id_ for id_, job in after.items() if _texts(job) != texts[id_]]
    assert len(respelled) > 110  # all vectors that call a function


def _texts(job: physical.Job) -> list[str]:
    maps = [each for each in physical.walk(job.write.input) if isinstance(each, physical.Map)]
    return [lowering.spark_sql(output.expression) for each in maps for output in each.outputs]


def test_a_new_meaning_of_a_function_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    query, other = "SELECT sqrt(b) AS x FROM e", "SELECT ln(b) AS x FROM e"
    before = _plan(query), _plan(other)
    changed = replace(functions.FUNCTIONS["sqrt(double precision)"], version=2)
    monkeypatch.setattr(functions, "FUNCTIONS", {**functions.FUNCTIONS, changed.id: changed})
    assert _plan(query) != before[0]
    assert _plan(other) == before[1]


def test_a_new_meaning_of_a_cast_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT t::integer AS x FROM e"
    before = _plan(query)
    monkeypatch.setattr(functions, "CASTS", {**functions.CASTS, ("text", "integer"): 2})
    assert _plan(query) != before


def test_a_new_meaning_of_an_aggregate_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT count(b) AS x FROM e"
    before = _plan(query)
    monkeypatch.setattr("sinkql.lowering.relation.AGGREGATES", {**functions.AGGREGATES, "count": 2})
    assert _plan(query) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a, b FROM e", "select  e.a ,\n  b -- the same\n from e"),
        ("SELECT a + 1 AS x FROM e", "SELECT (a + 1) AS x FROM e"),
        ("SELECT a + 1 AS x FROM e", "SELECT x FROM (SELECT a + 1 AS x FROM e) AS inner_"),
        ("SELECT a FROM e WHERE b > 1", "SELECT y AS a FROM (SELECT a AS y, b AS x, t AS z FROM e) AS i WHERE x > 1"),
        ("SELECT a FROM e WHERE b IS NOT NULL", "SELECT a FROM e WHERE NOT b IS NULL"),
        ("SELECT b FROM e GROUP BY b", "SELECT b FROM e GROUP BY 1"),
        ("SELECT t FROM e WHERE t IN ('a')", "SELECT t FROM e WHERE t = ANY(ARRAY['a'])"),
        ("SELECT ceil(a::double precision) AS x FROM e", "SELECT ceiling(a::double precision) AS x FROM e"),
    ],
)
def test_other_words_for_the_same_are_the_same_plan(one: str, other: str) -> None:
    assert _plan(one) == _plan(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a + 1 AS x FROM e", "SELECT a + 2 AS x FROM e"),
        ("SELECT a, b FROM e", "SELECT b::bigint AS a, b FROM e"),
        ("SELECT a AS x FROM e", "SELECT a AS y FROM e"),
        ("SELECT a FROM e WHERE b > 1", "SELECT a FROM e WHERE b >= 1"),
        ("SELECT a, count(*) AS n FROM e GROUP BY a", "SELECT a, count(b) AS n FROM e GROUP BY a"),
        ("SELECT sum(b) AS n FROM e", "SELECT sum(DISTINCT_.b) AS n FROM (SELECT DISTINCT b FROM e) AS DISTINCT_"),
        ("SELECT round(a, 1) AS x FROM e", "SELECT round(a, 2) AS x FROM e"),
    ],
)
def test_another_meaning_is_another_plan(one: str, other: str) -> None:
    assert _plan(one) != _plan(other)


def test_intervals_limits_and_names_of_other_items_are_no_part_of_a_plan() -> None:
    catalog = _catalog(
        _CONNECTION + _SOURCE + "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM e GROUP BY a;"
    )
    sink = f"CREATE SINK s FROM v {_INTO} KEY (a) MODE UPSERT WITH (COMMIT INTERVAL = "
    plan = _job(catalog, f"{sink}'1s')").plan
    assert plan == _job(catalog, f"{sink}'9s', MAX ROWS PER COMMIT = 7)").plan
    renamed = _catalog(
        _CONNECTION + _SOURCE + "CREATE MATERIALIZED VIEW w AS SELECT a, count(*) AS n FROM e GROUP BY a;"
    )
    assert plan == _job(renamed, f"{sink.replace(' v ', ' w ')}'1s')").plan


def test_an_expression_is_the_same_wherever_it_was_written() -> None:
    one = vectors.over("a + 1", (logical.Column("a", logical.Type("bigint")),))
    moved = logical.expression.at(one, Span(3, 9))
    assert one == moved
    assert hash(one) == hash(moved)


def test_a_job_and_its_trees_go_through_json() -> None:
    catalog = MemoryCatalog(discover())
    for case in casefile.read(_PLANS.read_text("utf-8"))[0]:
        if case.command == "given":
            _keep(catalog, case.input)
            continue
        job = _job(catalog, case.input.rstrip().removesuffix(";"))
        assert physical.decode(physical.encode(job)) == job


@pytest.mark.parametrize(
    "deep",
    [" + ".join(["a"] * _DEPTH), "a" + "::bigint::integer" * (_DEPTH // 2 - 1), " AND ".join(["a > 1"] * 2000)],
    ids=["sum", "casts", "conditions"],
)
def test_the_deepest_expressions_go_through_all_that_reads_trees(deep: str) -> None:
    job = _job(_catalog(_CONNECTION + _SOURCE), f"SELECT {deep} AS x FROM e")
    read = physical.decode(physical.encode(job))
    assert read.plan == job.plan
    assert len(_texts(read)[0]) > 4 * _DEPTH
    assert to_text(read)


@pytest.mark.parametrize(
    "deep", [" + ".join(["a"] * (_DEPTH + 1)), "a" + "::bigint::integer" * (_DEPTH // 2 + 1)], ids=["sum", "casts"]
)
def test_a_deeper_expression_is_refused_where_it_is_planned(deep: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        _job(_catalog(_CONNECTION + _SOURCE), f"SELECT {deep} AS x FROM e")
    assert caught.value.code == "SQ2209"


def test_a_plan_says_nothing_of_where_its_expressions_stand() -> None:
    job = _job(_catalog(_CONNECTION + _SOURCE), "SELECT a + 1 AS x FROM e")
    moved = _job(_catalog(_CONNECTION + _SOURCE), "SELECT     a + 1 AS x FROM e")
    assert job.texts != moved.texts
    assert job.plan == moved.plan
    assert msgspec.structs.replace(job, texts={}).plan == job.plan
