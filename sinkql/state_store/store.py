"""The state store of a cluster: where the files of sinks' state are durable, in a folder or an object store.

`open_state_store` opens it for one part of STATE, such as the state of one sink.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.object_store.objects import Objects, Purpose
from sinkql.object_store.s3 import SCHEME, S3Credentials
from sinkql.object_store.store import ObjectStore
from sinkql.storage import files

PURPOSE = Purpose(
    "clusters with STATE in S3",
    "STATE",
    "two processes may write one file of a sink's state",
    "Keep the state in a store that has them (If-None-Match and If-Match), such as S3; or create the cluster without "
    "STATE.",
)


class StateStore(Protocol):
    """Files under relative names. Methods raise OSError, and SinkqlError if the store is reached over a network."""

    def put(self, name: str, path: Path) -> None:
        """Store a file durably; raise FileExistsError if another file has the name."""

    def replace(self, name: str, path: Path) -> None:
        """Store a file durably, replacing the present file of that name."""

    def get(self, name: str, file: BinaryIO) -> int | None:
        """Copy a stored file to `file` and return its size; None if it is missing, ValueError if it is damaged."""

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        """Yield the names that begin with `under`, each with its time of storage in seconds since 1970."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete the files of these names that exist."""

    def with_keys(self) -> StateStore:
        """Return the store for a task, with credentials that need no renewal."""

    def sibling(self, part: str) -> StateStore:
        """Return the store of another part of STATE, such as the state of another sink."""


@dataclass(frozen=True, slots=True)
class FolderStateStore:
    """A state store in a folder, such as one that several hosts mount."""

    folder: Path

    def put(self, name: str, path: Path) -> None:
        target = self.folder / name
        try:
            with path.open("rb") as data:
                files.create_new(target, data)
        except FileExistsError:
            if not filecmp.cmp(target, path, shallow=False):
                raise

    def replace(self, name: str, path: Path) -> None:
        with path.open("rb") as data, files.replace_atomic(self.folder / name, mode=0o644) as file:
            shutil.copyfileobj(data, file)

    def get(self, name: str, file: BinaryIO) -> int | None:
        try:
            with (self.folder / name).open("rb") as data:
                shutil.copyfileobj(data, file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return file.tell()

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        # like an object store, which lists keys in order: a folder before its subfolders
        walk = os.walk(self.folder / under)
        paths = [Path(folder, name) for folder, _, names in walk for name in names if not name.startswith(".")]
        for path in sorted(paths):
            with suppress(FileNotFoundError):
                if path.is_file():
                    yield path.relative_to(self.folder).as_posix(), path.stat().st_mtime

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def with_keys(self) -> FolderStateStore:
        return self

    def sibling(self, part: str) -> FolderStateStore:
        return FolderStateStore(self.folder.parent / part)

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True, slots=True)
class ObjectStateStore:
    """A state store in a bucket of S3.

    Each object stores the digest of its content, which `get` checks. Every operation asks `access` for credentials,
    since they may expire.
    """

    bucket: str
    prefix: str
    access: ObjectStore = field(repr=False)

    @property
    def objects(self) -> Objects:
        """Return the bucket's objects, with the current credentials."""
        return Objects.open_bucket(self.bucket, self.access, PURPOSE)

    def put(self, name: str, path: Path) -> None:
        self.objects.upload(f"{self.prefix}{name}", path)

    def replace(self, name: str, path: Path) -> None:
        self.objects.upload(f"{self.prefix}{name}", path, over=True)

    def get(self, name: str, file: BinaryIO) -> int | None:
        return self.objects.download(f"{self.prefix}{name}", file)

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        for key, stored_at in self.objects.list(f"{self.prefix}{under}"):
            yield key.removeprefix(self.prefix), stored_at.timestamp()

    def delete(self, names: Iterable[str]) -> None:
        self.objects.delete(f"{self.prefix}{name}" for name in names)

    def with_keys(self) -> ObjectStateStore:
        return ObjectStateStore(self.bucket, self.prefix, S3Credentials.from_store(self.access))

    def sibling(self, part: str) -> ObjectStateStore:
        parent = self.prefix.rstrip("/").rpartition("/")[0]
        return ObjectStateStore(self.bucket, f"{parent}/{part}/", self.access)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"


def open_state_store(
    state: physical.StatePath, part: str, open_store: Callable[[physical.Connection], ObjectStore]
) -> StateStore:
    """Open the store for one part of STATE, such as the state of one sink, named by its id."""
    path = f"{state.path.rstrip('/')}/{part}"
    if state.connection is None:
        return FolderStateStore(Path(path))
    bucket, _, prefix = path.removeprefix(SCHEME).partition("/")
    return ObjectStateStore(bucket, f"{prefix}/", open_store(state.connection))


def check_state_path(path: str, connection: str | None, open_store: Callable[[str], ObjectStore]) -> None:
    """Raise the error that a sink would meet at STATE: a missing bucket, no access, a folder that is not writable."""
    if connection is None:
        try:
            files.make_folder(Path(path))
            probe = Path(path) / f".try-{new_id()}"
            files.write_atomic(probe, b"")
            probe.unlink()
        except OSError as error:
            raise SinkqlError(
                "SQ2616",
                f'STATE "{path}" is a folder that cannot be written to',
                detail=str(error),
                hint="Name a folder in which the user who runs sinks may make files, or s3://bucket/prefix.",
                option=PURPOSE.option,
            ) from None
        return
    bucket, _, prefix = f"{path.rstrip('/')}/".removeprefix(SCHEME).partition("/")
    Objects.open_bucket(bucket, open_store(connection), PURPOSE).check(prefix)
