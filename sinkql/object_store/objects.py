"""Read, write and list the objects of a bucket, with conditional writes for logs and state.

botocore sends each request up to a few times. So a condition may fail because an earlier try of the same request
succeeded, whose reply was lost. After a `TakenError`, the caller must therefore check the existing object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.object_store.s3 import SCHEME, code_of, s3_client, s3_failure
from sinkql.object_store.store import ObjectStore

_GONE = ("NoSuchKey", "404", "NotFound")
_TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_NO_CONDITIONS = ("NotImplemented", "501")
_MOST_REQUESTS = 16
_PAGE = 1000
_PART = 8 << 20
"""The bytes of a large file in memory. Larger files are uploaded in parts; S3 allows 10,000 parts."""
_DIGEST = "xxh3"
"""The metadata key for the digest of the uploaded file."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The use of a bucket in error messages: its user and option, the harm of missing features, and the cure."""

    who: str
    option: str
    harm: str
    cure: str


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(_PART):
            digest.update(data)
    return digest.hexdigest()


class TakenError(Exception):
    """The condition of a put does not hold."""


@dataclass(frozen=True, slots=True)
class _Access:
    """The current credentials, which identify one access to a store in a process."""

    process: int
    keys: tuple[tuple[str, str], ...] = field(repr=False)
    store: ObjectStore = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a bucket. Methods raise SinkqlError: SQ3307, SQ3308, and errors of the connection."""

    bucket: str
    store: ObjectStore = field(repr=False, compare=False)
    client: Any = field(repr=False)  # boto3 has no types
    purpose: Purpose

    @classmethod
    def open_bucket(cls, bucket: str, store: ObjectStore, purpose: Purpose) -> Objects:
        """Return the objects of a bucket; a process has one client for each set of keys."""
        access = _Access(os.getpid(), tuple(sorted(store.properties().items())), store)
        return cls(bucket, store, _client(access, purpose.who), purpose)

    def put(self, key: str, data: bytes, *, absent: bool = False, etag: str | None = None) -> str:
        """Put an object and return its etag; raise TakenError if it is not `absent`, or has another etag."""
        conditions: dict[str, Any] = {"IfNoneMatch": "*"} if absent else {}
        if etag is not None:
            conditions = {"IfMatch": etag}
        try:
            reply: Mapping[str, Any] = self.client.put_object(Bucket=self.bucket, Key=key, Body=data, **conditions)
        except Exception as error:
            code = code_of(error)
            if conditions and (code in _TAKEN or (etag is not None and code in _GONE)):
                raise TakenError from None
            if conditions and code in _NO_CONDITIONS:
                raise self._unfit_bucket_error() from None
            raise self._as_coded(error) from None
        return str(reply["ETag"])

    def get(self, key: str) -> tuple[bytes, str] | None:
        """Return an object and its etag; None if it does not exist."""
        try:
            reply = self.client.get_object(Bucket=self.bucket, Key=key)
            return reply["Body"].read(), str(reply["ETag"])
        except Exception as error:
            if code_of(error) in _GONE:
                return None
            raise self._as_coded(error) from None

    def get_all(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Yield objects in the order of their keys, with several requests at a time."""
        with ThreadPoolExecutor(_MOST_REQUESTS, "objects") as pool:
            for object_ in pool.map(self.get, keys):
                yield object_[0] if object_ is not None else None

    def upload(self, key: str, path: Path, *, over: bool = False) -> None:
        """Upload a file if the object does not exist; an existing object must be of the same file.

        Raises FileExistsError if it is of another file. With `over`, an existing object is replaced.
        """
        digest, size = _digest(path), path.stat().st_size
        arguments = {"Bucket": self.bucket, "Key": key, "Metadata": {_DIGEST: digest}}
        try:
            if size <= _PART:
                condition = {} if over else {"IfNoneMatch": "*"}
                self.client.put_object(Body=path.read_bytes(), **condition, **arguments)
            else:
                self._upload_parts(path, arguments)
        except OSError:
            raise
        except Exception as error:
            if code_of(error) in _NO_CONDITIONS:
                raise self._unfit_bucket_error() from None
            if code_of(error) not in _TAKEN:
                raise self._as_coded(error) from None
            if self._read_head(key) != (digest, size):
                raise FileExistsError(key) from None

    def _upload_parts(self, path: Path, arguments: dict[str, Any]) -> None:
        location = {name: arguments[name] for name in ("Bucket", "Key")}
        upload = {**location, "UploadId": self.client.create_multipart_upload(**arguments)["UploadId"]}
        try:
            parts: list[dict[str, Any]] = []
            with path.open("rb") as file:
                while data := file.read(_PART):
                    number = len(parts) + 1
                    tag = self.client.upload_part(Body=data, PartNumber=number, **upload)["ETag"]
                    parts.append({"PartNumber": number, "ETag": tag})
            self.client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **upload)
        except BaseException:
            with suppress(Exception):  # an incomplete upload is invisible
                self.client.abort_multipart_upload(**upload)
            raise

    def _read_head(self, key: str) -> tuple[str, int] | None:
        """Return the digest and the size of an uploaded file."""
        try:
            head = self.client.head_object(Bucket=self.bucket, Key=key)
        except Exception as error:
            if code_of(error) in _GONE:
                return None
            raise self._as_coded(error) from None
        return str(head["Metadata"].get(_DIGEST)), int(head["ContentLength"])

    def download(self, key: str, file: BinaryIO) -> int | None:
        """Write an uploaded object to a file, and return its size; None if it does not exist.

        Raises ValueError if it is not the uploaded content.
        """
        digest, size = xxhash.xxh3_128(), 0
        try:
            reply = self.client.get_object(Bucket=self.bucket, Key=key)
            for data in reply["Body"].iter_chunks(_PART):
                digest.update(data)
                size += file.write(data)
        except OSError:
            raise
        except Exception as error:
            if code_of(error) in _GONE:
                return None
            raise self._as_coded(error) from None
        if digest.hexdigest() != reply["Metadata"].get(_DIGEST):
            raise ValueError(f"{key}: the content differs from the uploaded file")
        return size

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, if they exist."""
        for key in keys:
            try:
                self.client.delete_object(Bucket=self.bucket, Key=key)
            except Exception as error:
                raise self._as_coded(error) from None

    def list(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """Yield keys with a prefix in order, with the times of their last put."""
        arguments = {"Bucket": self.bucket, "Prefix": prefix, "MaxKeys": _PAGE}
        while True:
            page = self._list_page(arguments)
            yield from ((entry["Key"], entry["LastModified"]) for entry in page.get("Contents", ()))
            if not page.get("NextContinuationToken"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def _list_page(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            page: Mapping[str, Any] = self.client.list_objects_v2(**arguments)
        except Exception as error:
            raise self._as_coded(error) from None
        return page

    def check(self, prefix: str) -> None:
        """Raise SQ3441 if the bucket does not enforce the conditions of a put; uses a test object."""
        key = f"{prefix}try-{new_id()}"
        try:
            tag = self.put(key, b"1", absent=True)
            for condition in ({"absent": True}, {"etag": f'"{"0" * 32}"'}):
                try:
                    self.put(key, b"2", **condition)
                except TakenError:
                    continue
                raise self._unfit_bucket_error()
            self.put(key, b"3", etag=tag)
        except TakenError:
            raise self._unfit_bucket_error() from None
        finally:
            self.delete([key])

    def _unfit_bucket_error(self) -> SinkqlError:
        return SinkqlError(
            "SQ3441",
            f'"{SCHEME}{self.bucket}" has no conditional writes, without which {self.purpose.harm}',
            hint=self.purpose.cure,
            option=self.purpose.option,
        )

    def _as_coded(self, error: Exception) -> SinkqlError:
        if not code_of(error):
            self.client.close()  # S3 may have lost its connections; the next request opens new ones
        option = self.purpose.option
        allow = "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on the objects below"
        return s3_failure(error, self.bucket, self.store, allow=f"{allow} {option}", option=option)


@lru_cache(maxsize=32)
def _client(access: _Access, who: str) -> Any:  # boto3 has no types
    return s3_client(access.store, who)
