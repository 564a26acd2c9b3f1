"""The secret key of a catalog's row hashes, created once in its database for all hosts.

It is as secret as the rows of the catalog's tables: the writers of hashed rows must not know it. It stays as long as
the catalog, so that recomputed state has the same order.
"""

from __future__ import annotations

from sinkql.catalog.store import Connection, Store
from sinkql.hash_key import HashKey

_OWNER, _NAME = "catalog", "hash key"


def hash_key(store: Store) -> HashKey:
    """Return the key; the first call creates it."""
    with store.read() as connection:
        key = _read(connection)
    if key is None:
        with store.write() as connection:
            key = _read(connection)
            if key is None:
                key = HashKey.new()
                connection.insert("notes", {"owner": _OWNER, "name": _NAME, "note": key.secret.hex()})
    return key


def _read(connection: Connection) -> HashKey | None:
    note = connection.scalar("SELECT note FROM notes WHERE owner = ? AND name = ?", _OWNER, _NAME)
    return None if note is None else HashKey(bytes.fromhex(str(note)))
