"""Expiring credentials: keys of roles, vended keys and catalog tokens. A run continues with new ones."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from sinkql.connectors.aws.store import Role, open_store
from sinkql.connectors.iceberg.table import rest_catalog
from sinkql.connectors.iceberg.table.reader import lines
from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore, now
from support.lake import Lake, Sink
from support.proxy import Rule, proxy
from support.seaweed import ROLE, SECRET, Seaweed

pytestmark = pytest.mark.server


@dataclass
class Clock:
    """A clock that only the test moves."""

    ahead: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return now() + self.ahead


@dataclass
class RoleLake(Lake):
    """A catalog whose files are accessed by a role; `s3` is the port of a proxy in front of the store."""

    s3: int = 0
    clock: Clock = field(default_factory=Clock)

    @property
    def using(self) -> physical.Connection:
        options = {"assume_role_arn": ROLE, "endpoint": f"http://127.0.0.1:{self.s3}"}
        return physical.Connection("aws", "AWS", options)

    def store(self, connection: physical.Connection) -> ObjectStore:
        found = open_store(connection.options, lambda _: SECRET)
        assert isinstance(found, Role)
        found.keys.clock = self.clock
        return found


@pytest.fixture
def roles(tmp_path: Path, server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RoleLake, Rule]]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.user)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    with proxy(server.s3) as (port, rule):
        yield RoleLake(tmp_path, server, s3=port), rule


def run_out(rule: Rule, lake: RoleLake) -> None:
    """Expire all issued keys of the role, and move the clock past their expiry."""
    rule.expired |= {key for key in rule.keys if key.startswith("ASIA")}
    lake.clock.ahead += timedelta(minutes=50)


@pytest.mark.parametrize("upsert", [False, True])
def test_a_role_is_assumed_again_before_its_keys_run_out(
    roles: tuple[RoleLake, Rule], name: str, *, upsert: bool
) -> None:
    lake, rule = roles
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    sink.put((1, "a"), (2, "a"))
    run_out(rule, lake)
    sink.put((2, "b"), (3, "b"))
    assert lake.rows(name) == [(1, "a"), *([] if upsert else [(2, "a")]), (2, "b"), (3, "b")]
    assert len({key for key in rule.keys if key.startswith("ASIA")}) == 2


def test_keys_that_run_out_between_writing_and_committing_are_renewed(roles: tuple[RoleLake, Rule], name: str) -> None:
    lake, rule = roles
    sink = Sink(lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    run_out(rule, lake)
    sink.finish(attempt)
    assert lake.rows(name) == [(1, "a")]


def test_a_table_is_read_on_when_its_keys_have_run_out(roles: tuple[RoleLake, Rule], name: str) -> None:
    lake, rule = roles
    sink = Sink(lake, name)
    sink.start()
    table = sink.writer.table.load()
    before = table.io.new_input(table.metadata_location).open().read()
    run_out(rule, lake)
    assert table.io.new_input(table.metadata_location).open().read() == before


def test_a_batch_whose_keys_ran_out_is_written_again(roles: tuple[RoleLake, Rule], name: str) -> None:
    lake, rule = roles
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"))
    sink.writer.refresh()
    task = sink.writer.begin(bucketing="test", buckets=2)
    run_out(rule, lake)
    with pytest.raises(SinkqlError) as caught:
        sink.write(task, [(2, "b")])
    assert (caught.value.code, caught.value.retryable) == ("SQ4308", True)
    sink.put((2, "b"))
    assert lake.rows(name) == [(1, "a"), (2, "b")]


def test_while_a_role_is_refused_its_keys_continue_to_their_end(roles: tuple[RoleLake, Rule]) -> None:
    lake, _ = roles
    store = lake.store(lake.using)
    assert isinstance(store, Role)
    first = store.properties()
    store.request = {**store.request, "RoleArn": f"{ROLE}-that-is-gone"}
    lake.clock.ahead = timedelta(minutes=40)
    assert store.properties() == first
    lake.clock.ahead = timedelta(minutes=59)
    with pytest.raises(SinkqlError) as caught:
        store.properties()
    assert (caught.value.code, caught.value.option) == ("SQ4222", "ASSUME ROLE ARN")


# --- vended keys -------------------------------------------------------------------------------------------------


@dataclass
class VendedLake(Lake):
    """A catalog that vends the keys to its tables' files."""

    @property
    def using(self) -> None:
        return None

    @property
    def connection(self) -> physical.Connection:
        found = super().connection
        return physical.Connection(found.name, found.kind, {**found.options, "access_delegation": "vended-credentials"})


@pytest.mark.parametrize("upsert", [False, True])
def test_a_catalog_gives_the_keys_to_its_files(tmp_path: Path, server: Seaweed, name: str, *, upsert: bool) -> None:
    lake = VendedLake(tmp_path, server)
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    sink.put((1, "a"))
    sink.put((1, "b"))
    assert lake.rows(name) == [*([] if upsert else [(1, "a")]), (1, "b")]


