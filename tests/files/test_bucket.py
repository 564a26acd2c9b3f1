"""Objects of a real S3 → rows, each once; errors of the bucket, the keys and the objects have different codes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from files.test_files_reader import _drain as _drained
from files.test_files_reader import _reader, _rows
from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts
from sinkql.connectors.aws.store import S3
from sinkql.connectors.files import content, file_format, file_parts, object_listing
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from support.aws import aws
from support.seaweed import Seaweed

pytestmark = pytest.mark.server
_ALL = Limit(1 << 40, 1 << 50)
_SECOND = timedelta(seconds=1)


@pytest.fixture
def prefix(server: Seaweed, tmp_path: Path) -> str:
    return tmp_path.name


def _client(server: Seaweed) -> Any:  # boto3 has no types
    return boto3.client(
        "s3", endpoint_url=server.storage["s3.endpoint"], aws_access_key_id=server.user,
        aws_secret_access_key=server.secret, region_name="us-east-1",
    )  # fmt: skip


def _put(server: Seaweed, key: str, data: bytes) -> None:
    _client(server).put_object(Bucket="data", Key=key, Body=data)


def _bucket(
    server: Seaweed, path: str, changes: Mapping[str, str] = MappingProxyType({}), *, recursive: bool = False
) -> Bucket:
    return Bucket.of(f"s3://{path}", "*", recursive, S3({**server.storage, **changes}))


def _read(server: Seaweed, tmp_path: Path, *, recursive: bool = False, **changes: Any) -> FilesReader:
    return _reader(tmp_path, folder=_bucket(server, f"data/{tmp_path.name}", recursive=recursive), **changes)


def _drain(found: FilesReader, limit: Limit = _ALL) -> tuple[list[list[dict[str, Any]]], Offsets]:
    return _drained(found, limit)


def _lines(*numbers: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in numbers)


def _ids(batches: Sequence[Sequence[dict[str, Any]]]) -> list[list[int]]:
    return [[row["id"] for row in batch] for batch in batches]


def test_every_object_below_a_prefix_is_read_once(
    server: Seaweed, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_listing, "_PAGE", 2)
    for number, name in enumerate(
        (
            "a b+c%20ü.json",
            "b.json",
            "day=2024-06-01/deep/c.json",
            "day=2024-06-01/_left/d.json",
            ".e.json",
            "f.json.gz",
        )
    ):
        data = _lines(number)
        _put(server, f"{prefix}/{name}", gzip.compress(data) if name.endswith("gz") else data)
    _put(server, f"{prefix}-other/x.json", _lines(99))
    _put(server, f"{prefix}/empty.json", b"")
    found = _read(server, tmp_path, recursive=True)
    batches, at = _drain(found)
    assert _ids(batches) == [[0, 1, 2, 5]]
    _put(server, f"{prefix}/0.json", _lines(7))
    assert [row["id"] for row in _rows(found, at, found.latest(at, _ALL))] == [7]
    assert found.lag(at) > 0
    flat, _ = _drain(_read(server, tmp_path, state=tmp_path / "flat"))
    assert _ids(flat) == [[7, 0, 1, 5]]
    single = _reader(tmp_path, folder=_bucket(server, f"data/{prefix}/b.json"), state=tmp_path / "single")
    assert _ids(_drain(single)[0]) == [[1]]
    _put(server, f"{prefix}-same/{prefix}-same", _lines(8))
    same = _reader(tmp_path, folder=_bucket(server, f"data/{prefix}-same"), state=tmp_path / "same")
    assert _ids(_drain(same)[0]) == [[8]]


def test_objects_whose_keys_have_slashes_that_follow_each_other_are_read(tmp_path: Path) -> None:
    with aws() as amazon:
        client = boto3.client("s3", endpoint_url=amazon.address, aws_access_key_id="a", aws_secret_access_key="b")
        client.create_bucket(Bucket="data")
        for number, name in enumerate(("//a.json", "/x//b.json", "/x//", "/c.json", "/x/_y//d.json", "/_//e.json")):
            client.put_object(Bucket="data", Key=f"p{name}", Body=b"" if name.endswith("/") else _lines(number))
        client.put_object(Bucket="data", Key="a.json", Body=_lines(99))
        keys = {"s3.endpoint": amazon.address, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
        store = S3({**keys, "s3.path-style-access": "true"})
        read = [
            _ids(
                _drain(_reader(tmp_path, folder=Bucket.of(path, "*", recursive, store), state=tmp_path / path[-4:]))[0]
            )
            for path, recursive in (("s3://data/p", True), ("s3://data/p/", False), ("s3://data/p//a.json", False))
        ]
    assert read == [[[0, 3, 1]], [[3]], [[0]]]


def test_only_pages_of_a_listing_that_are_not_as_before_are_read(
    server: Seaweed, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_listing, "_PAGE", 2)
    read: list[int] = []
    rows = object_listing._Page.rows

    def told(page: object_listing._Page) -> Iterator[object_listing.Entry]:
        found = list(rows(page))
        read.append(len(found))
        return iter(found)

    monkeypatch.setattr(object_listing._Page, "rows", told)
    for name in ("a", "b", "_hidden", "c", "d", "e"):
        _put(server, f"{prefix}/{name}.json", _lines(1))
    found = _read(server, tmp_path)
    _, at = _drain(found)
    read.clear()
    assert (found.latest(at, _ALL), read) == (at, [])
    _put(server, f"{prefix}/f.json", _lines(2))
    read.clear()
    end = found.latest(at, _ALL)
    assert ([row["id"] for row in _rows(found, at, end)], read) == ([2], [1])
    assert (found.latest(end, _ALL), found.latest(at, _ALL)) == (end, end)
    _put(server, f"{prefix}/b.json", _lines(3))
    with pytest.raises(SinkqlError, match=r"b\.json.* changed after it was listed"):
        found.latest(end, _ALL)


def test_a_long_object_is_read_in_parts_and_parquet_by_its_row_groups(
    server: Seaweed, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "PART_BYTES", 1000)
    monkeypatch.setattr(file_parts, "PART_BYTES", 1000)
    monkeypatch.setattr(file_format, "_SPLIT_BYTES", 3000)
    _put(server, f"{prefix}/a.json", _lines(*range(2000)))
    found = _read(server, tmp_path)
    start = found.initial(at_end=False)
    assert len(found.splits(start, found.latest(start, _ALL))) > 5
    batches, _ = _drain(found, Limit(300))
    assert len(batches) > 5
    assert sorted(each for batch in _ids(batches) for each in batch) == list(range(2000))
    stored = io.BytesIO()
    pq.write_table(pa.table({"id": range(2000), "name": ["x"] * 2000}), stored, row_group_size=200)
    _put(server, f"{prefix}/p/a.parquet", stored.getvalue())
    folder = _bucket(server, f"data/{prefix}/p")
    columns = (physical.Column("id", BIGINT),)
    rows = _reader(tmp_path, folder=folder, format={"name": "PARQUET"}, columns=columns, state=tmp_path / "p")
    assert _ids(_drain(rows)[0]) == [list(range(2000))]


def test_an_object_is_read_as_it_was_listed_or_not_at_all(server: Seaweed, tmp_path: Path, prefix: str) -> None:
    _put(server, f"{prefix}/a.json", _lines(1))
    found = _read(server, tmp_path)
    start = found.initial(at_end=False)
    end = found.latest(start, _ALL)
    _put(server, f"{prefix}/a.json", _lines(2))
    assert _code(found, start, end) == "SQ3301"
    with pytest.raises(SinkqlError) as error:
        found.latest(end, _ALL)
    assert error.value.code == "SQ3301"
    assert f'file "s3://data/{prefix}/a.json" changed after it was listed' in error.value.message
    _client(server).delete_object(Bucket="data", Key=f"{prefix}/a.json")
    assert _code(found, start, end) == "SQ3302"
    assert found.latest(end, _ALL) == end


@pytest.mark.parametrize("then", [None, _lines(3) * 500], ids=["removed", "overwritten"])
def test_a_long_object_that_changes_between_the_listing_and_the_look_into_it_waits_for_the_next_look(
    server: Seaweed, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch, then: bytes | None
) -> None:
    monkeypatch.setattr(file_format, "_SPLIT_BYTES", 3000)
    _put(server, f"{prefix}/a.json", _lines(*range(1000)))
    _put(server, f"{prefix}/b.json", _lines(1))
    found = _read(server, tmp_path)
    listing = Bucket.pages

    def changing(folder: Bucket, *known: Container[Any]) -> Iterator[tuple[bytes, Sequence[object_listing.Entry]]]:
        yield from list(listing(folder, *known))
        monkeypatch.setattr(Bucket, "pages", listing)
        if then is None:
            _client(server).delete_object(Bucket="data", Key=f"{prefix}/a.json")
        else:
            _put(server, f"{prefix}/a.json", then)

    monkeypatch.setattr(Bucket, "pages", changing)
    batches, _ = _drain(found)
    assert _ids(batches) == [[1], *([] if then is None else [[3] * 500])]
    monkeypatch.setattr(Bucket, "pages", changing)
    _put(server, f"{prefix}/a.json", _lines(*range(1000)))
    target = _read(server, tmp_path, state=tmp_path / "target").target
    if then is None:
        assert target(found.initial(at_end=False))["log"] is not None
    else:
        with pytest.raises(SinkqlError, match="changed after it was listed"):
            target(found.initial(at_end=False))


def _code(found: FilesReader, start: Offsets, end: Offsets) -> str:
    (split,) = found.splits(start, end)
    with pytest.raises(SinkqlError) as error:
        list(found.read(split, ReadCounts()))
    return error.value.code


@pytest.mark.parametrize(
    ("name", "changes", "code", "option"),
    [
        ("nowhere", {}, "SQ3307", "PATH"),
        ("data", {"s3.secret-access-key": "wrong"}, "SQ4220", "ACCESS KEY ID"),
        ("data", {"s3.access-key-id": "nobody"}, "SQ4220", "ACCESS KEY ID"),
        ("data", {"s3.endpoint": "http://127.0.0.1:1"}, "SQ4223", "ENDPOINT"),
    ],
)
def test_what_is_wrong_is_told_at_its_option(
    server: Seaweed, name: str, changes: dict[str, str], code: str, option: str
) -> None:
    with pytest.raises(SinkqlError) as error:
        list(_bucket(server, name, changes).list())
    assert (error.value.code, error.value.option) == (code, option)


@pytest.mark.parametrize("page", ["<!doctype html><p>Hello</p><br>", "<html><body>Hello</body></html>"])
def test_a_server_that_is_no_s3_is_told_at_its_endpoint(page: str) -> None:
    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.path-style-access": "true"}
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        place = {"s3.endpoint": f"http://127.0.0.1:{site.server_port}"}
        try:
            list(Bucket.of("s3://data/x", "*", False, S3({**keys, **place})).list())
        except SinkqlError as error:
            found = error
        finally:
            site.shutdown()
    assert (found.code, found.option) == ("SQ4223", "ENDPOINT")
    assert "does not answer like S3" in found.message


@pytest.mark.parametrize(
    ("answer", "code"), [("AccessDenied", "SQ3308"), ("PermanentRedirect", "SQ4303"), ("ExpiredToken", "SQ4308")]
)
def test_what_amazon_answers_has_its_own_code(
    server: Seaweed, monkeypatch: pytest.MonkeyPatch, answer: str, code: str
) -> None:
    from botocore.exceptions import ClientError

    found = _bucket(server, "data")

    class Refusing:
        def list_objects_v2(self, **given: Any) -> None:
            raise ClientError({"Error": {"Code": answer, "Message": "token=abcd"}}, "ListObjectsV2")

    found._client.append(Refusing())
    with pytest.raises(SinkqlError) as error:
        list(found.list())
    assert error.value.code == code
    assert "abcd" not in f"{error.value.message}{error.value.detail}"
