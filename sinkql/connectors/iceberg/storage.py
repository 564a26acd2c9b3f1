"""Object stores of connections → access to a table's files with the keys that hold when a file is opened.

An exception of an object store, or of a folder → one coded error with its cause and what to do.

Locations of files on this machine: which ones are, and how what was written there becomes durable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore
from sinkql.storage import files

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


_EXPIRED = ("expiredtoken", "token has expired", "requestexpired", "token is expired")
_WRONG_KEYS = re.compile(r"invalid_access_key|invalidaccesskey|signature")
_DENIED = re.compile(r"access[_ ]denied|forbidden|\bhttp (?:status )?403\b")
_OTHER_REGION = re.compile(r"\bhttp (?:status )?301\b|permanentredirect|configured region|authorizationheadermalformed")
_NO_TRUST = re.compile(r"curlcode: (?:35|60)\b")
_REFUSALS = (_WRONG_KEYS, _DENIED, _NO_TRUST)
_STORAGE_WORDS = ("aws error", "s3", "bucket", "curl", "google::cloud")
_OF_GOOGLE = "google::cloud::status"
_GOOGLE_DENIED = ("permission_denied", "unauthenticated")


@contextmanager
def storing(table: str) -> Iterator[None]:
    """Turn what an object store raises in the block into one coded error; others go on as they are."""
    try:
        yield
    except OSError as error:
        cause = f"{type(error).__name__}: {error}"
        if not any(word in cause.lower() for word in ("aws error", _OF_GOOGLE)):
            raise
        raise of_storage(error, f'the storage of table "{table}"', cause) from error


def of_storage(error: OSError, what: str, cause: str) -> SinkqlError:
    """Return the error to show for what a storage raised; `what` names it."""
    text = cause.lower()
    remote = any(word in text for word in _STORAGE_WORDS)
    google = text.partition(_OF_GOOGLE)[2]
    said = text.partition("aws error")[2] or google or text  # without the paths before it, which may have any word
    if any(word in google for word in _GOOGLE_DENIED):
        return SinkqlError(
            "SQ4302",
            f"{what} denies access",
            detail=cause,
            hint="Let the service account of the GCP connection read and write the bucket's objects, or use "
            "ACCESS DELEGATION where the catalog gives keys.",
        )
    if remote and any(word in said for word in _EXPIRED):
        return SinkqlError(
            "SQ4308",
            f"the keys to {what} have expired",
            detail=cause,
            hint="A role, or keys that the catalog gives, are renewed by themselves; a SESSION TOKEN is not.",
        )
    if remote and _WRONG_KEYS.search(said):
        return SinkqlError(
            "SQ4302",
            f"{what} rejects the keys",
            detail=cause,
            hint="Check the keys of the AWS connection that the sink uses, or of this machine if it uses none; "
            "ALTER SECRET changes one.",
        )
    if remote and _DENIED.search(said):
        return SinkqlError(
            "SQ4302",
            f"{what} denies access",
            detail=cause,
            hint="Allow the keys or the role of the AWS connection that the sink uses to read and write the bucket. "
            "Without USING AWS CONNECTION they are those of its catalog, or of this machine.",
        )
    if remote and _OTHER_REGION.search(said):
        return SinkqlError(
            "SQ4303",
            f"{what} is in another region",
            detail=cause,
            hint="Set REGION, or ENDPOINT, in CREATE CONNECTION … TO AWS.",
        )
    if remote and _NO_TRUST.search(said):
        return SinkqlError(
            "SQ4227",
            f"the certificate of {what} is not trusted",
            detail=cause,
            hint="Set SSL_CERT_FILE, and AWS_CA_BUNDLE, to the certificate of its authority, or write ENDPOINT with "
            "http:// if it speaks no TLS.",
        )
    if isinstance(error, PermissionError) or error.errno in (13, 30):
        return closed(what, cause)
    return SinkqlError(
        "SQ4304",
        f"{what} fails",
        detail=cause,
        hint="Check WAREHOUSE, and that the storage answers and has room.",
    )


def refused(error: Exception) -> bool:
    """Tell whether a store refuses, or is not trusted, so that the same request hardly succeeds a little later."""
    said = str(error).lower().partition("aws error")[2]
    expired = any(word in said for word in _EXPIRED)  # keys are renewed
    return isinstance(error, OSError) and not expired and any(each.search(said) for each in _REFUSALS)


def untrusted(error: OSError) -> bool:
    """Tell whether the certificate of a store is not trusted: it will not be as long as this process runs."""
    return _NO_TRUST.search(str(error).lower()) is not None


def missing(table: str, error: FileNotFoundError) -> SinkqlError:
    """Return the error for a table of which a file is missing that its metadata, or its catalog, names."""
    return SinkqlError(
        "SQ3556",
        f'a file of table "{table}" is missing',
        detail=str(error),
        hint="Restore the file: a running sink goes on by itself. If it is lost for good, drop the sink and create "
        "it again, into a new table.",
    )


def closed(what: str, cause: str) -> SinkqlError:
    """Return the error for a folder that this user may not write."""
    return SinkqlError(
        "SQ4301",
        f"{what} cannot be written",
        detail=cause,
        hint="Give this user the right to write there. A running sink goes on by itself.",
    )


def local_folder(location: str) -> Path | None:
    """Return the local folder of a location, None if it is elsewhere."""
    if location.startswith("file://"):
        return Path(location.removeprefix("file://"))
    if location.startswith("file:/"):  # as Hive writes it
        return Path(location.removeprefix("file:"))
    return None if "://" in location else Path(location)


def sync(locations: Iterable[str]) -> None:
    """Make the local files among these durable, before anything names them; raises OSError as `durable.settle` does.

    An object store has made durable what it has answered.
    """
    files.sync_files(path for path in map(local_folder, locations) if path is not None)
