"""EXPLAIN of a sink shows where its batches run, and why."""

from __future__ import annotations

import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from sinkql.session import Session

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CLUSTER always (SIZE = 'local[1]', EXECUTION = SPARK);
CREATE CLUSTER few (SIZE = 'local[2]');
CREATE CLUSTER many (SIZE = 'local[3]');
CREATE CLUSTER elsewhere (MASTER = 'yarn', STATE = '/tmp');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE MATERIALIZED VIEW renamed AS SELECT counter AS c FROM n;
CREATE MATERIALIZED VIEW doubled AS SELECT counter * 2 AS c FROM n;
CREATE MATERIALIZED VIEW few AS SELECT counter AS c FROM n WHERE counter % 3 = 0;
CREATE MATERIALIZED VIEW waves AS SELECT sin(counter::double precision) AS c FROM n;
CREATE MATERIALIZED VIEW counted AS SELECT counter AS c, count(*) AS k FROM n GROUP BY counter;
CREATE MATERIALIZED VIEW doubles AS SELECT c * 2 AS c, k FROM
  (SELECT counter AS c, count(*) AS k FROM n GROUP BY counter);
"""
_ALL = "in process, about 1,000,000 rows or 256 MB at a time, until Spark runs"
_COMPUTED = f"{_ALL}; in Spark above 16,384 rows if their expressions are computed one by one"
_LIMITED = "in process up to about 1,000,000 rows or 256 MB; in Spark above that"
_LIMITED_COMPUTED = (
    "in process up to about 1,000,000 rows or 256 MB, 16,384 rows if their expressions are computed one by one; "
    "in Spark above that"
)


def _sink(view: str, cluster: str = "quickstart", *, name: str = "s", interval: str = "1s") -> str:
    mode = "KEY (c) NOT ENFORCED MODE UPSERT" if view in ("counted", "doubles") else "MODE APPEND"
    return (
        f"CREATE SINK {name} IN CLUSTER {cluster} FROM {view} INTO ICEBERG CATALOG CONNECTION lake "
        f"(NAMESPACE = 'n', TABLE = '{name}') {mode} WITH (COMMIT INTERVAL = '{interval}')"
    )


def _batches(session: Session, what: str) -> list[str]:
    lines = [row[0].strip() for row in session.execute(f"EXPLAIN {what};")[0].rows]
    return [line.removeprefix("batches: ") for line in lines if line.startswith("batches: ")]


@pytest.mark.parametrize(
    ("view", "cluster", "place"),
    [
        ("n", "few", _ALL),
        ("renamed", "few", _ALL),
        ("doubled", "few", _COMPUTED),
        ("few", "few", _COMPUTED),
        ("counted", "few", _LIMITED),
        ("doubles", "few", _LIMITED_COMPUTED),
        ("n", "many", _LIMITED),
        ("doubled", "many", _LIMITED_COMPUTED),
        ("waves", "quickstart", "in Spark: only Spark computes sin(double precision)"),
        ("renamed", "always", "in Spark: its cluster has EXECUTION = SPARK"),
        ("renamed", "elsewhere", _LIMITED),
        ("counted", "elsewhere", "in Spark: tasks on other machines have the state"),
    ],
)
def test_explain_shows_where_batches_run(session: Session, view: str, cluster: str, place: str) -> None:
    session.execute(_ITEMS)
    assert _batches(session, _sink(view, cluster)) == [place]
    session.execute(f"{_sink(view, cluster)};")
    assert _batches(session, "SINK s") == [place]
    assert _batches(session, "PHYSICAL PLAN AS DOT FOR SINK s") == []
    assert _batches(session, "OPTIMIZED PLAN FOR SINK s") == []


def test_explain_follows_the_options_of_the_cluster(session: Session) -> None:
    session.execute(_ITEMS + "CREATE CLUSTER c (SIZE = 'local[1]');" + _sink("renamed", "c") + ";")
    assert _batches(session, "SINK s") == [_ALL]
    session.execute("ALTER CLUSTER c SET (EXECUTION = SPARK);")
    assert _batches(session, "SINK s") == ["in Spark: its cluster has EXECUTION = SPARK"]
    session.execute("ALTER CLUSTER c RESET (EXECUTION);")
    assert _batches(session, "SINK s") == [_ALL]


def test_explain_shows_that_spark_cannot_keep_a_shorter_interval(session: Session) -> None:
    session.execute(_ITEMS)
    assert _batches(session, _sink("renamed", interval="999ms")) == [_ALL]
    assert _batches(session, _sink("renamed", "always", interval="999ms")) == [
        "in Spark, once a second at most: its cluster has EXECUTION = SPARK"
    ]


def test_what_has_no_job_has_no_batches(session: Session) -> None:
    session.execute(_ITEMS)
    assert _batches(session, "MATERIALIZED VIEW counted") == []
    assert _batches(session, "SELECT counter FROM n") == []
    session.execute("ALTER MATERIALIZED VIEW counted SET (COMMIT INTERVAL = '5s');")
    assert _batches(session, "MATERIALIZED VIEW counted") == [_LIMITED]


def test_the_decision_imports_no_arrow_and_no_spark(tmp_path: Path) -> None:
    with chdir(tmp_path), Session() as session:
        session.execute(_ITEMS + _sink("doubled") + ";")
    (tmp_path / "explain.sql").write_text("EXPLAIN SINK s;")
    program = (
        "import sys; from sinkql.cli.main import run_command; code = run_command(['exec', 'explain.sql']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"batches: {_COMPUTED}" in done.stdout
    loaded = set(done.stderr.splitlines())
    assert "sinkql.lowering.placement" in loaded
    assert set() == loaded & {"pyspark", "pyarrow", "numpy"}
