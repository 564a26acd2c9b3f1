"""Both stores of a log, a folder and an object store: each entry is written once, by one capture."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ReadTimeoutError

from capture.pipeline import QUICK, Running, Sinks, once
from capture.server import Server
from sinkql.capture.log_store import FencedLogError, FolderLogStore, LogStore
from sinkql.capture.object_log_store import ObjectLogStore
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import LogRetention
from sinkql.errors import SinkqlError
from sinkql.object_store import objects
from sinkql.object_store.s3 import S3Credentials
from support.seaweed import Seaweed

Open = Callable[[str], LogStore]


@pytest.fixture(params=["folder", "bucket"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Return a function that opens the store of one log for an owner."""
    if request.param == "folder":
        return lambda owner: FolderLogStore(tmp_path)
    server: Seaweed = request.getfixturevalue("bucket")
    return lambda owner: _bucket(server, tmp_path, owner)


def _bucket(
    server: Seaweed, folder: Path, owner: str = "here", storage: dict[str, str] | None = None
) -> ObjectLogStore:
    return ObjectLogStore.from_path(f"s3://data/logs/{folder.name}/", S3Credentials(storage or server.storage), owner)


def test_entry_is_written_once(open_store: Open) -> None:
    first, second = open_store("here"), open_store("here")
    first.open(1)
    second.open(1)
    made: list[int] = []

    def add(store: LogStore, who: int) -> None:
        for number in range(20):
            try:
                store.add(number, b"%d" % who)
                made.append(number)
            except FencedLogError:
                return

    rivals = [threading.Thread(target=add, args=(store, who)) for who, store in enumerate((first, second))]
    for each in rivals:
        each.start()
    for each in rivals:
        each.join()
    assert sorted(made) == list(range(20)) == first.numbers()
    assert [number for number, _ in second.entries()] == list(range(20))


def test_deleted_entries_are_absent_and_others_present(open_store: Open) -> None:
    store = open_store("here")
    assert (store.numbers(), store.entry(0), list(store.entries())) == ([], None, [])
    store.open(1)
    for number in range(3):
        store.add(number, b"entry %d" % number)
        with store.open_file(f"{number}.arrow") as file:
            file.write(b"rows")
            file.write(b" %d" % number)
        store.write(f"{number}.arrow.errors", b"errors")
    store.delete_entry(0)
    store.remove("0.arrow")
    store.sweep({"1.arrow", "2.arrow"})
    assert list(store.entries()) == [(1, b"entry 1"), (2, b"entry 2")]
    in_task = pickle.loads(pickle.dumps(store))
    assert (in_task.entry(1), bytes(in_task.read("1.arrow"))) == (b"entry 1", b"rows 1")
    for name in ("0.arrow", "0.arrow.errors", "9.arrow"):
        with pytest.raises(FileNotFoundError):
            store.read(name)
    store.discard()
    again = open_store("here")
    again.open(2)
    assert again.numbers() == []
    with pytest.raises(FileNotFoundError):
        again.read("1.arrow")


def test_small_files_stay_if_the_log_is_discarded(open_store: Open) -> None:
    store = open_store("here")
    store.open(1)
    assert store.noted("publication.json") is None
    for data in (b"one", b"two"):
        store.note("publication.json", data)
    store.sweep(set())
    store.discard()
    again = open_store("elsewhere")
    assert again.noted("publication.json") == b"two"
    again.unnote("publication.json")
    assert store.noted("publication.json") is None


def test_capture_behind_another_is_fenced(open_store: Open) -> None:
    zombie, other = open_store("here"), open_store("here")
    zombie.open(1)
    zombie.add(0, b"a")
    other.open(2)
    other.add(1, b"b")
    other.delete_entry(0)
    with pytest.raises(FencedLogError):
        zombie.add(1, b"c")
    other.add(2, b"d")
    other.delete_entry(1)
    with pytest.raises(FencedLogError):
        zombie.add(1, b"c")
    assert other.numbers() == [2]


# --- in a bucket ------------------------------------------------------------------------------------------------------


