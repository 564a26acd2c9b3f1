"""The secret key of row hashes (`sinkql.row_hash`), without the libraries that hashing needs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from sinkql.machine.randomness import new_bytes

KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class HashKey:
    """The secret key of row hashes. The default is public, for rows that only trusted code writes, as in tests."""

    secret: bytes = field(default=bytes(KEY_BYTES), repr=False)

    @classmethod
    def new(cls) -> HashKey:
        """Return a new random key."""
        return cls(new_bytes(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """Return a digest that identifies the key and does not reveal it."""
        return hashlib.blake2b(b"mark", key=self.secret, digest_size=8).hexdigest()


PUBLIC_KEY = HashKey()
"""A key that is not secret."""
