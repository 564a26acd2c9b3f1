"""Objects of a bucket, as logs and state need them: put where there is none, or in the place of one with a known etag.

botocore sends each request a few times. So a condition may find what an earlier try of the same request has done, whose
reply was lost: whoever puts on a condition looks at what is there (`TakenError`).
"""

from __future__ import annotations

import os
import uuid
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
from sinkql.object_store.s3 import SCHEME, code_of, s3_client, s3_failure
from sinkql.object_store.store import ObjectStore

_GONE = ("NoSuchKey", "404", "NotFound")
_TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_NO_CONDITIONS = ("NotImplemented", "501")
_AT_ONCE = 16
_PAGE = 1000
_PART = 8 << 20
"""Bytes of a large file that are in memory at a time: it is sent in parts, of which S3 takes 10,000."""
_DIGEST = "xxh3"
"""The name under which an object says the digest of the file that it was made of."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a bucket is used for, as errors say: by whom, under which option, and what harm its lacks would do."""

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
    """The objects of a bucket. Methods raise SinkqlError: SQ3307, SQ3308, and what is wrong with the connection."""

    bucket: str
    store: ObjectStore = field(repr=False, compare=False)
    client: Any = field(repr=False)  # boto3 has no types
    purpose: Purpose

    @classmethod
    def of(cls, bucket: str, store: ObjectStore, purpose: Purpose) -> Objects:
        """Return those of a bucket; a process has one client for all that is reached with the same keys."""
        access = _Access(os.getpid(), tuple(sorted(store.properties().items())), store)
        return cls(bucket, store, _client(access, purpose.who), purpose)

    def put(self, key: str, data: bytes, *, absent: bool = False, etag: str | None = None) -> str:
        """Put an object, and return its etag; raises TakenError where it is not `absent`, or has another etag."""
        condition: dict[str, Any] = {"IfNoneMatch": "*"} if absent else {}
        if etag is not None:
            condition = {"IfMatch": etag}
        try:
            reply: Mapping[str, Any] = self.client.put_object(Bucket=self.bucket, Key=key, Body=data, **condition)
        except Exception as error:
            code = code_of(error)
            if condition and (code in _TAKEN or (etag is not None and code in _GONE)):
                raise TakenError from None
            if condition and code in _NO_CONDITIONS:
                raise self._unfit() from None
            raise self._failure(error) from None
        return str(reply["ETag"])

    def get(self, key: str) -> tuple[bytes, str] | None:
        """Return an object and its etag; None where there is none."""
        try:
            reply = self.client.get_object(Bucket=self.bucket, Key=key)
            return reply["Body"].read(), str(reply["ETag"])
        except Exception as error:
            if code_of(error) in _GONE:
                return None
            raise self._failure(error) from None

    def get_all(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Yield objects in the order of their keys, several asked for at once."""
        with ThreadPoolExecutor(_AT_ONCE, "objects") as pool:
            for reply in pool.map(self.get, keys):
                yield reply[0] if reply is not None else None

    def upload(self, key: str, path: Path, *, over: bool = False) -> None:
        """Put a file where there is no object; one that is there already stays, and must be of the same file.

        Raises FileExistsError where it is not. With `over`, what is there is replaced.
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
                raise self._unfit() from None
            if code_of(error) not in _TAKEN:
                raise self._failure(error) from None
            if self._head(key) != (digest, size):
                raise FileExistsError(key) from None

    def _upload_parts(self, path: Path, arguments: dict[str, Any]) -> None:
        place = {name: arguments[name] for name in ("Bucket", "Key")}
        upload = {**place, "UploadId": self.client.create_multipart_upload(**arguments)["UploadId"]}
        try:
            parts: list[dict[str, Any]] = []
            with path.open("rb") as file:
                while data := file.read(_PART):
                    number = len(parts) + 1
                    tag = self.client.upload_part(Body=data, PartNumber=number, **upload)["ETag"]
                    parts.append({"PartNumber": number, "ETag": tag})
            self.client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **upload)
        except BaseException:
            with suppress(Exception):  # what is left of it shows nowhere
                self.client.abort_multipart_upload(**upload)
            raise

    def _head(self, key: str) -> tuple[str, int] | None:
        """Return the digest and the size of a file that was put."""
        try:
            head = self.client.head_object(Bucket=self.bucket, Key=key)
        except Exception as error:
            if code_of(error) in _GONE:
                return None
            raise self._failure(error) from None
        return str(head["Metadata"].get(_DIGEST)), int(head["ContentLength"])

    def download(self, key: str, file: BinaryIO) -> int | None:
        """Write an object that was uploaded to a file, and return its size; None where there is none.

        Raises ValueError where it is not what was uploaded.
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
            raise self._failure(error) from None
        if digest.hexdigest() != reply["Metadata"].get(_DIGEST):
            raise ValueError(f"{key}: its content is not what was put there")
        return size

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, those that are there."""
        for key in keys:
            try:
                self.client.delete_object(Bucket=self.bucket, Key=key)
            except Exception as error:
                raise self._failure(error) from None

    def list(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """Yield keys below a prefix in order, with when their objects were put."""
        query = {"Bucket": self.bucket, "Prefix": prefix, "MaxKeys": _PAGE}
        while True:
            page = self._page(query)
            yield from ((entry["Key"], entry["LastModified"]) for entry in page.get("Contents", ()))
            if not page.get("NextContinuationToken"):
                return
            query["ContinuationToken"] = page["NextContinuationToken"]

    def _page(self, query: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            page: Mapping[str, Any] = self.client.list_objects_v2(**query)
        except Exception as error:
            raise self._failure(error) from None
        return page

    def check(self, prefix: str) -> None:
        """Raise SQ3441 where the bucket does not keep to the conditions of a put; tried with an object of its own."""
        key = f"{prefix}try-{uuid.uuid4().hex}"
        try:
            tag = self.put(key, b"1", absent=True)
            for condition in ({"absent": True}, {"etag": f'"{"0" * 32}"'}):
                try:
                    self.put(key, b"2", **condition)
                except TakenError:
                    continue
                raise self._unfit()
            self.put(key, b"3", etag=tag)
        except TakenError:
            raise self._unfit() from None
        finally:
            self.delete([key])

    def _unfit(self) -> SinkqlError:
        return SinkqlError(
            "SQ3441",
            f'"{SCHEME}{self.bucket}" has no conditional writes, without which {self.purpose.harm}',
            hint=self.purpose.cure,
            option=self.purpose.option,
        )

    def _failure(self, error: Exception) -> SinkqlError:
        if not code_of(error):
            self.client.close()  # its connections, which S3 may have lost; the next request opens others
        option = self.purpose.option
        allow = "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is below"
        return s3_failure(error, self.bucket, self.store, allow=f"{allow} {option}", option=option)


@lru_cache(maxsize=32)
def _client(access: _Access, who: str) -> Any:  # boto3 has no types
    return s3_client(access.store, who)
