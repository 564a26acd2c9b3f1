"""Hashes of rows that are not what they would be: of a few values, or those that a test counts on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, hash_rows
from sinkql.runtime.state import row_identity

KEY = 1
"""The domain of what tells keys apart."""


@contextmanager
def hashes_as(of: Callable[[int, list[Any], Hashes, Hashes], tuple[Hashes, Hashes]]) -> Iterator[None]:
    """Have the halves of hashes be what `of` makes of their domain, the columns, and both halves as they would be."""

    def other(key: HashKey, columns: Any, *, domain: int = 0, count: int = 0) -> tuple[Hashes, Hashes]:
        return of(domain, list(columns), *hash_rows(key, columns, domain=domain, count=count))

    with patch.object(row_identity, "hash_rows", other):
        yield