def test_capture_of_a_discarded_log_is_fenced(bucket: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zombie, other = _bucket(bucket, tmp_path), _bucket(bucket, tmp_path)
    zombie.open(1)
    zombie.add(0, b"a")

    def between(name: str) -> None:
        if name == "entry-put":
            other.open(2)
            other.discard()

    monkeypatch.setattr("sinkql.storage.failpoint.point", between)
    with pytest.raises(FencedLogError):
        zombie.add(1, b"b")
    assert other.numbers() == []


def test_catalogs_with_one_source_wait_for_each_other(bucket: Seaweed, tmp_path: Path) -> None:
    first, second = _bucket(bucket, tmp_path), _bucket(bucket, tmp_path, "there")
    first.open(7)
    first.add(0, b"a")
    with pytest.raises(SinkqlError) as failed:
        second.open(1)
    assert (failed.value.code, failed.value.detail) == ("SQ3442", "here")
    first.release()
    second.open(1)
    with pytest.raises(FencedLogError):
        first.add(1, b"b")
    second.add(1, b"c")
    assert [data for _, data in second.entries()] == [b"a", b"c"]


@pytest.mark.parametrize("done", [True, False])
def test_write_without_a_reply_is_read_back(
    bucket: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    store = _bucket(bucket, tmp_path)
    store.open(1)
    client = store._objects.client
    put = client.put_object

    def lost(**given: Any) -> Any:
        if done and "/log/" in given["Key"]:
            put(**given)
        if "/log/" in given["Key"]:
            raise ReadTimeoutError(endpoint_url="")
        return put(**given)

    monkeypatch.setattr(client, "put_object", lost)
    with nullcontext() if done else pytest.raises(SinkqlError, check=lambda error: error.code == "SQ4223"):
        store.add(0, b"a")
    assert store.numbers() == ([0] if done else [])


@pytest.mark.parametrize("lacks", ["IfNoneMatch", "IfMatch"])
def test_store_without_conditional_writes_is_refused(
    bucket: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """The object store here supports them, so the condition is removed from the requests."""
    store = _bucket(bucket, tmp_path)
    client = store._objects.client
    put = client.put_object
    monkeypatch.setattr(client, "put_object", lambda **given: put(**{k: v for k, v in given.items() if k != lacks}))
    with pytest.raises(SinkqlError) as failed:
        store.open(1)
    assert failed.value.code == "SQ3441"
    assert list(store._objects.list(store.prefix)) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [({"s3.secret-access-key": "wrong"}, "SQ4220"), ({"s3.endpoint": "http://127.0.0.1:1"}, "SQ4223")],
)
def test_unreachable_store_raises_the_cause(
    bucket: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], code: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    store = _bucket(bucket, tmp_path, storage={**bucket.storage, **change})
    for ask in (lambda: store.open(1), store.numbers, lambda: store.entry(1)):
        with pytest.raises(SinkqlError) as failed:
            ask()
        assert failed.value.code == code
    assert "wrong" not in repr(store)


def test_missing_bucket_is_reported(bucket: Seaweed, tmp_path: Path) -> None:
    store = ObjectLogStore.from_path("s3://nowhere/logs/", S3Credentials(bucket.storage), "here")
    with pytest.raises(SinkqlError) as failed:
        store.open(1)
    assert (failed.value.code, failed.value.option) == ("SQ3307", "LOG")


def test_many_readers_fetch_an_entry_once(bucket: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _bucket(bucket, tmp_path)
    store.open(1)
    store.add(0, b"a")
    asked: list[str] = []
    monkeypatch.setattr(objects.Objects, "get", _counted(objects.Objects.get, asked))
    readers = [_bucket(bucket, tmp_path) for _ in range(50)]
    for each in readers:
        assert (each.entry(0), each.entry(1)) == (b"a", None)
    assert len(asked) < 20
    store.add(1, b"b")
    assert readers[0].entry(1) == b"b"


def _counted(get: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def counted(self: objects.Objects, key: str) -> Any:
        asked.append(key)
        return get(self, key)

    return counted


# --- captures ---------------------------------------------------------------------------------------------------------


def _sinks(tmp_path: Path, bucket: Seaweed, keep: Any = "server") -> tuple[Sinks, Server]:
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", key, "old") for key in range(30)])
    return Sinks(tmp_path, keeping=LogRetention(keep), storage=bucket.storage), server


def test_rows_pass_through_a_bucket(tmp_path: Path, bucket: Seaweed) -> None:
    sinks, server = _sinks(tmp_path, bucket)
    with Running(sinks, replace(QUICK, chunk_bytes=200)):
        once(sinks)
        server.commit([("t", 1, "new"), ("t", 2, None)])
        once(sinks)
    assert sinks.rows() == server.rows()
    assert not (sinks.directory.folder / "log").exists()
    assert not (sinks.directory.folder / "data").exists()


@pytest.mark.share(4)
@pytest.mark.parametrize("what", ["all", "entry", "file", "head"])
def test_log_that_is_lost_in_a_bucket_begins_again(tmp_path: Path, bucket: Seaweed, what: str) -> None:
    sinks, server = _sinks(tmp_path, bucket)
    with Running(sinks, replace(QUICK, kept_seconds=1000.0)):
        once(sinks)
    store = sinks.directory.store
    assert isinstance(store, ObjectLogStore)
    keys = [key for key, _ in store._objects.list(store.prefix)]
    server.commit([("t", 1, "new")])
    match what:
        case "all":
            discard(sinks.directory)
        case "entry":
            store._objects.delete([[key for key in keys if "/log/" in key][1]])
        case "file":
            for key in [key for key in keys if "/data/" in key]:
                store._objects.put(key, b"damaged")
        case "head":
            store._objects.delete([key for key in keys if key.endswith("head.json")])
    again = Sinks(tmp_path, names=("a", "b"), storage=bucket.storage)
    with Running(again):
        once(again)
        once(again, "b", patience=60.0)
    assert again.rows() == again.rows("b") == server.rows()


def test_discarded_log_leaves_nothing_in_the_bucket(tmp_path: Path, bucket: Seaweed) -> None:
    sinks, _ = _sinks(tmp_path, bucket)
    with Running(sinks):
        once(sinks)
    store = sinks.directory.store
    assert isinstance(store, ObjectLogStore)
    discard(sinks.directory)
    assert [key for key, _ in store._objects.list(store.prefix)] == [f"{store.prefix}head.json"]
    head_now = msgspec.json.decode((store._objects.get(f"{store.prefix}head.json") or (b"", ""))[0])
    assert head_now["until"] == 0.0, "its capture has ended"
    store.drop()
    assert list(store._objects.list(store.prefix)) == []
