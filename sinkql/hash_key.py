"""The secret that rows are hashed with (`sinkql.row_hash`), for those who hand it on and hash nothing."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field

KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class HashKey:
    """A secret that rows are hashed with; the default is none, for rows that nobody else writes, as in tests."""

    secret: bytes = field(default=bytes(KEY_BYTES), repr=False)

    @classmethod
    def new(cls) -> HashKey:
        """Return one that nobody can guess."""
        return cls(os.urandom(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """Return what tells this key from others, and nothing else of it."""
        return hashlib.blake2b(b"mark", key=self.secret, digest_size=8).hexdigest()


PUBLIC_KEY = HashKey()
"""No secret."""
