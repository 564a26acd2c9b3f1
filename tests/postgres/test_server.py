"""The guarantees of the server that tests use."""

from __future__ import annotations

import signal

import pytest

from support.postgres import Postgres, standby
from support.postgres import postgres as postgres_server

pytestmark = pytest.mark.server


def test_a_database_goes_with_its_slots(postgres: Postgres) -> None:
    name = postgres.database()
    postgres.execute("SELECT pg_create_logical_replication_slot('kept_by_nobody', 'pgoutput')", name)
    postgres.drop(name)
    assert postgres.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == []


@pytest.mark.long
def test_a_server_keeps_its_data_over_a_kill_and_a_standby_follows() -> None:
    with postgres_server({"synchronous_standby_names": ""}) as server:
        server.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        server.restart(signal.SIGQUIT)
        with standby(server) as other:
            assert other.execute("SELECT pg_is_in_recovery(), (SELECT count(*) FROM t)") == [(True, 1)]
