"""Define how readers and writers are opened, and what they may use: folders, secrets, stores and formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sinkql import physical
from sinkql.connector_api.stream.decoding import ChangeDecoder, Decoding, MessageDecoder, MessageEncoder
from sinkql.connector_api.stream.reader import Reader
from sinkql.connector_api.stream.writer import Writer
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.local_path import in_project
from sinkql.object_store.store import ObjectStore
from sinkql.storage.key_value import FolderStore, KeyValueStore
from sinkql.storage.numbered_log import NumberedLog

OpenNotes = Callable[[str, Path], KeyValueStore]


def _no_store(connection: physical.Connection) -> ObjectStore:
    raise LookupError(f"no object store for {connection.name}")


def in_folder(owner: str, folder: Path) -> KeyValueStore:
    """Return a key-value store in a folder."""
    return FolderStore(folder)


@dataclass(frozen=True, slots=True)
class MessageDecoding:
    """How a message format is decoded: `open` receives the planned options, the columns and the job's context.

    `changes` opens the decoder for ENVELOPE DEBEZIUM. It also receives the names of the key columns. None if the format
    cannot have the envelope.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column], Context], MessageDecoder]
    changes: Callable[[Mapping[str, Any], Sequence[physical.Column], Sequence[str], Context], ChangeDecoder] | None = (
        None
    )


@dataclass(frozen=True, slots=True)
class MessageEncoding:
    """How a message format is encoded: `open` receives the planned options, the columns and the job's context.

    With ENVELOPE DEBEZIUM, the columns of a value are the records `before` and `after`. `open` may call servers, for
    example to register a schema. Each start of a job calls it.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column], Context], MessageEncoder]


@dataclass(frozen=True, slots=True)
class Context:
    """What the readers and the writer of a job may use.

    * `folder` is the sink's state folder. Tasks cannot see it if they are `remote`.
    * `secret` returns the value of a secret item. `store` opens the object store of a connection.
    * `formats`, `messages` and `encodings` are the installed formats by name: of files, of messages to read, and of
      messages to write.
    * `state` is the path of the cluster's state store (`sinkql.state_store.directory`); None without one.
    * `ticks` are the ticks of the timeline in the catalog; None if they are in a folder.
    * `open_notes` opens the key-value store of a sink or a captured source, by its id and its folder on this machine.
    * `hash_key` is the catalog's key for the hashes of rows.
    * `project` is the folder in which relative paths of options begin.
    """

    sink: str
    sink_id: str
    folder: Path
    secret: Callable[[str], str]
    store: Callable[[physical.Connection], ObjectStore] = _no_store
    formats: Mapping[str, Decoding] = field(default_factory=dict)
    messages: Mapping[str, MessageDecoding] = field(default_factory=dict)
    encodings: Mapping[str, MessageEncoding] = field(default_factory=dict)
    state: physical.StatePath | None = None
    remote: bool = False
    ticks: NumberedLog | None = None
    open_notes: OpenNotes = in_folder
    hash_key: HashKey = PUBLIC_KEY
    project: Path = field(default_factory=Path.cwd)

    def path(self, option: str) -> Path:
        """Return the path that an option names; a relative one begins in the project."""
        return in_project(option, self.project)

    @property
    def notes(self) -> KeyValueStore:
        """Return the store of messages between the process that runs the sink and others."""
        return self.open_notes(self.sink_id, self.folder)


class OpenReader(Protocol):
    def __call__(self, read: physical.Read, context: Context) -> Reader:
        """Return the reader of one source of a job."""


class OpenWriter(Protocol):
    def __call__(self, write: physical.Write, context: Context) -> Writer:
        """Return the writer of a job."""
