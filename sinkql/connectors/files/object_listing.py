"""List the objects of S3 below a prefix, find new ones at each listing, and read the bytes of listed objects.

An object is identified by its name and its etag. Each request for its bytes names the etag, so that the store refuses
to send an object that was overwritten. boto3 sends the requests; pages of listings are parsed here, in a twentieth of
its time.
"""

from __future__ import annotations

import fnmatch
import io
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import unescape
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import unquote_plus

import xxhash

from sinkql.connectors.files.content import SeenFile, SoughtStream, changed
from sinkql.errors import GoneError, SinkqlError
from sinkql.machine import clock
from sinkql.object_store.s3 import SCHEME, S3Credentials, code_of, no_s3, s3_client, s3_failure
from sinkql.object_store.store import ObjectStore

_WHO = "files on AWS connections"
_BUFFER = 1 << 20
_PAGE = 1000
_FRESH_S = 60.0
_GONE = ("NoSuchKey", "404", "NotFound")
_OVERWRITTEN = ("PreconditionFailed", "412")
_ALONE = "./"


Entry = tuple[str, str, str]
"""An object's name, its etag, and its XML element: few entries of a listing are new, and only those are parsed."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The objects of one source; names that begin with . or _ are not read.

    `prefix` is that of a folder, or the key of a single object. The name of a single object is `./` and its key, since
    no name in a folder begins with a dot. A bucket is pickled into tasks with the present credentials.
    """

    name: str
    prefix: str
    pattern: str
    recursive: bool
    store: ObjectStore = field(repr=False)
    _client: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    """At most one client, made on first use."""

    @classmethod
    def of(cls, path: str, pattern: str, recursive: bool, store: ObjectStore) -> Bucket:  # as in Folder
        """Return the bucket of a path."""
        name, _, prefix = path.removeprefix(SCHEME).partition("/")
        return cls(name, prefix, pattern, recursive, store)

    def __reduce__(self) -> tuple[type[Bucket], tuple[Any, ...]]:
        return Bucket, (self.name, self.prefix, self.pattern, self.recursive, S3Credentials.from_store(self.store))

    @property
    def pinned(self) -> bool:
        """Return True: an object is opened only as it was listed."""
        return True

    def shown(self, name: str) -> str:
        """Return the name of an object in messages."""
        return f"{SCHEME}{self.name}/{self._key(name)}"

    def open(self, file: SeenFile) -> BinaryIO:
        """Open an object; reading raises SQ3301 if it was overwritten, SQ3302 if it is gone, and S3's errors."""
        return io.BufferedReader(_Object(lambda begin, end: self._bytes(file, begin, end), file.size), _BUFFER)

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return the object: while it is open, it is as it was listed."""
        return file

    def difference(self, file: SeenFile) -> str | None:
        """Return the listed etag: the store refuses the request without further detail."""
        return f"Its etag was {file.etag}." if file.etag else None

    def list(self) -> Iterator[Entry]:
        """Yield the objects; raise the errors of `pages`."""
        for _, entries in self.pages():
            yield from entries

    def pages(
        self, listed: Container[str] = (), same: Container[bytes] = ()
    ) -> Iterator[tuple[bytes, Sequence[Entry]]]:
        """Yield the objects of each page with its digest; raise SQ3307, SQ3308 and errors of the connection.

        `listed` has names of objects that were listed before. Pages whose digest is among the `same` are not parsed:
        they are yielded without objects.
        """
        folder = self._folder
        matches, has_objects = re.compile(fnmatch.translate(self.pattern)).match, False
        for page in self._pages(folder):
            has_objects = has_objects or page.xml != b""
            entries: list[Entry] = []
            for key, etag, xml in page.rows() if page.digest not in same else ():
                name = key[len(folder) :]
                if name in listed or (_is_visible(name, recursive=self.recursive) and matches(name.rpartition("/")[2])):
                    entries.append((name, etag, xml))
            yield page.digest, entries
        if not has_objects and folder != self.prefix:
            for page in self._pages(self.prefix, only=True):
                yield (
                    page.digest,
                    [(f"{_ALONE}{key}", etag, xml) for key, etag, xml in page.rows() if key == self.prefix],
                )

    def first(self, count: int) -> Sequence[SeenFile]:
        """Return the first `count` objects by name, or all if there are fewer; raise the errors of `pages`."""
        return sorted((listed_object(*entry) for entry in islice(self.list(), count)), key=lambda file: file.name)

    def _pages(self, prefix: str, *, only: bool = False) -> Iterator[_Page]:
        """Yield the pages of the objects under a prefix; `only` the first one."""
        request: dict[str, Any] = {"Bucket": self.name, "Prefix": prefix, "MaxKeys": _PAGE}
        if not self.recursive or only:
            request["Delimiter"] = "/"
        while True:
            try:
                page = self._open_client().list_objects_v2(**request)
            except Exception as error:
                raise self._failure(error) from None
            yield page["Page"]
            token = page.get("NextContinuationToken")
            if not token or only:
                return
            request["ContinuationToken"] = token

    @property
    def _folder(self) -> str:
        """Return the prefix of the keys of a folder."""
        return self.prefix if not self.prefix or self.prefix.endswith("/") else f"{self.prefix}/"

    def _key(self, name: str) -> str:
        return name.removeprefix(_ALONE) if name.startswith(_ALONE) else f"{self._folder}{name}"

    def _bytes(self, file: SeenFile, begin: int, end: int) -> bytes:
        request = {"Key": self._key(file.name), "Range": f"bytes={begin}-{end - 1}", "IfMatch": f'"{file.etag}"'}
        try:
            reply = self._open_client().get_object(Bucket=self.name, **request)
            data: bytes = reply["Body"].read()
        except Exception as error:
            code = code_of(error)
            if code in _OVERWRITTEN:
                raise changed(self, file) from None
            if code in _GONE:
                raise GoneError(
                    "SQ3302",
                    f'file "{self.shown(file.name)}" was removed but must be read',
                    hint="Restore the file; the sink then continues.",
                ) from None
            raise self._failure(error) from None
        if reply["ETag"].strip('"') != file.etag or len(data) != end - begin:
            raise changed(self, file)
        return data

    def _open_client(self) -> Any:  # boto3 has no types
        if not self._client:
            self._client.append(_client(self.store))
        return self._client[0]

    def _failure(self, error: Exception) -> SinkqlError:
        allow = "s3:ListBucket on the bucket, and s3:GetObject on its objects"
        return s3_failure(error, self.name, self.store, allow=allow, option="PATH")


def listed_object(name: str, etag: str, xml: str) -> SeenFile:
    """Return the object of an entry."""
    written = datetime.fromisoformat(_between(xml, "<LastModified>"))
    return SeenFile(name, int(_between(xml, "<Size>")), int(written.timestamp() * 1e9), 0, 0, (), etag)


class BucketWatch:
    """The state of one source's bucket from listing to listing: pages that did not change are not parsed again."""

    def __init__(self, folder: Bucket) -> None:
        self.folder = folder
        self._seen: Mapping[str, SeenFile] = {}
        self._same_pages: set[bytes] = set()
        self._waiting: dict[str, int] = {}
        self._at = -_FRESH_S
        self.unread = 0
        """The number of objects that `oldest` counted."""

    def __reduce__(self) -> tuple[type[BucketWatch], tuple[Bucket]]:
        return BucketWatch, (self.folder,)

    def new(self, seen: Mapping[str, SeenFile], *, settled: bool) -> list[SeenFile]:
        """Return the new objects by name; raise SQ3301 if one was overwritten."""
        if seen is not self._seen:
            self._seen, self._same_pages = seen, set()
        files: list[SeenFile] = []
        same: set[bytes] = set()
        for page, entries in self.folder.pages(seen, self._same_pages):
            count = len(files)
            for name, etag, xml in entries:
                seen_file = seen.get(name)
                if seen_file is None:
                    files.append(listed_object(name, etag, xml))
                elif seen_file.etag != etag:
                    raise changed(self.folder, seen_file)
            if len(files) == count:
                same.add(page)
        self._same_pages = same
        self._waiting, self._at = {file.name: file.mtime_ns for file in files}, clock.monotonic()
        return sorted(files, key=lambda file: file.name)

    def renamed(self) -> Sequence[tuple[SeenFile, str]]:
        """Return nothing: a store renames no objects, and a copy is another object."""
        return ()

    def again(self) -> Sequence[SeenFile]:
        """Return nothing: an object with another etag is another object."""
        return ()

    def oldest(self, seen: Mapping[str, SeenFile]) -> float | None:
        """Return the modification time of the oldest unread object, by a listing within the last minute."""
        if clock.monotonic() - self._at >= _FRESH_S:
            self.new(seen, settled=False)
        times = [mtime for name, mtime in self._waiting.items() if name not in seen]
        self.unread = len(times)
        return min(times) / 1e9 if times else None

    def still(self, file: SeenFile) -> SeenFile:
        """Return an object that was read in part: its etag tells whether it changed."""
        return file


