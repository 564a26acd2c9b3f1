"""A catalog in AWS Glue on a local server of AWS's APIs: create, write, fence and read tables; assume roles by STS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from sinkql import physical
from sinkql.connectors.aws.store import Role, open_store
from sinkql.connectors.iceberg.table.rest_catalog import account, s3_tables_region, s3_tables_url, s3_tables_warehouse
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import signing_session
from sinkql.object_store.store import ObjectStore
from support.aws import KEYS, Aws, aws
from support.dropping import check_dropping
from support.lake import NAMESPACE, Lake, Sink
from support.readers import pyiceberg_rows

pytestmark = pytest.mark.server


@dataclass
class GlueLake(Lake):
    """Databases and tables in Glue; a role authorizes requests and file access."""

    address: str = ""

    @property
    def using(self) -> None:
        return None

    @property
    def connection(self) -> physical.Connection:
        role = {
            "assume_role_arn": "arn:aws:iam::123456789012:role/writer",
            "assume_role_external_id": "tenant",
            "endpoint": self.address,
            "region": "eu-west-1",
        }
        options = {
            "catalog_type": "glue",
            "url": self.address,
            "warehouse": "s3://lake/warehouse",
            "aws_connection": {"connection": "aws"},
        }
        return physical.Connection("glue", "ICEBERG CATALOG", options, {"aws": physical.Connection("aws", "AWS", role)})

    def store(self, connection: physical.Connection) -> ObjectStore:
        return open_store(connection.options, str)

    def catalog(self) -> Catalog:
        keys = {
            f"{service}.{name}": value
            for service in ("s3", "glue")
            for name, value in (
                ("endpoint", self.address),
                ("region", "eu-west-1"),
                ("access-key-id", KEYS["AWS_ACCESS_KEY_ID"]),
                ("secret-access-key", KEYS["AWS_SECRET_ACCESS_KEY"]),
            )
        }
        return load_catalog("default", type="glue", **keys)

    def rows(self, name: str, columns: tuple[str, ...] = ("id", "name")) -> Any:
        return pyiceberg_rows(self.catalog().load_table((NAMESPACE, name)), columns)


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    with pytest.MonkeyPatch.context() as patch, aws() as running:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        client = boto3.client("s3", region_name="eu-west-1", endpoint_url=running.address)
        client.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        yield running


@pytest.fixture
def glue(tmp_path: Path, server: Aws) -> GlueLake:
    return GlueLake(tmp_path, address=server.address)


def test_sinks_write_to_tables_of_glue(glue: GlueLake, name: str) -> None:
    appended = Sink(glue, name)
    kept = Sink(glue, f"{name}k", id="5f6e1c1e-0002", upsert=True, options={"format_version": 3})
    for sink in (appended, kept):
        sink.start()
        sink.put((1, "a"), (2, "b"))
        sink.put((1, "c"))
    assert glue.rows(name) == [(1, "a"), (1, "c"), (2, "b")]
    assert glue.rows(f"{name}k") == [(1, "c"), (2, "b")]


def test_a_later_run_fences_an_earlier_one(glue: GlueLake, name: str) -> None:
    first, second = Sink(glue, name), Sink(glue, name)
    first.start()
    attempt = first.attempt([(1, "late")])
    second.start(epoch=2)
    second.put((2, "new"))
    with pytest.raises(SinkqlError) as caught:
        first.finish(attempt)
    assert caught.value.code == "SQ5101"
    assert glue.rows(name) == [(2, "new")]


# --- S3 Tables on AWS hosts, checked by host name only ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "opened"),
    [
        ("https://s3tables.us-east-1.amazonaws.com", "https://s3tables.us-east-1.amazonaws.com/iceberg"),
        ("https://s3tables.us-east-1.amazonaws.com/", "https://s3tables.us-east-1.amazonaws.com/iceberg"),
        ("https://s3tables.us-east-1.amazonaws.com/iceberg/", "https://s3tables.us-east-1.amazonaws.com/iceberg"),
        ("http://127.0.0.1:8181/", "http://127.0.0.1:8181"),
    ],
)
def test_iceberg_may_be_left_out_of_the_address_of_s3_tables(url: str, opened: str) -> None:
    assert s3_tables_url(url) == opened


@pytest.mark.parametrize(
    ("url", "warehouse", "region", "opened"),
    [
        (
            "https://s3tables.us-east-1.amazonaws.com",
            "bucket",
            "us-east-1",
            "arn:aws:s3tables:us-east-1:123456789012:bucket/bucket",
        ),
        (
            "https://s3tables.eu-west-2.amazonaws.com/iceberg",
            "arn:aws:s3tables:eu-west-2:210987654321:bucket/b",
            "eu-west-2",
            "arn:aws:s3tables:eu-west-2:210987654321:bucket/b",
        ),
        ("http://127.0.0.1:8181", "bucket", "eu-west-1", "bucket"),
    ],
)
def test_a_table_bucket_is_found_by_its_name_in_the_account(
    glue: GlueLake, url: str, warehouse: str, region: str, opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = glue.store(glue.connection.through["aws"])
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", glue.address)
    found = s3_tables_region(url, store)
    assert found == region
    assert s3_tables_warehouse(url, warehouse, found, lambda: account(signing_session(store, found))) == opened


def test_sts_gets_what_the_connection_says(glue: GlueLake) -> None:
    role = open_store({**glue.connection.through["aws"].options, "assume_role_session_name": "orders"}, str)
    assert isinstance(role, Role)
    assert role.request == {
        "RoleArn": "arn:aws:iam::123456789012:role/writer",
        "RoleSessionName": "orders",
        "ExternalId": "tenant",
        "DurationSeconds": 3600,
    }


def test_the_table_of_a_dropped_sink_goes(glue: GlueLake, name: str) -> None:
    check_dropping(glue, name)
