"""Commands import only the modules they need, because imports take most of the time of a short command."""

from __future__ import annotations

import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from sinkql.session import Session

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE MATERIALIZED VIEW v AS SELECT counter + 1 AS c FROM n;
CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""
_NEVER = {"sqlalchemy", "alembic", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark", "py4j", "boto3", "asyncio"}
_FOR_SESSIONS = {"sinkql.session", "sinkql.catalog.catalog", "sinkql.ast", "sinkql.parser.read.tree"}
_FOR_QUERIES, _FOR_STATEMENTS, _FOR_TABLES = {"sqlglot"}, {"sinkql.parser.script"}, {"rich"}
_FOR_MISTAKES = {"lark", "tomllib", "sinkql.parser.hint.syntax_error"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    with chdir(folder), Session() as session:
        session.execute(_ITEMS)
    (folder / "show.sql").write_text("SHOW SINKS; SHOW OBJECTS;")
    return folder


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", _FOR_SESSIONS | _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("help SQ2204", _FOR_SESSIONS | _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("help lag", _FOR_SESSIONS | _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("--output json status", _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("status", _FOR_QUERIES | _FOR_STATEMENTS),
        ("stop s", _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("start s", _FOR_QUERIES | _FOR_STATEMENTS | _FOR_TABLES),
        ("--output json exec show.sql", _FOR_QUERIES | _FOR_TABLES | _FOR_MISTAKES),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_command_imports_only_what_it_needs(project: Path, command: str, unwanted: set[str]) -> None:
    program = (
        "import sys; from sinkql.cli.main import run_command; code = run_command(sys.argv[1:]);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    python = [sys.executable, "-c", program, *command.split()]
    done = subprocess.run(python, cwd=project, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.splitlines())
    assert "sinkql.cli.main" in loaded
    assert set() == loaded & (_NEVER | unwanted)
