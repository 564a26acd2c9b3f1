"""The secret that a catalog hashes keys with: made once, in its database, for all hosts that use it.

It is no more secret than the rows of the catalog's tables: what matters is that who writes these does not know it. It
stays as long as the catalog does, so that state that is computed again is ordered as the state before it was.
"""

from __future__ import annotations

from sinkql.catalog.store import Connection, Store
from sinkql.hash_key import HashKey

_OWNER, _NAME = "catalog", "hash key"


def hash_key(store: Store) -> HashKey:
    """Return the secret; the first one who asks makes it."""
    with store.read() as connection:
        found = _read(connection)
    if found is None:
        with store.write() as connection:
            found = _read(connection)
            if found is None:
                found = HashKey.new()
                connection.insert("notes", {"owner": _OWNER, "name": _NAME, "note": found.secret.hex()})
    return found


def _read(connection: Connection) -> HashKey | None:
    found = connection.scalar("SELECT note FROM notes WHERE owner = ? AND name = ?", _OWNER, _NAME)
    return None if found is None else HashKey(bytes.fromhex(str(found)))
