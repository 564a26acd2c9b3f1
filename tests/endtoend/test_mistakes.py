"""Mistakes of users: each gives one coded error with its exit code, loses no data, and can be corrected."""

from __future__ import annotations

import http.server
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import run
from support.java import without_package
from support.readers import duckdb_folder

pytestmark = pytest.mark.long

_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
_SOURCE = "CREATE SOURCE s (id bigint, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n"
_SINK = (
    "CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
    "  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');\n"
)


def _exec(folder: Path, text: str, **environment: str) -> tuple[int, str]:
    """Run a script once; return the exit code and the output."""
    (folder / "pipeline.sql").write_text(text)
    done = run("exec", "--once", "pipeline.sql", folder=folder, environment=environment)
    return done.returncode, done.stderr + done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "name": "x"}\n')
    return tmp_path


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("text", "place", "code", "hint"),
    [
        (_LAKE + "CREATE SUORCE s FROM FILES (PATH = 'in') FORMAT JSON;", "2:8", "SQ1001", "SOURCE"),
        (_LAKE + _SOURCE.replace("PATH", "PAHT"), "2:52", "SQ2101", "PATH"),
        (_LAKE + _SOURCE + "CREATE VIEW v AS SELECT nmae FROM s;", "3:25", "SQ2204", "name"),
        (_LAKE + _SOURCE + _SINK.replace("ENVELOPE NONE", "KEY (idd) MODE UPSERT"), "4:8", "SQ2204", "id"),
    ],
)
def test_a_mistake_in_the_text_is_shown_at_its_place(folder: Path, text: str, place: str, code: str, hint: str) -> None:
    exit_code, shown = _exec(folder, text)
    assert exit_code == 1
    assert f"pipeline.sql:{place}: error[{code}]: " in shown
    assert hint in shown.partition("hint: ")[2]
    assert "^" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("arguments", [("exec",), ("exec", "--onse", "pipeline.sql"), ("exce", "pipeline.sql")])
def test_a_wrong_command_line_is_a_usage_error(folder: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, folder=folder)
    assert done.returncode == 64
    assert "Usage: sinkql" in done.stderr


def test_a_script_that_cannot_be_read_is_an_environment_error(folder: Path) -> None:
    done = run("exec", "nothing.sql", folder=folder)
    assert (done.returncode, "error[SQ4010]" in done.stderr) == (4, True)


def test_a_script_that_is_not_utf8_is_an_sql_error(folder: Path) -> None:
    (folder / "pipeline.sql").write_bytes(b"SELECT '\xff';")
    done = run("exec", "pipeline.sql", folder=folder)
    assert (done.returncode, "error[SQ1010]" in done.stderr) == (1, True)


def test_an_unreachable_catalog_is_told_from_a_refusing_one(folder: Path, refusing_catalog: int) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = nobody.getsockname()[1]
        text = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:{}');"
        unreachable = _exec(folder, text.format(closed))
    refused = _exec(folder, text.format(refusing_catalog))
    assert [unreachable[0], refused[0]] == [4, 4]
    codes = [shown.partition("error[")[2][:6] for _, shown in (unreachable, refused)]
    assert all(code.startswith("SQ42") for code in codes)
    assert codes[0] != codes[1]


@pytest.fixture
def refusing_catalog() -> Iterator[int]:
    """Serve a catalog that answers every request with 401; yield its port."""

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def test_an_unwritable_folder_is_an_error_and_mending_it_continues(folder: Path) -> None:
    blocked = folder / "lake"
    blocked.write_text("a file stands where the folder should be")
    exit_code, shown = _exec(folder, _LAKE)
    assert exit_code == 4
    assert "error[SQ43" in shown
    blocked.unlink()
    assert _exec(folder, _LAKE)[0] == 0


@pytest.mark.parametrize(("version", "code"), [(None, "SQ4001"), ("11.0.20", "SQ4002")])
def test_a_missing_or_old_java_is_one_error(folder: Path, version: str | None, code: str) -> None:
    tools = folder / "tools"
    tools.mkdir()
    if version is not None:
        java = tools / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{tools}:/bin" if version else str(tools), "JAVA_HOME": "", **without_package(folder)}
    in_spark = "CREATE CLUSTER c (SIZE = 'local[1]', EXECUTION = SPARK); SET cluster = c;\n"
    exit_code, shown = _exec(folder, in_spark + _LAKE + _SOURCE + _SINK, **environment)
    assert exit_code == 4
    assert f"error[{code}]" in shown
    assert "Java 17" in shown.partition("hint: ")[2]


def test_a_small_pipeline_needs_no_java(folder: Path) -> None:
    (folder / "tools").mkdir()
    environment = {"PATH": str(folder / "tools"), "JAVA_HOME": "", **without_package(folder)}
    exit_code, shown = _exec(folder, _LAKE + _SOURCE + _SINK, **environment)
    assert exit_code == 0
    assert "no Java was found" in shown
    assert duckdb_folder(folder / "lake" / "n" / "t") == [(1, "x")]


def test_no_home_is_needed(folder: Path) -> None:
    assert _exec(folder, _LAKE, HOME=os.devnull)[0] == 0
