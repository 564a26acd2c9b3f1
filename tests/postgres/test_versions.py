"""Servers of older versions are read like the newest version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.postgres_versions import VERSIONS

pytestmark = [pytest.mark.server, pytest.mark.soak]
_HERE = Path(__file__).parent
_FOLDER = _HERE.parents[1] / ".postgres"
_FILES = ("stream", "chunk", "watch", "trouble", "captured", "altered", "vectors", "protocol", "tables", "source")
_LACKS = {
    # no row filters, no publications of schemas; changes that no table captures arrive as transactions without rows
    14: (
        "test_chunk.py::test_a_row_filter_holds_for_the_first_snapshot_too",
        "test_watch.py::test_a_table_that_is_not_sent_any_more_is_told[a filter]",
        "test_watch.py::test_a_table_that_is_not_sent_any_more_is_told[another schema]",
        "test_stream.py::test_a_stop_before_a_transaction_that_comes_in_parts_is_told",
        "test_tables.py::test_tables_of_all_kinds_follow_the_server",
        "test_source.py",
    ),
}
"""Tests of features that a version does not have."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_of_this_version_is_read(version: int) -> None:
    files = [str(_HERE / f"test_{name}.py") for name in _FILES]
    lacks = [part for each in _LACKS.get(version, ()) for part in ("--deselect", f"tests/postgres/{each}")]
    environment = {**os.environ, "POSTGRES_BINARIES": str(_FOLDER / str(version) / "bin")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not soak", *files, *lacks]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=_HERE.parents[1])
    assert done.returncode == 0, done.stdout[-4000:]
