"""Outages and refusals of a catalog or store that outlast a commit's retries: no row is lost or duplicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinkql import physical
from sinkql.connectors.aws.store import S3
from sinkql.connectors.iceberg.table.target import Patience
from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore
from support.lake import Lake, Sink
from support.proxy import Rule, proxy
from support.seaweed import Seaweed

pytestmark = pytest.mark.server

_LONG = [503] * 200
"""More replies than a commit waits for."""
ROWS = [(1, "a"), (2, "b2"), (3, "c")]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)


@dataclass
class FarLake(Lake):
    """A catalog whose files are also behind a proxy."""

    s3: int = 0

    def store(self, connection: physical.Connection) -> ObjectStore:
        assert self.server is not None
        return S3({**self.server.storage, "s3.endpoint": f"http://127.0.0.1:{self.s3}"})


@pytest.fixture
def far(server: Seaweed, tmp_path: Path) -> Iterator[tuple[FarLake, Rule]]:
    with proxy(server.s3) as (port, rule):
        yield FarLake(tmp_path, server, s3=port), rule


def _refused(deed: Callable[[], object], code: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        deed()
    assert (caught.value.code, caught.value.retryable) == (code, True)
    assert "\n" not in caught.value.message


@pytest.mark.share(2)
@pytest.mark.parametrize("upsert", [True, False], ids=["upsert", "append"])
def test_a_catalog_that_was_down_for_long(server: Seaweed, tmp_path: Path, name: str, *, upsert: bool) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(Lake(tmp_path, server, port), name, upsert=upsert)
        sink.start()
        sink.put((1, "a"), *([(2, "b")] if upsert else []))
        attempt = sink.attempt([(2, "b2")])
        rule.down = True
        for deed in (lambda: sink.finish(attempt), lambda: sink.put((3, "c"))):
            _refused(deed, "SQ4201")
        rule.down = False
        sink.put((2, "b2"))
        sink.put((3, "c"))
    assert sink.lake.rows(name) == ROWS


@pytest.mark.share(4)
@pytest.mark.parametrize(("status", "code"), [(503, "SQ4201"), (401, "SQ4202"), (403, "SQ4203"), (404, "SQ3503")])
def test_a_catalog_that_answers_nonsense_for_long(
    server: Seaweed, tmp_path: Path, name: str, status: int, code: str
) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(Lake(tmp_path, server, port), name)
        sink.start()
        sink.put((1, "a"))
        rule.statuses = [status] * len(_LONG)
        _refused(lambda: sink.put((2, "b2")), code)
        rule.statuses = []
        sink.put((2, "b2"), (3, "c"))
    assert sink.lake.rows(name) == ROWS


@pytest.mark.share(2)
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_a_bucket_that_refuses_for_a_while(far: tuple[FarLake, Rule], name: str, *, upsert: bool) -> None:
    lake, rule = far
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    sink.put((1, "a"), *([(2, "b")] if upsert else []))
    sink.writer.refresh()
    task = sink.writer.begin(bucketing="test", buckets=2)
    rule.denied = True
    _refused(lambda: sink.write(task, [(2, "b2")]), "SQ4302")
    rule.denied = False
    attempt = sink.attempt([(2, "b2")])
    rule.denied = True
    _refused(lambda: sink.finish(attempt), "SQ4302")
    sink.writer.maintenance.maintain()
    rule.denied = False
    sink.put((2, "b2"))
    sink.put((3, "c"))
    assert lake.rows(name) == ROWS


def test_a_namespace_that_was_dropped(server: Seaweed, tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, server)
    sink = Sink(lake, name, options={"namespace": f"gone_{name}"})
    sink.start()
    catalog = lake.catalog()
    catalog.drop_table((f"gone_{name}", name))
    catalog.drop_namespace(f"gone_{name}")
    _refused(lambda: sink.put((1, "a")), "SQ3503")
    _refused(lambda: Sink(lake, name, options={"namespace": f"gone_{name}"}).start(epoch=2), "SQ3503")
    assert (f"gone_{name}",) not in catalog.list_namespaces()
