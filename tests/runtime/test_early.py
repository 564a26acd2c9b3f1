"""The process of a streaming source says its first word before it imports anything."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import sinkql.runtime.spark.early
from sinkql.runtime.spark import session
from sinkql.runtime.spark.session import SparkSettings
from support.patience import PATIENCE_S, Deadline

_SECRET = "s3cret"
_RUNNER = """
def main(infile, outfile):
    outfile.write(b"runs")
    outfile.flush()
"""


def _package(folder: Path, name: str, text: str) -> None:
    module = folder.joinpath(*name.split("."))
    for parent in module.relative_to(folder).parents[:-1]:
        (folder / parent).mkdir(parents=True, exist_ok=True)
        (folder / parent / "__init__.py").touch()
    module.with_suffix(".py").write_text(text)


def _said(folder: Path, runner: str, module: str = session._SOURCE) -> tuple[bytes, int, bytes, int]:
    """Run the process as Spark does, with a runner of one's own; return what it says, its id, and its exit code."""
    _package(folder, module, runner)
    settings = SparkSettings("local[1]", {}, folder / "spark")
    (folder / "spark" / "conf").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        process = subprocess.Popen(
            [session._python(settings), "-m", module],
            env={
                **os.environ,
                "PYTHONPATH": str(folder),
                "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
                "PYTHON_WORKER_FACTORY_SECRET": _SECRET,
            },
            stderr=subprocess.DEVNULL,
        )
        connection = _accept(server, process)
        connection.settimeout(PATIENCE_S)
        with connection, connection.makefile("rwb") as stream:
            secret = stream.read(struct.unpack("!i", stream.read(4))[0])
            stream.write(struct.pack("!i", 2) + b"ok")
            stream.flush()
            (pid,) = struct.unpack("!i", stream.read(4))
            rest = stream.read()
    assert pid == process.pid
    return secret, pid, rest, process.wait(PATIENCE_S)


def _accept(server: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
    deadline = Deadline()
    while True:
        try:
            return server.accept()[0]
        except TimeoutError:
            assert process.poll() is None, "it ended before it connected"
            deadline.check("a connection")


@pytest.mark.parametrize("module", [session._SOURCE, session._WORKER])
def test_it_connects_and_then_runs_what_it_stands_for(tmp_path: Path, module: str) -> None:
    secret, _, rest, code = _said(tmp_path, _RUNNER, module)
    assert (secret, rest, code) == (_SECRET.encode(), b"runs", 0)


def test_it_connects_before_anything_is_imported(tmp_path: Path) -> None:
    secret, _, rest, code = _said(tmp_path, "raise ImportError('too late')")
    assert (secret, rest, code) == (_SECRET.encode(), b"", 1)


def test_any_other_program_of_spark_is_run_as_it_is(tmp_path: Path) -> None:
    settings = SparkSettings("local[1]", {}, tmp_path)
    (tmp_path / "conf").mkdir()
    ran = subprocess.run(
        [session._python(settings), "-c", "import sys; print(sys.executable, *sys.argv[1:])", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{sys.executable} a b\n"


def test_another_machine_has_no_such_file(tmp_path: Path) -> None:
    assert session._python(SparkSettings("spark://host:7077", {}, tmp_path)) == sys.executable
    assert Path(sinkql.runtime.spark.early.__file__).name == "early.py"
