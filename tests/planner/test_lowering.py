"""What a sink's job is made of."""

from __future__ import annotations

from datetime import timedelta

from sinkql import compile as compile_sql
from sinkql import physical

_VIEWS_ON_VIEWS = """
CREATE SOURCE e (k integer, v integer) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE MATERIALIZED VIEW by_key AS SELECT k, count(*) AS c FROM e GROUP BY k;
CREATE MATERIALIZED VIEW by_count AS SELECT c, max(k) AS k FROM by_key GROUP BY c;
CREATE MATERIALIZED VIEW twice AS SELECT c, k FROM by_count UNION ALL SELECT c, k FROM by_count;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SINK s FROM twice INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


def test_each_aggregate_has_an_arrangement_of_its_own() -> None:
    [job] = compile_sql(_VIEWS_ON_VIEWS).jobs
    names = [each.arrangement for each in physical.walk(job.write.input) if isinstance(each, physical.Aggregate)]
    assert sorted(names) == ["a1", "a2", "a3", "a4"]


def test_pace_and_start_are_typed_and_none_of_the_writers_options() -> None:
    paced = "COMMIT INTERVAL = '1500 milliseconds', MAX ROWS PER COMMIT = 7, SNAPSHOT = false"
    [job] = compile_sql(_VIEWS_ON_VIEWS.replace("COMMIT INTERVAL = '1s'", paced)).jobs
    expected = (timedelta(milliseconds=1500), 7, False)
    for each in (job, physical.decode(physical.encode(job))):
        assert expected == (each.commit_interval, each.max_rows_per_commit, each.snapshot)
    assert not {"commit_interval", "max_rows_per_commit", "snapshot"} & job.write.options.keys()
    [plain] = compile_sql(_VIEWS_ON_VIEWS).jobs
    assert plain.plan == job.plan, "the pace decides no rows"
