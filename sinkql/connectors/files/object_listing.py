"""Objects of S3 below a prefix → what is new there, look by look, and the bytes of those that were listed.

An object is what its name and its etag say: each request for its bytes names the etag, and an object that was
overwritten is refused by the store. boto3 sends the requests; pages of listings are read here, in a twentieth of its
time.
"""

from __future__ import annotations

import fnmatch
import io
import re
import time
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
"""An object's name, its etag, and all that the store says of it: few entries of a listing are new."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """List and open the objects of one source; names that begin with . or _ are left out.

    `prefix` is that of a folder, or the key of a single object, whose name is `./` and its key: none in a folder begins
    with a dot. It goes into tasks with the keys of the moment.
    """

    name: str
    prefix: str
    pattern: str
    recursive: bool
    store: ObjectStore = field(repr=False)
    _client: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)  # one, once it is needed

    @classmethod
    def of(cls, path: str, pattern: str, recursive: bool, store: ObjectStore) -> Bucket:  # as in Folder
        """Return the bucket of a path."""
        name, _, prefix = path.removeprefix(SCHEME).partition("/")
        return cls(name, prefix, pattern, recursive, store)

    def __reduce__(self) -> tuple[type[Bucket], tuple[Any, ...]]:
        return Bucket, (self.name, self.prefix, self.pattern, self.recursive, S3Credentials.of(self.store))

    @property
    def pinned(self) -> bool:
        """Tell that an object is opened only as it was listed."""
        return True

    def shown(self, name: str) -> str:
        """Return what messages call an object."""
        return f"{SCHEME}{self.name}/{self._key(name)}"

    def open(self, file: SeenFile) -> BinaryIO:
        """Open an object; reading raises SQ3301 where it was overwritten, SQ3302 where it is gone, and others."""
        return io.BufferedReader(_Object(lambda begin, end: self._bytes(file, begin, end), file.size), _BUFFER)

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return an object that is open: it is as it was listed."""
        return file

    def difference(self, file: SeenFile) -> str | None:
        """Return nothing: the store refused the etag, and says no more."""
        return f"Its etag was {file.etag}." if file.etag else None

    def list(self) -> Iterator[Entry]:
        """Yield the objects, page by page; raises what `pages` does."""
        for _, entries in self.pages():
            yield from entries

    def pages(self, known: Container[str] = (), same: Container[bytes] = ()) -> Iterator[tuple[bytes, Sequence[Entry]]]:
        """Yield the objects of each page with its digest; raises SQ3307, SQ3308 and what is wrong with the connection.

        Names that are `known` are those of objects that were listed before. Pages whose digest is among the `same` are
        not read: they have no object.
        """
        folder = self._folder
        matches, found = re.compile(fnmatch.translate(self.pattern)).match, False
        for page in self._pages(folder):
            found = found or page.told != b""
            entries: list[Entry] = []
            for key, etag, told in page.rows() if page.digest not in same else ():
                name = key[len(folder) :]
                if name in known or (_visible(name, recursive=self.recursive) and matches(name.rpartition("/")[2])):
                    entries.append((name, etag, told))
            yield page.digest, entries
        if not found and folder != self.prefix:
            for page in self._pages(self.prefix, only=True):
                yield (
                    page.digest,
                    [(f"{_ALONE}{key}", etag, told) for key, etag, told in page.rows() if key == self.prefix],
                )

    def first(self, count: int) -> Sequence[SeenFile]:
        """Return so many objects, or all where there are fewer, by name; raises what listing does."""
        return sorted((listed_object(*each) for each in islice(self.list(), count)), key=lambda file: file.name)

    def _pages(self, prefix: str, *, only: bool = False) -> Iterator[_Page]:
        """Yield the pages of the objects under a prefix; `only` the first one."""
        given: dict[str, Any] = {"Bucket": self.name, "Prefix": prefix, "MaxKeys": _PAGE}
        if not self.recursive or only:
            given["Delimiter"] = "/"
        while True:
            try:
                page = self._connected().list_objects_v2(**given)
            except Exception as error:
                raise self._failure(error) from None
            yield page["Page"]
            token = page.get("NextContinuationToken")
            if not token or only:
                return
            given["ContinuationToken"] = token

    @property
    def _folder(self) -> str:
        """Return what the keys of a folder begin with."""
        return self.prefix if not self.prefix or self.prefix.endswith("/") else f"{self.prefix}/"

    def _key(self, name: str) -> str:
        return name.removeprefix(_ALONE) if name.startswith(_ALONE) else f"{self._folder}{name}"

    def _bytes(self, file: SeenFile, begin: int, end: int) -> bytes:
        given = {"Key": self._key(file.name), "Range": f"bytes={begin}-{end - 1}", "IfMatch": f'"{file.etag}"'}
        try:
            reply = self._connected().get_object(Bucket=self.name, **given)
            data: bytes = reply["Body"].read()
        except Exception as error:
            code = code_of(error)
            if code in _OVERWRITTEN:
                raise changed(self, file) from None
            if code in _GONE:
                raise GoneError(
                    "SQ3302",
                    f'file "{self.shown(file.name)}" was removed before it was read',
                    hint="Put it back; the sink then continues.",
                ) from None
            raise self._failure(error) from None
        if reply["ETag"].strip('"') != file.etag or len(data) != end - begin:
            raise changed(self, file)
        return data

    def _connected(self) -> Any:  # boto3 has no types
        if not self._client:
            self._client.append(_client(self.store))
        return self._client[0]

    def _failure(self, error: Exception) -> SinkqlError:
        allow = "s3:ListBucket on the bucket, and s3:GetObject on what is in it"
        return s3_failure(error, self.name, self.store, allow=allow, option="PATH")


