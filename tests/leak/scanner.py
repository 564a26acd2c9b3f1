"""Find secrets in places where they might leak, in plain text or encoded."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.patience import PATIENCE_S
from support.readers import connect

Place = tuple[str, bytes]
"""The name and the content of a place."""

_MAGIC_GZIP, _MAGIC_ZSTD, _MAGIC_PARQUET, _MAGIC_AVRO = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"Obj\x01"


@dataclass(frozen=True)
class Canary:
    """A secret to search for; quoting, escaping and URL encoding do not change its `core`."""

    kind: str
    core: str

    @property
    def text(self) -> str:
        return f'+/"\\{self.core}'

    @cached_property
    def forms(self) -> dict[str, bytes]:
        """Return the encoded forms to search for: plain, UTF-16, hexadecimal, and base64 at each of three offsets."""
        core = self.core.encode()
        found = {
            "plain": core,
            "utf-16": self.core.encode("utf-16-le"),
            "hex": core.hex().encode(),
            "HEX": core.hex().upper().encode(),
        }
        for shift in range(3):
            # characters at both ends that also encode neighbouring bytes are left out
            whole = base64.b64encode(b"\0" * shift + core)
            inner = whole[-(-shift * 8 // 6) : (shift + len(core)) * 8 // 6]
            found[f"base64+{shift}"] = inner
            found[f"base64url+{shift}"] = inner.translate(bytes.maketrans(b"+/", b"-_"))
        return found


def canary(kind: str) -> Canary:
    """Return the secret of a kind: the same one in each process of a test run."""
    return Canary(kind, f"cnry{kind}{hashlib.sha256(kind.encode()).hexdigest()[:16]}")


def hits(places: Iterable[Place], canaries: Iterable[Canary]) -> list[tuple[str, str, str]]:
    """Return the places in which canaries appear, with the kind of canary and the form."""
    looked_for = [(each.kind, form, what) for each in canaries for form, what in each.forms.items()]
    return [
        (where, kind, form)
        for where, found in places
        for text in _readings(found)
        for kind, form, what in looked_for
        if what in text
    ]


def _readings(found: bytes) -> Iterator[bytes]:
    """Yield the bytes, and their uncompressed or decoded content."""
    yield found
    if found.startswith(_MAGIC_GZIP):
        yield gzip.decompress(found)
    elif found.startswith(_MAGIC_ZSTD):
        yield pa.input_stream(io.BytesIO(found), compression="zstd").read()
    elif found.startswith(_MAGIC_PARQUET):
        table = pq.read_table(io.BytesIO(found))
        yield f"{table.to_pylist()}{table.schema.metadata}{pq.read_metadata(io.BytesIO(found)).metadata}".encode()
    elif found.startswith(_MAGIC_AVRO):
        yield _avro(found)


def _avro(found: bytes) -> bytes:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".avro") as file, connect() as connection:
        file.write(found)
        file.flush()
        return repr(connection.execute(f"SELECT * FROM read_avro('{file.name}')").fetchall()).encode()


# --- places ----------------------------------------------------------------------------------------------------------


def text_of(where: str, *texts: object) -> Iterator[Place]:
    """Yield texts that a program printed or returned."""
    for each in texts:
        yield where, str(each).encode()


def files_in(folder: Path, *, but: Iterable[Path] = ()) -> Iterator[Place]:
    """Yield all files below a folder, and their names; `but` are files with secrets of the user."""
    left_out = set(but)
    for path in sorted(folder.rglob("*")):
        yield f"name of {path}", str(path).encode()
        if path.is_file() and path not in left_out:
            yield str(path), path.read_bytes()


def processes_of(root: int) -> Iterator[Place]:
    """Yield the arguments and the environment of a process and all its descendants."""
    for pid in (root, *_descendants(root)):
        for name in ("cmdline", "environ"):
            try:
                yield f"{name} of process {pid}", Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue  # it has just ended


def _descendants(root: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for parent in found:
        found += [pid for pid, its in parents.items() if its == parent]
    return found[1:]


def pages_of(address: str, *paths: str) -> Iterator[Place]:
    """Yield pages of a web server."""
    for path in paths:
        with urllib.request.urlopen(f"{address}{path}", timeout=PATIENCE_S) as reply:
            yield f"page {path}", reply.read()


def objects_of(filesystem: Any, folder: str) -> Iterator[Place]:  # pyarrow has no types
    """Yield all objects below a folder of an object store."""
    from pyarrow.fs import FileSelector, FileType

    for each in filesystem.get_file_info(FileSelector(folder, recursive=True)):
        yield f"name of {each.path}", each.path.encode()
        if each.type == FileType.File:
            with filesystem.open_input_stream(each.path) as stream:
                yield each.path, stream.read()
