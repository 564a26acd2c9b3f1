"""A pipeline that is run from two folders: the same table, and nothing is made where it is only run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import run
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT JSON;
CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


def _folder(path: Path, name: str) -> Path:
    (path / "in").mkdir(parents=True)
    (path / "in" / "1.json").write_text(f'{{"id": 1, "name": "of {name}"}}\n')
    return path


def test_a_pipeline_is_the_same_from_wherever_it_is_run(tmp_path: Path) -> None:
    project, elsewhere = _folder(tmp_path / "project", "the project"), _folder(tmp_path / "elsewhere", "another")
    (project / "a.sql").write_text(_SCRIPT)
    first = run("--catalog", "../project/.sinkql/catalog.db", "exec", "--once", "../project/a.sql", folder=elsewhere)
    assert first.returncode == 0, first.stderr
    (project / "in" / "2.json").write_text('{"id": 2, "name": "more of the project"}\n')
    second = run("exec", "--once", "a.sql", folder=project)
    assert second.returncode == 0, second.stderr
    assert duckdb_folder(project / "lake" / "n" / "t") == [(1, "of the project"), (2, "more of the project")]
    assert sorted(each.relative_to(elsewhere).as_posix() for each in elsewhere.rglob("*")) == ["in", "in/1.json"]
    assert sorted(each.name for each in project.iterdir()) == [".sinkql", "a.sql", "in", "lake"]
