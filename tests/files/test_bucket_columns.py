"""Objects of a real S3 → the columns of a source that declares none, and the rows of a query over objects."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from session.script import fails
from sinkql import compile as compile_sql
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from support.seaweed import Seaweed

pytestmark = pytest.mark.server
_ROWS = pa.table({"id": pa.array([1, 2]), "name": pa.array(["x", "é"])})


def _written(write: Callable[[pa.Table, Any], None]) -> bytes:
    found = io.BytesIO()
    write(_ROWS, found)
    return found.getvalue()


def _connection(server: Seaweed) -> str:
    return (
        f"CREATE SECRET key AS '{server.secret}'; CREATE CONNECTION aws TO AWS (ACCESS KEY ID = '{server.user}', "
        f"SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://127.0.0.1:{server.s3}');"
    )


def _put(server: Seaweed, key: str, data: bytes) -> None:
    client = boto3.client(
        "s3", endpoint_url=server.storage["s3.endpoint"], aws_access_key_id=server.user,
        aws_secret_access_key=server.secret, region_name="us-east-1",
    )  # fmt: skip
    client.put_object(Bucket="data", Key=key, Body=data)


@pytest.fixture
def session(tmp_path: Path, server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_connection(server))
        yield session


@pytest.mark.parametrize(
    ("name", "format_", "data"),
    [
        ("a.parquet", "PARQUET", _written(pq.write_table)),
        ("a.orc", "ORC", _written(po.write_table)),
        ("a.csv.gz", "CSV WITH HEADER", gzip.compress("id,name\n1,x\n2,é\n".encode(), mtime=0)),
        ("a.json", "JSON", '{"id": 1, "name": "x"}\n{"id": 2, "name": "é"}\n'.encode()),
    ],
)
def test_columns_and_rows_of_objects_are_found_as_those_of_files_are(
    session: Session, server: Seaweed, tmp_path: Path, name: str, format_: str, data: bytes
) -> None:
    folder = f"s3://data/{tmp_path.name}"
    _put(server, f"{tmp_path.name}/in/{name}", data)
    _put(server, f"{tmp_path.name}/in/_left", b"no rows")
    create = f"CREATE SOURCE s FROM FILES CONNECTION aws (PATH = '{folder}/in') FORMAT {format_};"
    (made,) = session.execute(create)
    assert [notice.message for notice in made.notices] == ["columns found in a sample: (id bigint, name text)"]
    function = f"read_{format_.split()[0].lower()}"
    for path in ("in", f"in/{name}", f"in/{name[:3]}*"):
        query = f"SELECT name, id FROM {function}('{folder}/{path}', connection => materialize.public.AWS);"
        assert list(session.execute(query)[-1].rows) == [("x", 1), ("é", 2)]


def test_a_source_in_s3_without_columns_is_planned_with_the_secrets_of_its_script(
    server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _put(server, f"{tmp_path.name}/a.csv", b"id,day\n1,2024-01-01\n")
    source = f"FROM FILES CONNECTION aws (PATH = 's3://data/{tmp_path.name}') FORMAT CSV WITH HEADER;"
    text = f"CREATE VIEW v AS SELECT id + 1 AS next, day FROM s; CREATE SOURCE s {source} {_connection(server)}"
    with Session() as session:
        deployment = plan_deployment([Script("p.sql", text)], session)
        apply(deployment, session)
        _put(server, f"{tmp_path.name}/a.csv", b"no,such\n")
        assert plan_deployment([Script("p.sql", text)], session).steps == ()
        (columns,) = session.execute("SHOW COLUMNS FROM v;")
    assert [row[0] for row in columns.rows] == ["next", "day"]
    with pytest.raises(SinkqlError) as error:
        compile_sql(f"{_connection(server)} CREATE SOURCE s {source}")
    assert (error.value.code, error.value.span is not None) == ("SQ2413", True)


@pytest.mark.parametrize(
    ("place", "code", "at"),
    [
        ("read_json('s3://nowhere/x', connection => aws)", "SQ3307", ""),
        ("read_json('s3://data/nothing', connection => aws)", "SQ2645", ""),
        ("read_json('x.json', connection => aws)", "SQ2645", ""),
        ("read_json('s3://data/x*/y', connection => aws)", "SQ2645", ""),
        ("'s3://data/x.json'", "SQ2645", ""),
        ("read_json('s3://data/x', connection => other)", "SQ2001", "other"),
        ("read_json('s3://data/x', connection => sql)", "SQ2501", "sql"),
        ("read_json('s3://data/x', connection => 'aws')", "SQ2646", ""),
        ("read_json('s3://data/x', connection = aws)", "SQ2646", ""),
        ("read_json('s3://data/x', connection =>)", "SQ2201", ")"),
    ],
)
def test_what_is_wrong_with_a_place_in_s3_is_told_there(session: Session, place: str, code: str, at: str) -> None:
    session.execute(
        "CREATE CONNECTION sql TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///c.db', WAREHOUSE = 'lake');"
    )
    text = f"SELECT * FROM {place};"
    error = fails(session, text)
    assert (code, False) == (error.code, "sink" in (error.hint or ""))
    assert error.span is not None
    assert text[error.span.start : error.span.end] == (at or place)
