"""What the parts of a job may use, how they are opened, and what they decode messages with."""

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
    raise LookupError(f"no object store is given for {connection.name}")


def in_folder(owner: str, folder: Path) -> KeyValueStore:
    """Return notes that lie in a folder."""
    return FolderStore(folder)


@dataclass(frozen=True, slots=True)
class MessageDecoding:
    """How a format of messages is decoded: `open` takes the planned options, the columns and the job's context.

    `changes` opens what decodes ENVELOPE DEBEZIUM, and takes all columns of the rows, and the names of those that are
    the key; None where the format has no such envelope.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column], Context], MessageDecoder]
    changes: Callable[[Mapping[str, Any], Sequence[physical.Column], Sequence[str], Context], ChangeDecoder] | None = (
        None
    )


@dataclass(frozen=True, slots=True)
class MessageEncoding:
    """How messages of a format are made: `open` takes the planned options, the columns and the job's context.

    With ENVELOPE DEBEZIUM the columns of values are `before` and `after`, two records. `open` may reach out, as to
    register a schema, and is called again where a job starts again.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column], Context], MessageEncoder]


@dataclass(frozen=True, slots=True)
class Context:
    """What a job's parts may use: a private folder, secrets' values, object stores, the paths that options have.

    `folder` is the sink's own state folder, which tasks do not see where they are `remote`; `secret` returns a secret
    item's value; `store` opens the object store of a connection. `formats` are those that the installed connectors
    decode, by name, `messages` those of messages, and `encodings` those that messages are written in. `state` is where
    what the sink needs elsewhere is kept besides its folder (`sinkql.state_store.directory`). `ticks` are those of the
    catalog's timeline, if they are not in a folder beside; `open_notes` returns the notes of a sink, or of a captured
    source, by its id, and by its folder on this machine. `hash_key` is the catalog's: what rows are hashed with.
    Relative paths of options begin in `project`, the folder that the catalog is of.
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
        """Return where the path is that an option has."""
        return in_project(option, self.project)

    @property
    def notes(self) -> KeyValueStore:
        """Return what those who run the sink and those who ask for something of it leave for each other."""
        return self.open_notes(self.sink_id, self.folder)


class OpenReader(Protocol):
    def __call__(self, read: physical.Read, context: Context) -> Reader:
        """Return the reader of one source of a job."""


class OpenWriter(Protocol):
    def __call__(self, write: physical.Write, context: Context) -> Writer:
        """Return the writer of a job."""
