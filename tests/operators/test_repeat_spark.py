"""Rows repeated by their multiplicity or by the elements of an array, in Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operators import pipeline as pipeline_module
from operators.overwritten import changes, view
from operators.pipeline import Pipeline
from sinkql.runtime.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.share(8)]

_VIEWS = {
    "left_over": "SELECT x FROM e EXCEPT ALL SELECT k FROM e",
    "in_both": "SELECT t, x FROM e INTERSECT ALL SELECT t, x FROM e WHERE k % 2 = 0 OR x > 1",
    "elements": "SELECT k, unnest(a) AS x FROM e",
    "numbered": "SELECT k, y, n FROM e, unnest(e.a) WITH ORDINALITY AS u (y, n)",
    "kept": "SELECT k, y FROM e LEFT JOIN unnest(e.a) AS y ON true",
    "series": "SELECT k, n FROM e, generate_series(x, k) AS n",
    "backwards": "SELECT k, n FROM e, generate_series(x, k, -x) AS n WHERE x <> 0",
    "members": """SELECT k, n, v
        FROM e, jsonb_each_text(('{"t": "' || t || '", "x": null}')::jsonb) AS j (n, v)""",
    "days": """SELECT k, n
        FROM e, generate_series(TIMESTAMP '2024-02-28', TIMESTAMP '2024-02-29', INTERVAL '1 day 12:00:00') AS n""",
}
_ORACLES = {
    "numbered": "SELECT k, unnest(a) AS y, generate_subscripts(a, 1) AS n FROM e",
    "kept": "SELECT k, unnest(CASE WHEN a IS NULL OR len(a) = 0 THEN [NULL] ELSE a END) AS y FROM e",
    "series": "SELECT k, unnest(generate_series(x, k)) AS n FROM e",
    "backwards": "SELECT k, unnest(generate_series(x, k, -x)) AS n FROM e WHERE x <> 0",
    "members": """SELECT k, unnest(['t', 'x']) AS n, unnest([t, NULL]) AS v FROM e WHERE t IS NOT NULL""",
    "days": "SELECT k, TIMESTAMP '2024-02-28' AS n FROM e",
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return the session; pickle the module by value, because Spark's workers cannot import it."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(pipeline_module)
    return spark


@pytest.mark.parametrize("name", _VIEWS)
def test_in_spark_too_a_view_is_what_its_sql_gives(name: str, tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random(f"spark{name}")
    pipeline = Pipeline(tmp_path, view(_VIEWS[name]), engine=SparkEngine(lambda: session, buckets=2))
    for size in (30, 20):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size))
        expected = pipeline.expected(_ORACLES.get(name, _VIEWS[name]))
        assert expected
        assert expected == pipeline.got()
