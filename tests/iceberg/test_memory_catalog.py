"""A process has one in-memory catalog per name; closing it keeps its contents."""

from __future__ import annotations

import pytest

from sinkql.connectors.iceberg.table.catalog import open_catalog
from support.access import Access


class _Closed(Access):
    def secret(self, full_name: str) -> str:
        raise AssertionError(full_name)


@pytest.mark.parametrize("times", [1, 2])
def test_what_one_made_the_next_finds(times: int) -> None:
    name = f"kept {times}"
    for number in range(times):
        catalog = open_catalog(name, {"catalog_type": "memory"}, _Closed())
        catalog.create_namespace(f"n{number}")
        catalog.close()
    found = open_catalog(name, {"catalog_type": "memory"}, _Closed()).list_namespaces()
    assert sorted(found) == [(f"n{number}",) for number in range(times)]
