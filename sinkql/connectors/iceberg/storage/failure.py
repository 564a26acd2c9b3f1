"""An exception of an object store, or of a folder → one coded error with its cause and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sinkql.errors import SinkqlError

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