def test_given_keys_are_asked_for_again_before_they_run_out(
    tmp_path: Path, server: Seaweed, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = VendedLake(tmp_path, server)
    sink = Sink(lake, name)
    sink.start()
    table = sink.writer.table.load()
    key = table.io.properties["s3.access-key-id"]
    assert table.io.new_input(table.metadata_location).exists()
    assert table.io.properties["s3.access-key-id"] == key
    later = rest_catalog.now_ms() + 800_000
    monkeypatch.setattr(rest_catalog, "now_ms", lambda: later)
    assert table.io.new_input(table.metadata_location).exists()
    assert table.io.properties["s3.access-key-id"] != key


def test_a_catalog_that_gives_no_keys_is_an_error_at_the_option(tmp_path: Path, server: Seaweed, name: str) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(VendedLake(tmp_path, server, port), name)
        sink.start()
        rule.deaf = True
        with pytest.raises(SinkqlError) as caught:
            sink.put((1, "a"))
        assert (caught.value.code, caught.value.option) == ("SQ4210", "ACCESS DELEGATION")
        assert caught.value.retryable
        rule.deaf = False
        sink.put((1, "a"))
    assert sink.lake.rows(name) == [(1, "a")]


def test_named_keys_are_not_replaced_by_given_ones(tmp_path: Path, server: Seaweed, name: str) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(Lake(tmp_path, server, port), name)
        sink.start()
        assert rule.delegations == {None}
        Sink(VendedLake(tmp_path, server, port), f"{name}v", id="5f6e1c1e-0002").start()
        assert rule.delegations == {None, "vended-credentials"}
        table = sink.writer.table.load()
    assert table.io.new_input(table.metadata_location).exists()
    assert table.io.properties["s3.access-key-id"] == server.user


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.share(4)
@pytest.mark.parametrize("status", [401, 419, 429, 500, 503])
def test_a_token_that_ran_out_or_a_catalog_that_stumbles_is_survived(
    tmp_path: Path, server: Seaweed, name: str, status: int
) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(Lake(tmp_path, server, port), name)
        sink.start()
        rule.statuses = [status]  # during the load
        attempt = sink.attempt([(1, "a")])
        rule.statuses = [status]  # during the commit
        sink.finish(attempt)
        assert rule.statuses == []
    assert sink.lake.rows(name) == [(1, "a")]


@pytest.mark.parametrize(("status", "code"), [(401, "SQ4202"), (419, "SQ4202"), (403, "SQ4203")])
def test_a_catalog_that_keeps_refusing_is_one_error(
    tmp_path: Path, server: Seaweed, name: str, status: int, code: str
) -> None:
    with proxy(server.rest) as (port, rule):
        sink = Sink(Lake(tmp_path, server, port), name)
        sink.start()
        rule.statuses = [status] * 4
        with pytest.raises(SinkqlError) as caught:
            sink.put((1, "a"))
        assert (caught.value.code, caught.value.retryable) == (code, True)
        rule.statuses = []
        sink.put((1, "a"))
    assert sink.lake.rows(name) == [(1, "a")]


@dataclass
class TokenLake(Lake):
    """A catalog whose tokens come from another server."""

    tokens: int = 0

    @property
    def connection(self) -> physical.Connection:
        found = super().connection
        url = f"http://127.0.0.1:{self.tokens}/v1/oauth/tokens"
        return physical.Connection(found.name, found.kind, {**found.options, "oauth2_server_url": url})


def test_tokens_come_from_the_server_that_is_named(tmp_path: Path, server: Seaweed, name: str) -> None:
    with proxy(server.rest) as (port, asked), proxy(server.rest) as (catalog, rule):
        sink = Sink(TokenLake(tmp_path, server, catalog, port), name)
        sink.start()
        first = len(asked.paths)
        rule.statuses = [401]
        sink.put((1, "a"))
        assert set(asked.paths) == {"/v1/oauth/tokens"}
        assert len(asked.paths) == first + 1
        assert "/v1/oauth/tokens" not in rule.paths


# --- S3 Tables ---------------------------------------------------------------------------------------------------


@dataclass
class S3TablesLake(Lake):
    """The same tables accessed with SigV4; `port` may be a proxy's."""

    warehouse: str = "lake"

    @property
    def using(self) -> None:
        return None

    @property
    def connection(self) -> physical.Connection:
        assert self.server is not None
        keys: dict[str, Any] = {
            "access_key_id": {"secret_text": [self.server.user]},
            "secret_access_key": {"secret_text": [{"secret": "s"}]},
            "endpoint": f"http://127.0.0.1:{self.server.s3}",
        }
        options = {
            "catalog_type": "s3tablesrest",
            "url": f"http://127.0.0.1:{self.port or self.server.rest}",
            "warehouse": self.warehouse,
            "aws_connection": {"connection": "aws"},
        }
        aws = physical.Connection("aws", "AWS", keys)
        return physical.Connection("lake", "ICEBERG CATALOG", options, {"aws": aws})

    def store(self, connection: physical.Connection) -> ObjectStore:
        return open_store(connection.options, lambda _: SECRET)


@pytest.mark.parametrize("warehouse", ["lake", "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"])
def test_s3_tables_are_written_with_signed_requests(tmp_path: Path, server: Seaweed, name: str, warehouse: str) -> None:
    with proxy(server.rest) as (port, rule):
        lake = S3TablesLake(tmp_path, server, port, warehouse)
        sink = Sink(lake, name, upsert=True)
        sink.start()
        sink.put((1, "a"), (2, "b"))
        sink.put((1, "c"))
        assert lake.rows(name) == [(1, "c"), (2, "b")]
        assert set(rule.keys) == {server.user}


def test_the_printed_line_reads_s3_tables(tmp_path: Path, server: Seaweed, name: str) -> None:
    sink = Sink(S3TablesLake(tmp_path, server), name)
    sink.start()
    sink.put((1, "a"))
    printed = dict(line.split(":", 1) for line in lines(sink.planned, sink.context))
    assert list(printed) == ["Set first", "PyIceberg"]
    keys = {"AWS_ACCESS_KEY_ID": server.user, "AWS_SECRET_ACCESS_KEY": server.secret}
    assert printed["Set first"].strip() == f"{', '.join(keys)} in the environment"
    assert SECRET not in str(printed)
    command = [sys.executable, "-W", "ignore", "-c", printed["PyIceberg"].strip()]
    done = subprocess.run(command, env=os.environ | keys, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == [{"id": 1, "name": "a"}]
