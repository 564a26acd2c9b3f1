"""Spark runs on a machine like a container's: a read-only root, and a user without a name or a home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.nameless import NAMELESS, can_be_nameless
from support.readers import duckdb_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None or not can_be_nameless(), reason="namespaces need root"
    ),
]

_PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 's') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1s');
"""
_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && ! touch /written 2> /dev/null && exec "$@"'
"""A shell script that makes the root read-only except for one folder, and then runs its arguments."""


def test_spark_runs_where_nothing_is_given(tmp_path: Path) -> None:
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    (tmp_path / "temporary").mkdir()
    left_out = ("HOME", "HADOOP_USER_NAME", "SPARK_USER")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # with the user's cache, Spark starts sooner
    here = ("unshare", "-m", "sh", "-c", _READ_ONLY, str(tmp_path), *NAMELESS, "sh", "-c", 'cd "$0" && exec "$@"')
    command = [*here, str(tmp_path), sys.executable, "-m", "sinkql", "exec", "--once", "pipeline.sql"]
    environment["TMPDIR"] = str(tmp_path / "temporary")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(duckdb_folder(tmp_path / "lake" / "n" / "s")) == 10
