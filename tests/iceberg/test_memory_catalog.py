"""A catalog in memory: one a process, whoever opened and closed it before."""

from __future__ import annotations

import pytest

from sinkql.connectors.iceberg.table.catalog import open_catalog


def _refused(name: str) -> str:
    raise AssertionError(name)


@pytest.mark.parametrize("times", [1, 2])
def test_what_one_made_the_next_finds(times: int) -> None:
    name = f"kept {times}"
    for number in range(times):
        catalog = open_catalog(name, {"catalog_type": "memory"}, _refused)
        catalog.create_namespace(f"n{number}")
        catalog.close()
    found = open_catalog(name, {"catalog_type": "memory"}, _refused).list_namespaces()
    assert sorted(found) == [(f"n{number}",) for number in range(times)]
