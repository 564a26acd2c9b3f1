"""Replace the hashes of rows: with collisions, or with values that a test expects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, hash_rows
from sinkql.runtime.state import row_identity

KEY = 1
"""The hash domain of keys."""


@contextmanager
def hashes_as(of: Callable[[int, list[Any], Hashes, Hashes], tuple[Hashes, Hashes]]) -> Iterator[None]:
    """Replace the halves of hashes by the result of `of`, which gets domain, columns and both original halves."""

    def other(key: HashKey, columns: Any, *, domain: int = 0, count: int = 0) -> tuple[Hashes, Hashes]:
        return of(domain, list(columns), *hash_rows(key, columns, domain=domain, count=count))

    with patch.object(row_identity, "hash_rows", other):
        yield
