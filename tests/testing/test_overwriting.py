"""Test pipelines over sources whose rows overwrite each other by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.program.compiler import compile_text
from sinkql.testing import Pipeline
from support.overwriting import registry

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE e FROM LOAD GENERATOR COUNTER;
CREATE MATERIALIZED VIEW large AS SELECT k, 10 / x AS part, t FROM e WHERE x > 1;
CREATE MATERIALIZED VIEW texts AS SELECT t, count(*) AS n FROM large GROUP BY t;
CREATE SINK large_sink FROM large INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a')
  KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK texts_sink FROM texts INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture(params=[False, True], ids=["", "with holes"])
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    catalog = compile_text(_SCRIPT, registry=registry(Path("nowhere"), holes=request.param)).catalog
    assert catalog is not None
    return Pipeline(catalog, ())


def test_a_row_takes_the_place_of_the_one_with_its_key(pipeline: Pipeline) -> None:
    pipeline.upsert("e", [{"k": k, "x": k, "t": "a"} for k in range(4)])
    assert pipeline.rows("large_sink") == [{"k": 2, "part": 5, "t": "a"}, {"k": 3, "part": 3, "t": "a"}]
    pipeline.upsert("e", [{"k": 2, "x": 0, "t": "b"}, {"k": 3, "x": 5, "t": "b"}, {"k": 3, "x": 2, "t": "c"}])
    pipeline.delete("e", {"x": 1})
    assert pipeline.rows("e") == [
        {"k": 0, "x": 0, "t": "a"},
        {"k": 2, "x": 0, "t": "b"},
        {"k": 3, "x": 2, "t": "c"},
    ]
    large = [{"k": 3, "part": 5, "t": "c"}]
    assert pipeline.rows("large") == pipeline.rows("large_sink") == large
    before = [{"k": 2, "part": 5, "t": "a"}, {"k": 3, "part": 3, "t": "a"}]
    expected = [(-1, before[0]), (-1, before[1]), (1, large[0])]
    for name in ("large", "large_sink"):
        assert sorted(expected, key=repr) == sorted(pipeline.changes(name), key=repr)
    assert [(each["t"], each["n"], each["_mz_diff"]) for each in pipeline.rows("texts_sink")] == [
        ("a", 2, 1),
        ("a", 2, -1),
        ("c", 1, 1),
    ]


def test_a_key_that_goes_takes_its_row_along(pipeline: Pipeline) -> None:
    pipeline.insert("e", [{"k": 1, "x": 2, "t": "a"}, {"k": 2, "x": 2, "t": "a"}])
    pipeline.commit()
    pipeline.delete("e", {"k": 1})
    assert pipeline.rows("large_sink") == [{"k": 2, "part": 5, "t": "a"}]
    assert pipeline.changes("large_sink") == [(-1, {"k": 1, "part": 5, "t": "a"})]
