"""Object stores of connections → access to a table's files with the keys that hold when a file is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.object_store.store import ObjectStore

CATALOG_NAME = "default"
"""The name of `sql` catalogs: readers must open the database under the same one."""
TOKEN, TOKEN_EXPIRY = "gcs.oauth2.token", "gcs.oauth2.token-expires-at"
KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", TOKEN, TOKEN_EXPIRY)
_OF_CLIENT = ("client.access-key-id", "client.secret-access-key", "client.session-token")
_GIVE_UP = timedelta(minutes=1)
_S3_PATIENCE = {"s3.connect-timeout": "5", "s3.request-timeout": "15"}
"""In seconds."""
_PATIENT = f"{__name__}.PatientFileIO"
_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl")

Ask = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Stores:
    """What a catalog's `files` are reached with, and `signer`, whose keys its requests have; None where nothing is."""

    files: ObjectStore | None = None
    signer: ObjectStore | None = None


def stores_of(
    options: Mapping[str, Any], open_named: Callable[[str], ObjectStore], using: ObjectStore | None
) -> Stores:
    """Return the stores of a planned catalog connection; `using` is the one that the sink names for its files."""
    through = options.get("aws_connection") or options.get("gcp_connection")
    if through is None:
        return Stores(using)
    signer = open_named(through["connection"])
    return Stores(using or signer, signer)


def job_stores(write: physical.Write, context: Context) -> Stores:
    """Return the stores of a job's catalog connection."""
    through = write.connection.through
    using = context.store(write.store) if write.store is not None else None
    return stores_of(write.connection.options, lambda name: context.store(through[name]), using)


class PatientFileIO(PyArrowFileIO):
    """Give stores as long to answer as makes sense.

    Google's Cloud Storage gets a minute: its own library would wait for a quarter of an hour. S3 gets longer than the
    3 seconds of Arrow, in which a store that is slow, and answers, would never be read.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__({**_S3_PATIENCE, **properties})

    def _initialize_gcs_fs(self) -> FileSystem:
        # pyiceberg has no property for it: the file system is made again of what it was made of
        make, (arguments,) = super()._initialize_gcs_fs().__reduce__()
        return make({**arguments, "retry_time_limit": _GIVE_UP})


class AskingFileIO(PatientFileIO):
    """Reach files with keys that are asked for whenever a file is opened: a run may be longer than their life."""

    def __init__(self, properties: Properties, ask: Ask) -> None:
        super().__init__({name: value for name, value in properties.items() if name not in _OF_CLIENT})
        self.ask = ask

    def renew(self) -> None:
        """Take the keys as they are now."""
        now = self.ask()
        if any(self.properties.get(name) != now.get(name) for name in {*now, *KEYS}):
            kept = {name: value for name, value in self.properties.items() if name not in KEYS}
            self.properties = {**kept, **now}
            super().__init__(self.properties)

    def new_input(self, location: str) -> PyArrowFile:
        self.renew()
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        self.renew()
        return super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.renew()
        super().delete(location)


class AskingFiles:
    """Give a catalog's tables the keys of a store; stands before pyiceberg's catalog among the bases of a class."""

    _files: ObjectStore | None

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        if self._files is None:
            io: FileIO = super()._load_file_io(properties, location)  # type: ignore[misc]  # pyiceberg's catalog has it
            return io
        known: Properties = self.properties  # type: ignore[attr-defined]  # and this
        return AskingFileIO({**known, **properties}, self._files.properties)


def storage_properties(io: FileIO) -> dict[str, str]:
    """Return what opens the files of a table elsewhere, with keys as they are now."""
    if isinstance(io, AskingFileIO):
        io.renew()
    found = {name: value for name, value in io.properties.items() if name.startswith(_STORAGE)}
    return {"py-io-impl": _PATIENT, **found} if TOKEN in found else found