def listed_object(name: str, etag: str, told: str) -> SeenFile:
    """Return the object of an entry."""
    written = datetime.fromisoformat(_between(told, "<LastModified>"))
    return SeenFile(name, int(_between(told, "<Size>")), int(written.timestamp() * 1e9), 0, 0, (), etag)


class BucketWatch:
    """Look at the objects of one source: each look lists all of them, and reads the pages that are not as before."""

    def __init__(self, folder: Bucket) -> None:
        self.folder = folder
        self._seen: Mapping[str, SeenFile] = {}
        self._same: set[bytes] = set()
        self._waiting: dict[str, int] = {}
        self._at = -_FRESH_S
        self.unread = 0
        """How many objects `oldest` found."""

    def __reduce__(self) -> tuple[type[BucketWatch], tuple[Bucket]]:
        return BucketWatch, (self.folder,)

    def new(self, seen: Mapping[str, SeenFile], *, settled: bool) -> list[SeenFile]:
        """Return the objects that were not seen, by name; raises SQ3301 for one that was overwritten."""
        if seen is not self._seen:
            self._seen, self._same = seen, set()
        found: list[SeenFile] = []
        same: set[bytes] = set()
        for page, entries in self.folder.pages(seen, self._same):
            before = len(found)
            for name, etag, told in entries:
                known = seen.get(name)
                if known is None:
                    found.append(listed_object(name, etag, told))
                elif known.etag != etag:
                    raise changed(self.folder, known)
            if len(found) == before:
                same.add(page)
        self._same = same
        self._waiting, self._at = {file.name: file.mtime_ns for file in found}, time.monotonic()
        return sorted(found, key=lambda file: file.name)

    def renamed(self) -> Sequence[tuple[SeenFile, str]]:
        """Return nothing: a store has no renames, and a copy is another object."""
        return ()

    def again(self) -> Sequence[SeenFile]:
        """Return nothing: an etag says all."""
        return ()

    def oldest(self, seen: Mapping[str, SeenFile]) -> float | None:
        """Return when the oldest object that was not seen was written, as of a listing within the last minute."""
        if time.monotonic() - self._at >= _FRESH_S:
            self.new(seen, settled=False)
        times = [at for name, at in self._waiting.items() if name not in seen]
        self.unread = len(times)
        return min(times) / 1e9 if times else None

    def still(self, file: SeenFile) -> SeenFile:
        """Return an object that was read in part: it is read on by its etag."""
        return file


class _Object(SoughtStream):
    """Read an object anywhere, a request a stretch."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(size)
        self._get = get

    def stretch(self, at: int, size: int) -> bytes:
        return self._get(at, at + size)


def _client(store: ObjectStore) -> Any:  # boto3 has no types
    client = s3_client(store, _WHO)
    client.meta.events.register("before-parse.*.ListObjectsV2", _parse_page)  # which comes before botocore's own
    return client


@dataclass(frozen=True, slots=True)
class _Page:
    """What a page of a listing tells of objects; `coded` are keys in which some characters are those of URLs."""

    told: bytes
    coded: bool

    @property
    def digest(self) -> bytes:
        """Return what tells pages apart."""
        found: bytes = xxhash.xxh3_128_digest(self.told)
        return found

    def rows(self) -> Iterator[Entry]:
        """Yield the objects by their keys."""
        for entry in self.told.decode().split("</Contents>")[:-1]:
            key, etag = _between(entry, "<Key>"), _between(entry, "<ETag>").strip('"')
            yield (unquote_plus(key) if self.coded else key), etag, entry


def _parse_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Cut a page of a listing up, and leave nothing of it to botocore; errors are botocore's.

    Raises SQ4223 for what neither is: botocore would ask a few times more, and say that it was an error of the server.
    """
    body: bytes = response_dict["body"]
    first, end = body.find(b"<Contents>"), body.rfind(b"</Contents>") + len(b"</Contents>")
    told = body[first:end] if first >= 0 else b""
    head = (body[:first] + body[end:] if told else body).decode()
    if response_dict["status_code"] != 200 or "<Error>" in head:
        return
    if "<ListBucketResult" not in head:
        raise no_s3()
    customized_response_dict["Page"] = _Page(told, "<EncodingType>url</EncodingType>" in head)
    customized_response_dict["NextContinuationToken"] = _between(head, "<NextContinuationToken>")
    response_dict["body"] = b"<ListBucketResult/>"


def _between(text: str, tag: str) -> str:
    """Return the text of an element that has no other in it, or nothing."""
    at = text.find(tag)
    if at < 0:
        return ""
    at += len(tag)
    found = text[at : text.find("<", at)]
    return _plain(found) if "&" in found else found


def _plain(text: str) -> str:
    text = text.replace("&quot;", '"')  # of etags, so that they need no more
    return unescape(text) if "&" in text else text


def _visible(name: str, *, recursive: bool) -> bool:
    """Return whether no part of a name begins with . or _; one that ends with a slash stands for a folder.

    Keys may have slashes that follow each other.
    """
    *folders, last = name.split("/")
    if last[:1] in ("", ".", "_"):
        return False
    return not folders or (recursive and all(folder[:1] not in (".", "_") for folder in folders))