class _Object(SoughtStream):
    """An object that is read at any offset, with one request for each range."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(size)
        self._get = get

    def range_at(self, at: int, size: int) -> bytes:
        return self._get(at, at + size)


def _client(store: ObjectStore) -> Any:  # boto3 has no types
    client = s3_client(store, _WHO)
    client.meta.events.register("before-parse.*.ListObjectsV2", _parse_page)  # runs before botocore's own parser
    return client


@dataclass(frozen=True, slots=True)
class _Page:
    """The objects of one page as XML; `coded` if its keys are URL-encoded."""

    xml: bytes
    coded: bool

    @property
    def digest(self) -> bytes:
        """Return the digest that distinguishes pages."""
        value: bytes = xxhash.xxh3_128_digest(self.xml)
        return value

    def rows(self) -> Iterator[Entry]:
        """Yield the objects by their keys."""
        for entry in self.xml.decode().split("</Contents>")[:-1]:
            key, etag = _between(entry, "<Key>"), _between(entry, "<ETag>").strip('"')
            yield (unquote_plus(key) if self.coded else key), etag, entry


def _parse_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parse a page of a listing, and leave nothing of it to botocore; errors are left to it.

    Raises SQ4223 for an answer that is neither: botocore would retry, and report an error of the server.
    """
    body: bytes = response_dict["body"]
    first, end = body.find(b"<Contents>"), body.rfind(b"</Contents>") + len(b"</Contents>")
    xml = body[first:end] if first >= 0 else b""
    head = (body[:first] + body[end:] if xml else body).decode()
    if response_dict["status_code"] != 200 or "<Error>" in head:
        return
    if "<ListBucketResult" not in head:
        raise no_s3()
    customized_response_dict["Page"] = _Page(xml, "<EncodingType>url</EncodingType>" in head)
    customized_response_dict["NextContinuationToken"] = _between(head, "<NextContinuationToken>")
    response_dict["body"] = b"<ListBucketResult/>"


def _between(text: str, tag: str) -> str:
    """Return the text of an element without inner elements; empty if it is missing."""
    at = text.find(tag)
    if at < 0:
        return ""
    at += len(tag)
    content = text[at : text.find("<", at)]
    return _unescaped(content) if "&" in content else content


def _unescaped(text: str) -> str:
    text = text.replace("&quot;", '"')  # etags have no other entities
    return unescape(text) if "&" in text else text


def _is_visible(name: str, *, recursive: bool) -> bool:
    """Return whether no part of a name begins with . or _; a name that ends with a slash stands for a folder.

    Slashes may follow each other in a key.
    """
    *folders, last = name.split("/")
    if last[:1] in ("", ".", "_"):
        return False
    return not folders or (recursive and all(folder[:1] not in (".", "_") for folder in folders))
