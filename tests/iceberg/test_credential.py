"""The credential of a database connection is added to the URL only when the database is opened."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import make_url

from sinkql.connectors.iceberg.table import catalog
from support.access import Access


@pytest.mark.parametrize(
    ("address", "credential"), [("postgresql://h/d", "u:a:b@c/d"), ("postgresql://u@h/d?sslmode=require", "a:b@c/d")]
)
def test_the_database_gets_user_and_password(monkeypatch: pytest.MonkeyPatch, address: str, credential: str) -> None:
    opened: list[str] = []

    def open_(name: str, **properties: Any) -> None:  # replaces the class CachingCatalog
        opened.append(properties["uri"])

    monkeypatch.setattr(catalog, "CachingCatalog", open_)
    options = {"catalog_type": "sql", "url": address, "credential": {"secret_text": [{"secret": "s"}]}}
    catalog.open_catalog("lake", options, Access(credential))
    url = make_url(opened[0])
    assert (url.username, url.password, url.host, url.database) == ("u", "a:b@c/d", "h", "d")
