"""Compiling and importing: the modules that are loaded, and the results."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

import sinkql
from session.script import COUNTER, LAKE, NAME, PIPELINE, SINK
from sinkql.errors import SinkqlError
from sinkql.program import Program

_HEAVY = ("pyspark", "pyarrow", "pyiceberg", "sqlalchemy", "boto3", "duckdb", "pandas", "numpy")


def _loaded_after(code: str, tmp_path: Path) -> list[str]:
    """Return the heavy modules that are loaded in a new Python after `code`."""
    program = f"import sys\n{code}\nprint(*[name for name in {_HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    return done.stdout.split()


def test_importing_loads_nothing_heavy(tmp_path: Path) -> None:
    assert _loaded_after("import sinkql", tmp_path) == []


def test_compiling_loads_nothing_heavy_and_leaves_no_file(tmp_path: Path) -> None:
    assert _loaded_after(f"import sinkql; assert sinkql.compile({PIPELINE!r}).jobs", tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_rows_of_a_compiled_script_are_checked_and_not_changed() -> None:
    program = sinkql.compile("CREATE TABLE t (id int); INSERT INTO t VALUES (1); DELETE FROM t;")
    assert [notice.code for notice in program.notices] == ["SQ2434", "SQ2434"]
    with pytest.raises(SinkqlError, match="does not exist"):
        sinkql.compile("CREATE TABLE t (id int); INSERT INTO t (no) VALUES (1);")


def test_a_session_loads_no_spark(tmp_path: Path) -> None:
    loaded = _loaded_after(f"import sinkql; sinkql.connect().execute({PIPELINE!r})", tmp_path)
    assert "pyspark" not in loaded


def test_time_of_import_and_compile_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    views = "".join(f"CREATE VIEW v{number} AS SELECT counter + {number} AS c FROM n;" for number in range(300))
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sinkql"], check=True, cwd=tmp_path)
    imported = time.perf_counter()
    sinkql.compile(COUNTER + views)
    compiled = time.perf_counter()
    with capsys.disabled():
        print(f"\nimport {imported - began:.2f} s with Python's start, 301 statements {compiled - imported:.2f} s")


def test_version_is_the_packages() -> None:
    assert version("sinkql") == sinkql.__version__


def test_parse_gives_statements_and_places_of_mistakes() -> None:
    assert len(sinkql.parse(PIPELINE)) == 3
    with pytest.raises(sinkql.SinkqlError) as raised:
        sinkql.parse("CREATE SOUP;")
    assert raised.value.text == "CREATE SOUP;"


def test_program_has_items_and_jobs_and_goes_through_json() -> None:
    program = sinkql.compile(PIPELINE)
    assert [item.kind for item in program.items] == ["CONNECTION", "SOURCE", "SINK"]
    assert [job.sink for job in program.jobs] == [NAME]
    again = Program.from_json(program.to_json())
    assert program == again
    assert program.explain("physical") == again.explain("physical")


def test_compiling_is_a_function_of_the_text() -> None:
    assert sinkql.compile(PIPELINE).to_json() == sinkql.compile(PIPELINE).to_json()


def test_program_follows_drops_replacements_and_settings() -> None:
    text = PIPELINE + "CREATE VIEW v AS SELECT counter FROM n; CREATE OR REPLACE VIEW v AS SELECT 1 AS x FROM n;"
    program = sinkql.compile(text + "DROP SINK user_activity_iceberg; SHOW SINKS; SELECT 1; " + COUNTER)
    assert program.jobs == ()
    assert "SELECT 1 AS x" in program.items[-1].sql
    assert [notice.code for notice in program.notices] == ["SQ2012"]
    with pytest.raises(SinkqlError):
        sinkql.compile("ALTER SYSTEM SET enable_iceberg_sink = false;" + PIPELINE)


def test_facts_decide_the_sinks_identity() -> None:
    facts = {"user_activity_iceberg": {"sink_id": "a"}}
    assert [job.sink_id for job in sinkql.compile(PIPELINE, facts=facts).jobs] == ["a"]
    assert [job.sink_id for job in sinkql.compile(PIPELINE, facts={NAME: {"sink_id": "a"}}).jobs] == ["a"]


def test_mistakes_have_path_and_place() -> None:
    with pytest.raises(SinkqlError) as raised:
        sinkql.compile(LAKE + SINK, path="p.sql")
    assert (raised.value.code, raised.value.path, raised.value.text) == ("SQ2001", "p.sql", LAKE + SINK)


def test_every_stage_is_explained() -> None:
    program = sinkql.compile(PIPELINE)
    for stage in ("raw", "optimized", "physical", "spark-sql"):
        assert [name for name, _ in program.explain(stage)] == [NAME]
    with pytest.raises(SinkqlError) as raised:
        Program.from_json(program.to_json()).explain("raw")
    assert raised.value.code == "SQ4012"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"sinkql": 2, "items": [], "jobs": []}', "CREATE SINK"])
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        Program.from_json(text)
    assert raised.value.code == "SQ4011"


@pytest.mark.parametrize(
    ("listed", "view", "name"),
    [
        ("FUNCTIONS", "SELECT sqrt(counter::double precision) AS x FROM n", "sqrt(double precision)"),
        ("CASTS", "SELECT counter::text AS x FROM n", "bigint → text"),
        ("AGGREGATES", "SELECT max(counter) AS x FROM n", "max"),
    ],
)
def test_program_of_another_meaning_is_refused(
    listed: str, view: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = SINK.replace("FROM n", "FROM v").replace("ENVELOPE NONE", "MODE APPEND")
    program = sinkql.compile(f"{LAKE}{COUNTER}CREATE MATERIALIZED VIEW v AS {view};{sink}").to_json()
    assert Program.from_json(program).to_json() == program
    monkeypatch.setattr(f"sinkql.physical.job.{listed}", {})
    with pytest.raises(SinkqlError, match="compiled for another meaning") as raised:
        Program.from_json(program)
    assert f'"{name}"' in raised.value.message
