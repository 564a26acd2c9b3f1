"""The scanner finds a planted secret in each kind of place and in each encoded form."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from leak.scanner import Canary, canary, files_in, hits, objects_of, pages_of, processes_of, text_of
from support.patience import PATIENCE_S

pytestmark = pytest.mark.long

_CANARY = canary("planted")
_OTHER = canary("other")
_CONF = {"credential": _CANARY.text}


def _base64(shift: int) -> str:
    return base64.b64encode(b"x" * shift + _CANARY.text.encode() + b"yz").decode()


@pytest.mark.parametrize(
    "shown",
    [
        _CANARY.text,
        f"before {_CANARY.core} after",
        json.dumps(_CONF),
        json.dumps(json.dumps(_CONF)),
        repr(_CONF),
        urllib.parse.quote(_CANARY.text, safe=""),
        urllib.parse.urlencode(_CONF),
        _CANARY.text.encode().hex(),
        _CANARY.text.encode().hex().upper(),
        *(_base64(shift) for shift in range(6)),
        base64.urlsafe_b64encode(_CANARY.text.encode()).decode(),
    ],
)
def test_secret_is_found_in_each_guise(shown: str) -> None:
    found = hits(text_of("stdout", shown), [_CANARY, _OTHER])
    assert {(where, kind) for where, kind, _ in found} == {("stdout", "planted")}


@pytest.mark.parametrize("core", ["cnry" + "~?" * 9, "cnry" + "ÿþ" * 8])
def test_base64_of_any_characters_is_found(core: str) -> None:
    other = Canary("other", core)
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            shown = encode(b"x" * shift + core.encode() + b"y")
            assert hits([("there", shown)], [other])


def _parquet(path: Path, value: str, metadata: str) -> None:
    table = pa.table({"a": [value] * 3}).replace_schema_metadata({"m": metadata})
    pq.write_table(table, path, compression="zstd")


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (?)", (_CANARY.text,))


def _zstd(path: Path) -> None:
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(_CANARY.text.encode() * 3)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text(_CANARY.text),
        lambda path: path.write_bytes(pickle.dumps(_CONF)),
        lambda path: path.write_bytes(gzip.compress(_CANARY.text.encode() * 3)),
        lambda path: path.write_bytes(_CANARY.text.encode("utf-16")),
        lambda path: (path / _CANARY.core).mkdir(parents=True),
        _zstd,
        _sqlite,
        lambda path: _parquet(path, _CANARY.text, "nothing"),
        lambda path: _parquet(path, "nothing", _CANARY.text),
    ],
)
def test_secret_in_a_file_is_found(tmp_path: Path, write: Callable[[Path], object]) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "file")
    assert {kind for _, kind, _ in hits(files_in(tmp_path), [_CANARY, _OTHER])} == {"planted"}
    found = hits(objects_of(pyarrow.fs.LocalFileSystem(), str(tmp_path)), [_CANARY, _OTHER])
    assert {kind for _, kind, _ in found} == {"planted"}


def test_secret_in_an_avro_file_is_found(tmp_path: Path) -> None:
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import NestedField, StringType

    schema = Schema(NestedField(1, "a", StringType(), required=True))
    target = PyArrowFileIO().new_output(str(tmp_path / "manifest.avro"))
    with AvroOutputFile[Record](target, schema, "manifest_entry") as output:
        output.write_block([Record(_CANARY.text)])
    assert {kind for _, kind, _ in hits(files_in(tmp_path), [_CANARY, _OTHER])} == {"planted"}


@pytest.mark.parametrize(
    ("arguments", "environment"), [([_CANARY.text], {}), ([], {"SET": _CANARY.text}), ([], {"SET": _base64(1)})]
)
def test_secret_of_a_process_is_found(arguments: list[str], environment: dict[str, str]) -> None:
    waits = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(0, flush=True); input()', *sys.argv[1:]])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", waits, *arguments],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    found = hits(processes_of(os.getpid()), [_CANARY])
    process.communicate(b"\n", PATIENCE_S)
    assert len({where for where, _, _ in found}) == 2


def test_secret_on_a_page_is_found() -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            self.send_response(200)
            self.end_headers()
            self.wfile.write(_CANARY.text.encode() if self.path == "/environment/" else b"nothing")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as above
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = pages_of(f"http://127.0.0.1:{server.server_port}", "/jobs/", "/environment/")
    assert hits(pages, [_CANARY]) == [("page /environment/", "planted", "plain")]
    server.shutdown()
    server.server_close()


def test_what_holds_none_gives_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(_OTHER.text)
    (tmp_path / "put").write_text(_CANARY.text)
    assert hits(files_in(tmp_path, but=[tmp_path / "put"]), [_CANARY]) == []
