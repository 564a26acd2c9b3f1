"""Access a table's files in object stores and local folders.

Each file is opened with the present keys of its store. Exceptions of stores and folders become coded errors, and local
files become durable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sinkql.pandas_import import skip_pandas

skip_pandas()  # pyiceberg would import it

# ruff: noqa: E402  # all that follows comes after it
from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.connectors.iceberg.plan.options import CatalogConnection
from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore
from sinkql.storage import files

CATALOG_NAME = "default"
"""The name of `sql` catalogs, under which readers must open the database."""
TOKEN, TOKEN_EXPIRY = "gcs.oauth2.token", "gcs.oauth2.token-expires-at"
KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", TOKEN, TOKEN_EXPIRY)
_OF_CLIENT = ("client.access-key-id", "client.secret-access-key", "client.session-token")
_GIVE_UP = timedelta(minutes=1)
_S3_PATIENCE = {"s3.connect-timeout": "5", "s3.request-timeout": "15"}
"""In seconds."""
_PATIENT = f"{__name__}.PatientFileIO"
_STORAGE = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl")

RequestKeys = Callable[[], Mapping[str, str]]
"""Returns the present properties of a store, with its keys."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The store of a catalog's files, and the store whose keys sign its requests, if any."""

    files: ObjectStore | None = None
    signer: ObjectStore | None = None

    def for_files(self) -> ObjectStore:
        """Return the store of the files of a catalog that requires one."""
        assert self.files is not None
        return self.files

    def for_requests(self) -> ObjectStore:
        """Return the store whose keys sign the requests to a catalog that requires them."""
        assert self.signer is not None
        return self.signer


def stores_of(
    options: Mapping[str, Any], open_named: Callable[[str], ObjectStore], using: ObjectStore | None
) -> Stores:
    """Return the stores of a planned catalog connection; `using` is the sink's store for its files, if any."""
    catalog = CatalogConnection.from_plan(options)
    through = catalog.aws_connection or catalog.gcp_connection
    if through is None:
        return Stores(using)
    signer = open_named(through.connection)
    return Stores(using or signer, signer)


def job_stores(write: physical.Write, context: Context) -> Stores:
    """Return the stores of a job's catalog connection."""
    through = write.connection.through
    using = context.store(write.store) if write.store is not None else None
    return stores_of(write.connection.options, lambda name: context.store(through[name]), using)


class PatientFileIO(PyArrowFileIO):
    """A file IO with adjusted timeouts.

    Google's Cloud Storage has a minute to answer: its library would wait for a quarter of an hour. S3 has more than the
    3 seconds of Arrow, which are too short for slow stores.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__({**_S3_PATIENCE, **properties})

    def _initialize_gcs_fs(self) -> FileSystem:
        # pyiceberg has no property for it: create the file system again with the same arguments
        make, (arguments,) = super()._initialize_gcs_fs().__reduce__()
        return make({**arguments, "retry_time_limit": _GIVE_UP})


class AskingFileIO(PatientFileIO):
    """A file IO that requests the keys before it opens a file, because keys may expire during a run."""

    def __init__(self, properties: Properties, request_keys: RequestKeys) -> None:
        super().__init__({name: value for name, value in properties.items() if name not in _OF_CLIENT})
        self.request_keys = request_keys

    def renew(self) -> None:
        """Use the present keys."""
        present = self.request_keys()
        if any(self.properties.get(name) != present.get(name) for name in {*present, *KEYS}):
            others = {name: value for name, value in self.properties.items() if name not in KEYS}
            self.properties = {**others, **present}
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
    """A base of catalogs that opens tables with the keys of a store; it comes before pyiceberg's class."""

    _files: ObjectStore | None

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        if self._files is None:
            io: FileIO = super()._load_file_io(properties, location)  # type: ignore[misc]  # pyiceberg's catalog has the method
            return io
        catalog_properties: Properties = self.properties  # type: ignore[attr-defined]  # pyiceberg's catalog has the attribute
        return AskingFileIO({**catalog_properties, **properties}, self._files.properties)


def storage_properties(io: FileIO) -> dict[str, str]:
    """Return the properties that open a table's files in another process, with the present keys."""
    if isinstance(io, AskingFileIO):
        io.renew()
    properties = {name: value for name, value in io.properties.items() if name.startswith(_STORAGE)}
    return {"py-io-impl": _PATIENT, **properties} if TOKEN in properties else properties


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
def storage_errors(table: str) -> Iterator[None]:
    """Convert an object store's exception in the block into a coded error; other exceptions are unchanged."""
    try:
        yield
    except OSError as error:
        cause = f"{type(error).__name__}: {error}"
        if not any(word in cause.lower() for word in ("aws error", _OF_GOOGLE)):
            raise
        raise storage_error(error, f'the storage of table "{table}"', cause) from error


