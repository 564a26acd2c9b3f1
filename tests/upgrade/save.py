"""Save the files of a version for the upgrade tests of later versions: cd tests; python -m upgrade.save VERSION.

An archive has the project's folder below `project`, the objects of the bucket below `objects`, and `glue.json` with
the address of the server, and the database and the tables of Glue.
"""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from support.port import held_ports
from upgrade.pipeline import BUCKET, NAMESPACE, Store, opened, stored

SAVED = Path(__file__).with_name("saved")
STEPS = 3
"""The steps of input that all jobs of an archive have read; captures and views have read one more."""
_CATALOG = ".sinkql/catalog.db"
_GLUE = "glue.json"
"""The last file of an archive."""
_TABLE = ("Name", "TableType", "Parameters", "StorageDescriptor", "Description", "Owner", "PartitionKeys")


def save(path: Path) -> None:
    """Run the pipeline with the input of the first steps, and write the archive."""
    with tempfile.TemporaryDirectory() as name, stored() as store, held_ports(1) as (port,):
        folder = Path(name)
        store.create()
        with opened(folder, store, port) as pipeline:
            pipeline.create()
            for step in range(1, STEPS + 1):
                pipeline.step(step)
            pipeline.step(STEPS + 1, ahead=True)
        for file in folder.rglob("*.db"):
            with closing(sqlite3.connect(file)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _pack(path, folder, store)


def restore(path: Path, folder: Path, store: Store) -> None:
    """Restore an archive: the project into a folder, all else into an empty server of this process."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    store.create()
    objects, glue = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], store.client("glue")  # hundreds of requests would take long
    with tarfile.open(path) as archive:
        for member in archive:
            place, _, rest = member.name.partition("/")
            found = archive.extractfile(member)
            assert found is not None, member.name
            if place == "project":
                _write(folder / rest, member.mode, found.read())
            elif place == "objects":
                objects.put_object(BUCKET, rest, found.read())
            else:
                address, database, tables = json.load(found)
                _redirect(folder / _CATALOG, address, store.address)
                glue.create_database(DatabaseInput=database)
                for table in tables:
                    glue.create_table(DatabaseName=NAMESPACE, TableInput=table)


def _redirect(catalog: Path, before: str, after: str) -> None:
    """Redirect a catalog's connection to another server; users cannot change an ENDPOINT, since their data stays."""
    with closing(sqlite3.connect(catalog)) as database, database:
        for column in ("create_sql", "redacted_sql", "details"):
            database.execute(f"UPDATE items SET {column} = replace({column}, ?, ?)", (before, after))


def _write(path: Path, mode: int, data: bytes) -> None:
    """Write a file of a project; only the owner can enter its folders."""
    for folder in reversed(path.parents):
        folder.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _pack(path: Path, folder: Path, store: Store) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:xz") as archive:
        for name, mode, data in sorted(_files(folder, store), key=lambda file: (file[0] == _GLUE, file[0])):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))


def _files(folder: Path, store: Store) -> Iterator[tuple[str, int, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith(("-wal", "-shm")):
            yield f"project/{path.relative_to(folder)}", path.stat().st_mode & 0o777, path.read_bytes()
    client = store.client("s3")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in page.get("Contents", ()):
            yield f"objects/{each['Key']}", 0o644, client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
    yield _GLUE, 0o644, json.dumps(_glue(store), indent=1, sort_keys=True).encode()


def _glue(store: Store) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    client = store.client("glue")
    database = client.get_database(Name=NAMESPACE)["Database"]
    kept = {name: database[name] for name in ("Name", "Description", "LocationUri", "Parameters") if name in database}
    tables = client.get_tables(DatabaseName=NAMESPACE)["TableList"]
    return store.address, kept, [{name: table[name] for name in _TABLE if name in table} for table in tables]


if __name__ == "__main__":
    save(SAVED / f"{sys.argv[1]}.tar.xz")
