"""The contents of a sink's job."""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec
import pytest

from sinkql import compile as compile_sql
from sinkql import physical
from sinkql.physical.graph import Inline

_SOURCE = "CREATE SOURCE e (k bigint, v bigint) FROM FILES (PATH = 'in') FORMAT JSON;"
_VIEWS_ON_VIEWS = """
CREATE SOURCE e (k integer, v integer) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE MATERIALIZED VIEW by_key AS SELECT k, count(*) AS c FROM e GROUP BY k;
CREATE MATERIALIZED VIEW by_count AS SELECT c, max(k) AS k FROM by_key GROUP BY c;
CREATE MATERIALIZED VIEW twice AS SELECT c, k FROM by_count UNION ALL SELECT c, k FROM by_count;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SINK s FROM twice INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


def _into(query: str) -> str:
    return f"""
        CREATE MATERIALIZED VIEW asked AS {query};
        CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
        CREATE SINK s FROM asked INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
          WITH (COMMIT INTERVAL = '1s');
    """


def _sink_of(query: str) -> str:
    return _SOURCE + _into(query)


def _aggregates(sql: str) -> list[str]:
    [job] = compile_sql(sql).jobs
    return [each.arrangement for each in job.operators() if isinstance(each, physical.Aggregate)]


def test_a_view_that_is_named_twice_is_computed_once() -> None:
    [job] = compile_sql(_VIEWS_ON_VIEWS).jobs
    uses = [each.name for each in physical.walk(job.write.input) if isinstance(each, physical.Use)]
    assert uses == ["by_count", "by_count"]
    assert list(job.shared) == ["by_count"]
    assert len(set(_aggregates(_VIEWS_ON_VIEWS))) == 2


@pytest.mark.parametrize(
    "query",
    [
        "WITH c AS (SELECT k, count(*) AS n FROM e GROUP BY k) SELECT k FROM c UNION ALL SELECT n FROM c",
        "SELECT k FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS x "
        "UNION ALL SELECT n FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS y",
    ],
    ids=["named by WITH", "written twice"],
)
def test_equal_relations_are_computed_once(query: str) -> None:
    [job] = compile_sql(_sink_of(query)).jobs
    assert list(job.shared) == ["shared"]
    assert len(_aggregates(_sink_of(query))) == 1
    assert physical.decode(physical.encode(job)) == job


def test_rows_without_state_are_put_in_line() -> None:
    [job] = compile_sql(
        _sink_of("WITH c AS (SELECT k FROM e WHERE v > 1) SELECT k FROM c UNION ALL SELECT k FROM c")
    ).jobs
    assert not job.shared


def test_state_is_named_by_what_it_holds() -> None:
    counted = _aggregates(_sink_of("SELECT k, count(*) AS n FROM e GROUP BY k"))
    assert counted == _aggregates(
        _sink_of("SELECT n + 1 AS m FROM (SELECT k AS x, count(*) AS n FROM e GROUP BY 1) AS i")
    )
    assert counted != _aggregates(_sink_of("SELECT k, count(*) AS n FROM e WHERE v > 1 GROUP BY k"))
    assert counted != _aggregates(_sink_of("SELECT k, count(v) AS n FROM e GROUP BY k"))
    assert counted[0] in _aggregates(
        _sink_of("SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM e GROUP BY k) AS i GROUP BY n")
    )
    assert all(re.fullmatch("[0-9a-f]{8}", each) for each in counted)


def test_a_plan_is_the_same_whether_a_part_is_used_once_or_twice() -> None:
    [job] = compile_sql(_VIEWS_ON_VIEWS).jobs
    apart = msgspec.structs.replace(
        job, write=msgspec.structs.replace(job.write, input=Inline(job.shared).of(job.write.input)), shared={}
    )
    assert len([each for each in apart.operators() if isinstance(each, physical.Aggregate)]) == 4
    assert job.plan == apart.plan


def test_what_is_used_twice_gives_the_columns_that_some_use_asks_for() -> None:
    counted = "(SELECT k, count(*) AS n FROM e GROUP BY k) AS i"
    view = f"CREATE VIEW v AS SELECT k, n + 1 AS a, n + 2 AS b, n + 3 AS c FROM {counted};"
    query = "SELECT k AS x, max(a) AS y FROM v GROUP BY k UNION ALL SELECT b, count(*) FROM v GROUP BY b"
    [job] = compile_sql(_SOURCE + view + _into(query)).jobs
    assert [each.name for each in physical.columns_of(job.shared["v"])] == ["k", "a", "b"]
    assert {"materialize.public.e": frozenset("k")} == physical.columns_read(job.graph, ["x", "y"])


def test_rows_of_which_no_column_is_asked_for_have_a_plan() -> None:
    [job] = compile_sql(_sink_of("SELECT 1 AS x FROM (SELECT DISTINCT k FROM e UNION ALL SELECT v FROM e) AS u")).jobs
    assert len(job.plan) == 16


def test_views_that_use_each_other_twice_do_not_double() -> None:
    views = "".join(
        f"CREATE VIEW v{n} AS SELECT k, count(*) AS n FROM "
        f"(SELECT k, n FROM v{n - 1} UNION ALL SELECT n AS k, k AS n FROM v{n - 1}) AS u GROUP BY k;"
        for n in range(1, 25)
    )
    first = "CREATE VIEW v0 AS SELECT k, count(*) AS n FROM e GROUP BY k;"
    [job] = compile_sql(_SOURCE + first + views + _into("SELECT k, n FROM v24")).jobs
    assert len(job.shared) == 24
    assert len([each for each in job.operators() if isinstance(each, physical.Aggregate)]) == 25
    assert len(job.plan) == 16


def test_pace_and_start_are_typed_and_none_of_the_writers_options() -> None:
    paced = "COMMIT INTERVAL = '1500 milliseconds', MAX ROWS PER COMMIT = 7, SNAPSHOT = false"
    [job] = compile_sql(_VIEWS_ON_VIEWS.replace("COMMIT INTERVAL = '1s'", paced)).jobs
    expected = (timedelta(milliseconds=1500), 7, False)
    for each in (job, physical.decode(physical.encode(job))):
        assert expected == (each.commit_interval, each.max_rows_per_commit, each.snapshot)
    assert not {"commit_interval", "max_rows_per_commit", "snapshot"} & job.write.options.keys()
    [plain] = compile_sql(_VIEWS_ON_VIEWS).jobs
    assert plain.plan == job.plan, "the pace changed the plan"
