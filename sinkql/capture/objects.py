"""Objects of a bucket, as a log needs them: put where there is none, or in the place of one that is known by its etag.

botocore sends each request a few times. So a condition may find what an earlier try of the same request has done, whose
reply was lost: whoever puts on a condition looks at what is there (`TakenError`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.extension.s3 import SCHEME, code_of, s3_client, s3_failure
from sinkql.extension.store import ObjectStore

_WHO = "logs in S3"
_OPTION = "LOG"
_ALLOW = "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is below LOG"
_GONE = ("NoSuchKey", "404", "NotFound")
_TAKEN = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_NO_CONDITIONS = ("NotImplemented", "501")
_AT_ONCE = 16
_PAGE = 1000


class TakenError(Exception):
    """The condition of a put does not hold."""


@dataclass(frozen=True, slots=True)
class _Access:
    """Keys as they are now tell one access from another, in one process."""

    process: int
    known: tuple[tuple[str, str], ...] = field(repr=False)
    store: ObjectStore = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a bucket. Methods raise SinkqlError: SQ3307, SQ3308, and what is wrong with the connection."""

    bucket: str
    store: ObjectStore = field(repr=False, compare=False)
    client: Any = field(repr=False)  # boto3 has no types

    @classmethod
    def of(cls, bucket: str, store: ObjectStore) -> Objects:
        """Return those of a bucket; a process has one client for all logs that are reached with the same keys."""
        access = _Access(os.getpid(), tuple(sorted(store.properties().items())), store)
        return cls(bucket, store, _client(access))

    def put(self, key: str, data: bytes, *, absent: bool = False, etag: str | None = None) -> str:
        """Put an object, and return its etag; raises TakenError where it is not `absent`, or has another etag."""
        given: dict[str, Any] = {"IfNoneMatch": "*"} if absent else {}
        if etag is not None:
            given = {"IfMatch": etag}
        try:
            reply: Mapping[str, Any] = self.client.put_object(Bucket=self.bucket, Key=key, Body=data, **given)
        except Exception as error:
            code = code_of(error)
            if given and (code in _TAKEN or (etag is not None and code in _GONE)):
                raise TakenError from None
            if given and code in _NO_CONDITIONS:
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
        with ThreadPoolExecutor(_AT_ONCE, "log") as pool:
            for found in pool.map(self.get, keys):
                yield found[0] if found is not None else None

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, those that are there."""
        for key in keys:
            try:
                self.client.delete_object(Bucket=self.bucket, Key=key)
            except Exception as error:
                raise self._failure(error) from None

    def list(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """Yield keys below a prefix in order, with when their objects were put."""
        given = {"Bucket": self.bucket, "Prefix": prefix, "MaxKeys": _PAGE}
        while True:
            page = self._page(given)
            yield from ((each["Key"], each["LastModified"]) for each in page.get("Contents", ()))
            if not page.get("NextContinuationToken"):
                return
            given["ContinuationToken"] = page["NextContinuationToken"]

    def first(self, prefix: str) -> str | None:
        """Return the first key below a prefix."""
        found = self._page({"Bucket": self.bucket, "Prefix": prefix, "MaxKeys": 1}).get("Contents", ())
        return str(found[0]["Key"]) if found else None

    def _page(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            page: Mapping[str, Any] = self.client.list_objects_v2(**given)
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
            f'"{SCHEME}{self.bucket}" has no conditional writes, without which two captures may write one log',
            hint="Keep the log in a store that has them (If-None-Match and If-Match), such as S3; or create the source "
            "again without LOG.",
            option=_OPTION,
        )

    def _failure(self, error: Exception) -> SinkqlError:
        return s3_failure(error, self.bucket, self.store, allow=_ALLOW, option=_OPTION)


@lru_cache(maxsize=32)
def _client(access: _Access) -> Any:  # boto3 has no types
    return s3_client(access.store, _WHO)
