"""A real S3 whose keys expire, that refuses, is down or stalls: one sentence reports it, and reading continues."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import boto3
import pytest

from files.test_files_reader import _ALL, _reader, _rows
from sinkql.connector_api.stream import ReadCounts
from sinkql.connectors.aws.store import S3, Role, open_store
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError
from sinkql.object_store import s3
from sinkql.object_store.store import now
from support.proxy import Rule, proxy
from support.seaweed import ROLE, SECRET, Seaweed
from support.silent import silent

pytestmark = pytest.mark.server


@dataclass
class Clock:
    """A clock that only the test moves."""

    ahead: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return now() + self.ahead


@dataclass
class Objects:
    """Objects below a prefix, behind a proxy."""

    server: Seaweed
    prefix: str
    port: int
    rule: Rule
    clock: Clock = field(default_factory=Clock)

    @property
    def storage(self) -> dict[str, str]:
        return {**self.server.storage, "s3.endpoint": f"http://127.0.0.1:{self.port}"}

    def put(self, *numbers: int) -> None:
        client = boto3.client(
            "s3", endpoint_url=self.server.storage["s3.endpoint"], aws_access_key_id=self.server.user,
            aws_secret_access_key=self.server.secret, region_name="us-east-1",
        )  # fmt: skip
        for number in numbers:
            client.put_object(Bucket="data", Key=f"{self.prefix}/{number}.json", Body=b'{"id": %d}' % number)

    def reader(self, tmp_path: Path, store: S3 | Role) -> FilesReader:
        return _reader(tmp_path, folder=Bucket.of(f"s3://data/{self.prefix}", "*", False, store))

    def role(self) -> Role:
        options = {"assume_role_arn": ROLE, "endpoint": self.storage["s3.endpoint"]}
        found = open_store(options, lambda _: SECRET)
        assert isinstance(found, Role)
        found.keys.clock = self.clock
        return found

    def run_out(self) -> None:
        """Expire all present keys of the role, and move the clock past their expiry."""
        self.rule.expired |= {key for key in self.rule.keys if key.startswith("ASIA")}
        self.clock.ahead += timedelta(minutes=50)


@pytest.fixture
def objects(server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.user)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    monkeypatch.setattr(s3, "_TRIES", 1)
    with proxy(server.s3) as (port, rule):
        yield Objects(server, tmp_path.name, port, rule)


def test_a_role_is_assumed_again_before_its_keys_run_out(objects: Objects, tmp_path: Path) -> None:
    reader = objects.reader(tmp_path, objects.role())
    start = reader.initial(at_end=False)
    objects.put(1)
    at = reader.latest(start, _ALL)
    (split,) = reader.splits(start, at)
    task = pickle.dumps(reader)  # with the present keys
    objects.run_out()
    with pytest.raises(SinkqlError) as error:
        list(pickle.loads(task).read(split, ReadCounts()))
    assert (error.value.code, error.value.retryable) == ("SQ4308", True)
    assert error.value.message == 'the keys to "s3://data" have expired'
    assert [row["id"] for row in _rows(pickle.loads(pickle.dumps(reader)), start, at)] == [1]
    objects.put(2)
    assert [row["id"] for row in _rows(reader, at, reader.latest(at, _ALL))] == [2]
    assert len({key for key in objects.rule.keys if key.startswith("ASIA")}) == 2


def test_keys_of_a_role_that_are_refused_before_their_time_are_told_and_replaced(
    objects: Objects, tmp_path: Path
) -> None:
    reader = objects.reader(tmp_path, objects.role())
    objects.put(1)
    at = reader.latest(reader.initial(at_end=False), _ALL)
    objects.put(2)
    objects.rule.expired |= set(objects.rule.keys) - {objects.server.user}
    with pytest.raises(SinkqlError) as error:
        reader.latest(at, _ALL)
    assert error.value.code == "SQ4308"
    assert [row["id"] for row in _rows(reader, at, reader.latest(at, _ALL))] == [2]


def test_a_role_that_may_not_be_assumed_is_told_at_its_option(objects: Objects, tmp_path: Path) -> None:
    store = objects.role()
    store.request = {**store.request, "RoleArn": f"{ROLE}-that-is-gone"}
    with pytest.raises(SinkqlError) as error:
        objects.reader(tmp_path, store).initial(at_end=True)
    assert (error.value.code, error.value.option, error.value.retryable) == ("SQ4222", "ASSUME ROLE ARN", True)


def _expired(objects: Objects) -> Callable[[], None]:
    objects.rule.expired.add(objects.server.user)
    return objects.rule.expired.clear


def _denied(objects: Objects) -> Callable[[], None]:
    objects.rule.denied = True
    return lambda: setattr(objects.rule, "denied", False)


def _down(objects: Objects) -> Callable[[], None]:
    objects.rule.down = True
    return lambda: setattr(objects.rule, "down", False)


def _failing(objects: Objects) -> Callable[[], None]:
    objects.rule.statuses = [503] * 100
    return objects.rule.statuses.clear


@pytest.mark.parametrize(
    ("trouble", "code", "message"),
    [
        (_expired, "SQ4308", 'the keys to "s3://data" have expired'),
        (_denied, "SQ3308", '"s3://data" denies access'),
        (_down, "SQ4223", "AWS does not answer"),
        (_failing, "SQ4226", "AWS returned an error"),
    ],
)
def test_a_bucket_that_refuses_for_a_while_is_told_in_a_sentence_and_read_on(
    objects: Objects, tmp_path: Path, trouble: Callable[[Objects], Callable[[], None]], code: str, message: str
) -> None:
    reader = objects.reader(tmp_path, S3(objects.storage))
    objects.put(1)
    start = reader.initial(at_end=False)
    at = reader.latest(start, _ALL)
    objects.put(2)
    end = trouble(objects)
    for failing in (lambda: reader.latest(at, _ALL), lambda: _rows(reader, start, at)):
        with pytest.raises(SinkqlError) as error:
            failing()
        assert (error.value.code, error.value.message, error.value.retryable) == (code, message, True)
    end()
    assert [row["id"] for row in _rows(reader, start, reader.latest(at, _ALL))] == [1, 2]


def test_a_bucket_that_stalls_is_told(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_READ_S", 0.1)
    with silent() as (address, asked), pytest.raises(SinkqlError) as error:
        objects.reader(tmp_path, S3({**objects.storage, "s3.endpoint": address})).initial(at_end=True)
    assert (error.value.code, error.value.retryable, asked.empty()) == ("SQ4223", True, False)


def test_an_object_that_is_cut_off_on_its_way_is_read_again(objects: Objects, tmp_path: Path) -> None:
    reader = objects.reader(tmp_path, S3(objects.storage))
    objects.put(1)
    start = reader.initial(at_end=False)
    at = reader.latest(start, _ALL)
    objects.rule.cut = 1
    with pytest.raises(SinkqlError) as error:
        _rows(reader, start, at)
    assert (error.value.code, error.value.retryable) == ("SQ4223", True)
    assert [row["id"] for row in _rows(reader, start, at)] == [1]