def storage_error(error: OSError, what: str, cause: str) -> SinkqlError:
    """Return the coded error for an exception of a storage, which `what` names."""
    text = cause.lower()
    remote = any(word in text for word in _STORAGE_WORDS)
    google = text.partition(_OF_GOOGLE)[2]
    answer = text.partition("aws error")[2] or google or text  # without paths, which may have any word
    if any(word in google for word in _GOOGLE_DENIED):
        return SinkqlError(
            "SQ4302",
            f"{what} denies access",
            detail=cause,
            hint="Allow the service account of the GCP connection to read and write the bucket's objects. Or use "
            "ACCESS DELEGATION if the catalog vends keys.",
        )
    if remote and any(word in answer for word in _EXPIRED):
        return SinkqlError(
            "SQ4308",
            f"the keys to {what} have expired",
            detail=cause,
            hint="Set a new SESSION TOKEN. Keys of a role, and keys that the catalog vends, are renewed automatically.",
        )
    if remote and _WRONG_KEYS.search(answer):
        return SinkqlError(
            "SQ4302",
            f"{what} rejects the keys",
            detail=cause,
            hint="Check the keys of the sink's AWS connection, or of this machine if the sink has none. "
            "ALTER SECRET changes a secret.",
        )
    if remote and _DENIED.search(answer):
        return SinkqlError(
            "SQ4302",
            f"{what} denies access",
            detail=cause,
            hint="Allow the keys or the role of the sink's AWS connection to read and write the bucket. "
            "Without USING AWS CONNECTION, the sink uses those of its catalog, or of this machine.",
        )
    if remote and _OTHER_REGION.search(answer):
        return SinkqlError(
            "SQ4303",
            f"{what} is in another region",
            detail=cause,
            hint="Set REGION or ENDPOINT in CREATE CONNECTION … TO AWS.",
        )
    if remote and _NO_TRUST.search(answer):
        return SinkqlError(
            "SQ4227",
            f"the certificate of {what} is not trusted",
            detail=cause,
            hint="Set SSL_CERT_FILE and AWS_CA_BUNDLE to the certificate of its authority, or write ENDPOINT with "
            "http:// if it has no TLS.",
        )
    if isinstance(error, PermissionError) or error.errno in (13, 30):
        return not_writable_error(what, cause)
    return SinkqlError(
        "SQ4304",
        f"{what} returned an error",
        detail=cause,
        hint="Check WAREHOUSE, and whether the storage answers and has free space.",
    )


def is_refused(error: Exception) -> bool:
    """Return whether a store refuses or is not trusted, so that a retry would probably fail too."""
    answer = str(error).lower().partition("aws error")[2]
    has_expired = any(word in answer for word in _EXPIRED)  # keys are renewed
    return isinstance(error, OSError) and not has_expired and any(pattern.search(answer) for pattern in _REFUSALS)


def is_untrusted(error: OSError) -> bool:
    """Return whether the certificate of a store is not trusted, which lasts as long as this process."""
    return _NO_TRUST.search(str(error).lower()) is not None


def missing_file_error(table: str, error: FileNotFoundError) -> SinkqlError:
    """Return the error for a table whose metadata or catalog names a missing file."""
    return SinkqlError(
        "SQ3556",
        f'a file of table "{table}" is missing',
        detail=str(error),
        hint="Restore the file. A running sink then continues. If the file is lost, drop the sink and create it again "
        "with a new table.",
    )


def not_writable_error(what: str, cause: str) -> SinkqlError:
    """Return the error for a folder that this user cannot write."""
    return SinkqlError(
        "SQ4301",
        f"{what} cannot be written",
        detail=cause,
        hint="Allow this user to write to the folder. A running sink then continues.",
    )


def local_folder(location: str) -> Path | None:
    """Return the local path of a location; None if it is not local."""
    if location.startswith("file://"):
        return Path(location.removeprefix("file://"))
    if location.startswith("file:/"):  # Hive's form
        return Path(location.removeprefix("file:"))
    return None if "://" in location else Path(location)


def sync(locations: Iterable[str]) -> None:
    """Make the local files among these durable before a commit names them; raises OSError as `files.sync_files` does.

    Files in object stores are durable already.
    """
    files.sync_files(path for path in map(local_folder, locations) if path is not None)
