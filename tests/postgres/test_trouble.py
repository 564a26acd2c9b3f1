"""Failures between a source and its server are reported with a hint."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from sinkql.connector_api.cdc import CapturedTable
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.pgoutput import HEADER
from sinkql.connectors.postgres.slot import Timelines, application_name, read_place, slot_name
from sinkql.connectors.postgres.stream import PostgresStream, forget
from sinkql.errors import SinkqlError, error_codes
from support.patience import Deadline, joined
from support.postgres import Postgres
from support.postgres import postgres as postgres_server

from .reading import Reading, login, reading, tables

pytestmark = pytest.mark.server


@contextmanager
def _raises(code: str, *, retryable: bool = False) -> Iterator[None]:
    with pytest.raises(SinkqlError) as caught:
        yield
    assert (caught.value.code, error_codes[code].retryable) == (code, retryable)
    assert caught.value.hint


@pytest.fixture
def one_table(postgres: Postgres, postgres_database: str) -> dict[str, CapturedTable]:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t", postgres_database)
    return tables(postgres, postgres_database)


def test_a_slot_that_is_gone_or_has_moved_on(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    stream = Reading(postgres, postgres_database, one_table)
    start = stream.start
    postgres.execute("INSERT INTO t VALUES (1); SELECT pg_current_xact_id()", postgres_database)
    slot = slot_name(stream.source.id)
    postgres.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())", postgres_database)
    with _raises("SQ3702"):
        stream.begin(start)
    forget(login(postgres, postgres_database), stream.source, failure)
    with _raises("SQ3701"):
        stream.begin(start)
    forget(login(postgres, postgres_database), stream.source, failure)  # no slot is left
    stream.stream.close()


def test_another_server(postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]) -> None:
    found = Reading(postgres, postgres_database, one_table)
    options = {**found.source.options, "tuning": {"system": "7000000000000000001"}}
    with _raises("SQ3703"):
        PostgresStream(login(postgres, postgres_database), replace(found.source, options=options), failure).check()
    found.stream.close()


def test_a_publication_that_was_dropped(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    postgres.execute("DROP PUBLICATION p", postgres_database)
    with _raises("SQ3704"):
        found.stream.check()
    found.stream.close()


def test_a_slot_that_another_program_reads(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    with closing(postgres.connect(postgres_database, replication="database", application_name="other")) as other:
        slot = slot_name(found.source.id)
        command = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names 'p')"
        assert other.pgconn.exec_(command.encode()).status == psycopg.pq.ExecStatus.COPY_BOTH
        with _raises("SQ3706", retryable=True):
            found.begin()
    found.stream.close()


def test_a_transaction_that_does_not_end(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    found.stream.close()
    monkeypatch.setattr("sinkql.connectors.postgres.slot._PATIENCE_S", 0.2)
    with postgres.connect(postgres_database) as writer:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        with _raises("SQ3708", retryable=True):
            Reading(postgres, postgres_database, one_table)
        with _raises("SQ3708", retryable=True):  # its slot exists, perhaps as if newly created
            Reading(postgres, postgres_database, one_table, found.source.id)
        writer.execute("COMMIT")


def test_a_slot_that_is_being_made_for_a_process_that_died(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    id_ = str(uuid.uuid4())
    making = f"SELECT pg_create_logical_replication_slot('{slot_name(id_)}', 'pgoutput')"
    there = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot_name(id_)}'"
    with postgres.connect(postgres_database) as writer, closing(postgres.connect(postgres_database)) as maker:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        maker.pgconn.send_query(making.encode())  # it waits for the writer
        _wait(lambda: postgres.execute(there) == [(None,)])
        ending = threading.Thread(target=_commit_once_waited_for, args=(postgres, writer, id_), daemon=True)
        ending.start()
        found = Reading(postgres, postgres_database, one_table, id_)
        joined(ending)
        assert found.start == Timelines(1).position(read_place(str(postgres.execute(there)[0][0])))
    found.stream.close()


def _commit_once_waited_for(postgres: Postgres, writer: psycopg.Connection[Any], id_: str) -> None:
    asked = f"SELECT 1 FROM pg_stat_activity WHERE application_name = '{application_name(id_)}' AND query LIKE '%slot%'"
    _wait(lambda: postgres.execute(asked))
    writer.execute("COMMIT")


def test_what_a_chunk_cannot_read(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    role = f"reader_{postgres_database}"
    postgres.execute(f"CREATE ROLE {role} LOGIN", postgres_database)
    user = login(postgres, postgres_database, user={"secret_text": [role]})
    reader = PostgresStream(user, found.source, failure)
    reader._timelines = Timelines(1)  # the role may not query them
    with _raises("SQ3710", retryable=True), reader.chunk(one_table["t"]):
        pass
    postgres.execute(f"DROP ROLE {role}", postgres_database)
    with postgres.connect(postgres_database) as writer:
        writer.execute("BEGIN; TRUNCATE t")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sinkql.connectors.postgres.chunk._SETTINGS", "SET lock_timeout = '50ms'")
            with _raises("SQ3712", retryable=True), found.stream.chunk(one_table["t"]):
                pass
    postgres.execute("DROP TABLE t", postgres_database)
    with _raises("SQ3711"), found.stream.chunk(one_table["t"]):
        pass
    found.stream.close()


def test_messages_that_are_not_those_of_the_protocol(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    with reading(postgres, postgres_database) as found:
        postgres.execute("INSERT INTO t VALUES (1)", postgres_database)
        stream = found.stream
        replication, deadline = stream._replication, Deadline()
        assert replication is not None
        while not replication._complete:
            replication.receive(0)
            deadline.check("the change")
        place = next(number for number, each in enumerate(replication._messages) if each[HEADER] == ord("I"))
        replication._messages[place] = bytes(replication._messages[place])[:-1]
        with _raises("SQ3713"):
            stream.receive(0)


@pytest.mark.long
def test_settings_of_a_server() -> None:
    with postgres_server({"max_replication_slots": "1", "max_slot_wal_keep_size": "4MB"}) as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
        found = Reading(server, "postgres", tables(server, "postgres"))
        assert found.stream.most_retained() == 2 << 20
        with _raises("SQ3707", retryable=True):
            Reading(server, "postgres", found.tables)
        slot = slot_name(found.source.id)
        status = f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{slot}'"
        more = "CREATE TABLE u AS SELECT * FROM generate_series(1, 20000); DROP TABLE u; CHECKPOINT;"
        _wait(lambda: server.execute(f"{more} {status}") == [("lost",)])
        with _raises("SQ3702"):
            found.begin()
        found.stream.close()
        server.settings = {"wal_level": "replica"}
        server.drop_slot(slot)
        server.restart()
        with _raises("SQ3705"):
            PostgresStream(login(server, "postgres"), found.source, failure).check()


def _wait(done: Callable[[], object]) -> None:
    deadline = Deadline()
    while not done():
        deadline.check("the awaited condition")


def test_a_position_beyond_a_failover_is_lost() -> None:
    timelines = Timelines(3, ((1, 0x500), (2, 0x900)))
    assert [timelines.position(place)[:8] for place in (0x100, 0x500, 0x501, 0x901)] == [
        "00000001",
        "00000001",
        "00000002",
        "00000003",
    ]
    before = Timelines(1)
    assert timelines.place(before.position(0x500)) == 0x500
    assert timelines.place(before.position(0x501)) is None


def test_a_position_that_the_server_has_not_come_to_is_lost(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    """This happens if an old copy of the server's disk is restored."""
    found = Reading(postgres, postgres_database, one_table)
    with _raises("SQ3709"):
        found.stream.begin(Timelines(1).position(read_place("7F/0")), list(one_table.values()))
    found.stream.close()


def test_a_standby_that_takes_over_in_between_is_asked_again(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    found.stream._timelines = Timelines(1, ((0, 1),))
    with _raises("SQ4413", retryable=True):
        found.begin()
    found.stream.close()


def test_what_was_read_and_lost_at_a_failover_stalls(
    postgres: Postgres, postgres_database: str, one_table: dict[str, CapturedTable]
) -> None:
    found = Reading(postgres, postgres_database, one_table)
    found.stream._timelines = Timelines(2, ((1, 0x100),))
    with _raises("SQ3709"):
        found.stream.begin(Timelines(1).position(0x1000), list(one_table.values()))
    found.stream.close()
