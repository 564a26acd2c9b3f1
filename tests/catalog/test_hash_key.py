"""A catalog creates the secret for hashing keys once, and keeps it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sinkql.catalog.catalog import Catalog
from sinkql.catalog.secret.hash_key import hash_key
from sinkql.connector_api.registry import discover


def test_all_who_use_a_catalog_have_one_secret(tmp_path: Path) -> None:
    def asked(number: int) -> bytes:
        return hash_key(Catalog(tmp_path / "a.db", discover()).database).secret

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(asked, range(8)))
    assert len(found) == 1
    assert hash_key(Catalog(tmp_path / "b.db", discover()).database).secret not in found
