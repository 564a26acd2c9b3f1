"""A `sinkql` that tests fork does what one that an interpreter starts does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.forked import ForkedProcess, can_fork
from support.patience import PATIENCE_S, Deadline

_SCRIPT = """
CREATE TABLE t (id bigint PRIMARY KEY, name text);
INSERT INTO t VALUES (1, 'één'), (2, NULL);
SELECT * FROM t ORDER BY id;
SELECT current_setting('nothing');
"""


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("status",),
        ("exec", "p.sql"),
        ("--output", "json", "exec", "p.sql"),
        ("shell", "-c", "SELECT 1 AS x"),
        ("nothing",),
    ],
)
def test_output_and_exit_code_are_the_same(arguments: tuple[str, ...], tmp_path: Path) -> None:
    results = []
    for name in ("forked", "started"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "p.sql").write_text(_SCRIPT)
        environment = os.environ | {"SINKQL_CATALOG": "other/catalog.db", "COLUMNS": "60"}
        process: ForkedProcess | subprocess.Popen[str]
        if name == "forked":
            process = ForkedProcess(arguments, folder, environment)
        else:
            command = [sys.executable, "-m", "sinkql", *arguments]
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, encoding="utf-8")
        told, errors = process.communicate(timeout=PATIENCE_S)
        results.append((process.returncode, told, errors.replace(str(folder), "here")))
    assert results[0] == results[1]


def test_input_is_read_to_its_end(tmp_path: Path) -> None:
    process = ForkedProcess(("shell",), tmp_path, os.environ, stdin=True)
    told, errors = process.communicate("SELECT 'of the input' AS x;\n", PATIENCE_S)
    assert "of the input" in told, errors


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal_ends_the_process_and_its_number_is_the_exit_code(number: int, tmp_path: Path) -> None:
    process = ForkedProcess(("shell",), tmp_path, os.environ, stdin=True)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == -number
    assert not Path(f"/proc/{process.pid}").exists()


def test_process_is_killed_with_its_last_reference(tmp_path: Path) -> None:
    process = ForkedProcess(("shell",), tmp_path, os.environ, stdin=True)
    pid = process.pid
    del process
    deadline = Deadline()
    while Path(f"/proc/{pid}").exists():
        deadline.check("the end of the process")


def test_variables_that_an_interpreter_reads_need_an_interpreter() -> None:
    assert can_fork(os.environ | {"SINKQL_CATALOG": "x", "PYTHONPATH": "y"})
    assert not can_fork(os.environ | {"PYTHONHASHSEED": "7"})
    assert not can_fork(os.environ | {"LC_ALL": "C"})
