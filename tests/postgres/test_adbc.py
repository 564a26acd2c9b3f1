"""Large tables are read through ADBC: the rows are those that psycopg reads, whatever happens to the connection."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from sinkql.connector_api import dead_connection
from sinkql.connector_api.cdc import CapturedTable
from sinkql.connectors.postgres import adbc, chunk
from sinkql.connectors.postgres.adbc import AdbcFailedError, ExportedSnapshot
from sinkql.connectors.postgres.chunk import PostgresChunkRead, TableSize
from sinkql.connectors.postgres.client import Login
from sinkql.connectors.postgres.stream import PostgresStream
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.authority import authority
from support.front import front
from support.patience import PATIENCE_S, Deadline
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.ssh import ssh_server
from support.tls_front import tls_front

from .reading import Reading, login_at, tables
from .test_vectors import FIT, TYPES, UNFIT

pytestmark = pytest.mark.server

Run = Callable[[str], list[tuple[Any, ...]]]
_SIZE = 1 << 30
_MANY = "INSERT INTO t SELECT i, repeat('x', 200) || i FROM generate_series(1, {rows}) AS i"

_TABLE = f"CREATE TABLE t (id int PRIMARY KEY, x text); {_MANY.format(rows=400)}; CREATE PUBLICATION p FOR TABLE t"


@pytest.fixture
def run(postgres: Postgres, postgres_database: str) -> Run:
    return lambda text: postgres.execute(text, postgres_database)


@contextmanager
def _reading(
    server: Postgres, database: str, login: Login | None = None, as_text: tuple[str, ...] = ()
) -> Iterator[Reading]:
    """Read publication p, its tables as large ones; `login` opens the connections of chunks."""
    found = Reading(server, database, tables(server, database, as_text))
    found.stream._sizes.update({name: TableSize(50.0) for name in found.tables})
    if login is not None:
        found.stream._server = login
        found.stream._driver = adbc.AdbcDriver(login)
    try:
        yield found
    finally:
        found.stream.close()


Rows = tuple[list[dict[str, Any]], list[tuple[str, str, bytes]]]


def _read(read: PostgresChunkRead, size: int = _SIZE) -> Rows:
    """Return the rows and the failures of a chunk."""
    rows, errors = list[dict[str, Any]](), list[tuple[str, str, bytes]]()
    for part in read.read(None, size).rows:
        part.rows.validate(full=True)
        rows += part.rows.to_pylist()
        errors += [(each.position, each.message, each.raw) for each in part.errors]
    return rows, errors


def _read_again(read: PostgresChunkRead) -> Rows:
    """Return what psycopg reads in the transaction of a chunk that was read through ADBC."""
    assert read._second is not None, "the chunk was not read through ADBC"
    assert read._exported is not None, "reading through ADBC failed"
    read._exported = None
    return _read(read)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [FIT, UNFIT, {name: FIT[name] + UNFIT[name] for name in FIT.keys() & UNFIT.keys()}])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_all_values_are_those_of_psycopg(
    postgres: Postgres, postgres_database: str, run: Run, values: dict[str, list[str]], key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(chunk, "LARGE_BYTES", 0)
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(values))
    run(f"{TYPES} CREATE TABLE t (id int, mac macaddr, {columns}{key}); ALTER TABLE t REPLICA IDENTITY FULL")
    run("CREATE PUBLICATION p FOR TABLE t")
    with postgres.connect(postgres_database) as writer:
        for row in range(max(map(len, values.values())) + 1):
            texts = [each[row] if row < len(each) else None for each in values.values()]
            places = ", ".join(["%s"] * (2 + len(texts)))
            writer.execute(f"INSERT INTO t VALUES ({places})", [row, "08:00:2b:01:02:03", *texts])
    with (
        _reading(postgres, postgres_database, as_text=("mac",)) as found,
        found.stream.chunk(found.tables["t"]) as read,
    ):
        run("UPDATE t SET id = id + 100, mac = NULL; INSERT INTO t (id) VALUES (-1)")  # in no snapshot of the chunk
        rows = _read(read)
        assert repr(rows) == repr(_read_again(read))
        assert len(rows[0]) + len(rows[1]) == row + 1
        assert bool(rows[1]) == (values is not FIT)


def test_columns_of_fixed_width_may_lose_not_null(postgres: Postgres, postgres_database: str, run: Run) -> None:
    types: tuple[str, ...] = (
        "boolean",
        "smallint",
        "int",
        "bigint",
        "oid",
        "real",
        "double precision",
        "date",
        "time",
        "timestamp",
    )
    types += ("timestamptz", "interval", "uuid", "positive")
    columns = ", ".join(f"c{number} {type_} NOT NULL" for number, type_ in enumerate(types))
    run(f"{TYPES} CREATE TABLE t (n numeric, {columns}, id int PRIMARY KEY, x text); CREATE PUBLICATION p FOR TABLE t")
    kept = {**FIT, "positive": ["1", "2147483647"]}
    with postgres.connect(postgres_database) as writer:
        for row in range(12):
            texts = [kept[each][row % len(kept[each])] for each in types]
            places = ", ".join(["%s"] * (3 + len(texts)))
            writer.execute(f"INSERT INTO t VALUES ({places})", [row / 8, *texts, row, "x" * row])
    with _reading(postgres, postgres_database) as found:
        with found.stream.chunk(found.tables["t"]) as read:
            rows = _read(read)
            assert repr(rows) == repr(_read_again(read))
        run("ALTER TABLE t ALTER c3 DROP NOT NULL; UPDATE t SET c3 = NULL WHERE id = 11")
        with found.stream.chunk(found.tables["t"]) as read:
            rows = _read(read)
            assert repr(rows) == repr(_read_again(read))
            assert [row["c3"] is None for row in rows[0]] == [*[False] * 11, True]


def test_parts_of_a_chunk_are_in_order_and_complete(
    postgres: Postgres, postgres_database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbc, "_BATCH_BYTES", 10_000)
    run(f"CREATE TABLE t (id int PRIMARY KEY, x text); CREATE PUBLICATION p FOR TABLE t; {_MANY.format(rows=3000)}")
    with _reading(postgres, postgres_database) as found:
        table, after, ids = found.tables["t"], None, list[int]()
        parts = 0
        while True:
            with found.stream.chunk(table) as read:
                part = read.read(after, 200_000)
                batches = list(part.rows)
                assert read._second is not None
            parts += len(batches)
            ids += [number for each in batches for number in each.rows.column("id").to_pylist()]
            after = part.last
            if after is None:
                break
    assert ids == list(range(1, 3001))
    assert parts > 30


# --- when it is used --------------------------------------------------------------------------------------------------


def test_only_large_tables_are_read_so(
    postgres: Postgres, postgres_database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(f"CREATE TABLE t (id int PRIMARY KEY, x text); CREATE PUBLICATION p FOR TABLE t; {_MANY.format(rows=9000)}")
    run("CREATE TABLE pages (x text); ALTER TABLE pages REPLICA IDENTITY FULL; ALTER PUBLICATION p ADD TABLE pages")
    run("INSERT INTO pages SELECT x FROM t; ANALYZE t")

    def used(stream: PostgresStream, table: CapturedTable) -> list[bool]:
        ways, after = list[bool](), None
        while True:
            with stream.chunk(table) as read:
                read.count()
                part = read.read(after, 1 << 20)
                assert sum(each.rows.num_rows for each in part.rows)
                ways.append(read._second is not None)
            after = part.last
            if after is None:
                return ways

    def both() -> tuple[list[bool], list[bool]]:
        found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
        ways = used(found.stream, found.tables["t"]), used(found.stream, found.tables["pages"])
        found.stream.close()
        return ways

    assert not any(map(any, both()))
    monkeypatch.setattr(chunk, "LARGE_BYTES", 1 << 20)
    keyed, keyless = both()
    assert keyed[:2] == [False, True], keyed
    assert keyless == [True]
    monkeypatch.setattr(adbc, "find_spec", lambda _: None)
    assert not any(map(any, both()))


# --- encryption and passwords -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Encrypted:
    """A server behind TLS that asks role bob for a SCRAM password, the options to connect, and a wrong certificate."""

    server: Postgres
    port: int
    options: Mapping[str, Any]
    stranger: str

    def login(self, **changes: Any) -> Login:
        return login_at(self.port, "postgres", **{**self.options, **changes})


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[_Encrypted]:
    trusted, identity = authority(tmp_path)
    (tmp_path / "other").mkdir()
    stranger, _ = authority(tmp_path / "other")
    with postgres_server({"password_encryption": "scram-sha-256"}) as server, tls_front(server.port, identity) as port:
        server.execute("CREATE ROLE bob SUPERUSER LOGIN PASSWORD 'hunter22'")
        hba = "host all postgres all trust\nhost all bob all scram-sha-256\n"
        (server.data / "pg_hba.conf").write_text(hba)
        server.execute(f"SELECT pg_reload_conf(); {_TABLE}")
        options = {
            "user": {"secret_text": ["bob"]},
            "password": {"secret_text": ["hunter22"]},
            "ssl_mode": "verify_full",
            "ssl_certificate_authority": {"secret_text": [trusted.read_text()]},
        }
        yield _Encrypted(server, port, options, stranger.read_text())


def test_both_connections_verify_the_server_and_use_scram(
    encrypted: _Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = encrypted.server
    with _reading(server, "postgres", encrypted.login()) as found:
        monkeypatch.setenv("PGREQUIREAUTH", "scram-sha-256")
        with found.stream.chunk(found.tables["t"]) as read:
            rows = _read(read)
            assert len(rows[0]) == 400
            monkeypatch.delenv("PGREQUIREAUTH")
            sessions = server.execute("SELECT usename FROM pg_stat_activity WHERE application_name LIKE 'sinkql%'")
            assert sessions.count(("bob",)) == 2
            assert repr(rows) == repr(_read_again(read))


@pytest.mark.share(4)
@pytest.mark.parametrize("wrong", ["authority", "password", "host name", "password in clear text"])
def test_a_server_that_is_not_to_be_trusted_gets_no_second_connection(
    encrypted: _Encrypted, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Only the second connection has the wrong option; psycopg reads the rows."""
    server = encrypted.server
    changes: dict[str, dict[str, Any]] = {
        "authority": {"ssl_certificate_authority": {"secret_text": [encrypted.stranger]}},
        "password": {"password": {"secret_text": ["hunter23"]}},
        "host name": {"host": "localhost"},
        "password in clear text": {},
    }
    with _reading(server, "postgres", encrypted.login()) as found:
        found.stream._driver = adbc.AdbcDriver(encrypted.login(**changes[wrong]))
        with found.stream.chunk(found.tables["t"]) as read:
            if wrong == "password in clear text":
                hba = "host all postgres all trust\nhost all bob all password\n"
                (server.data / "pg_hba.conf").write_text(hba)
                server.execute("SELECT pg_reload_conf()")
                monkeypatch.setenv("PGREQUIREAUTH", "scram-sha-256")
            assert len(_read(read)[0]) == 400
            assert read._second is None
        assert not found.stream._driver.is_usable


def test_a_tunnel_carries_both_connections(
    tmp_path: Path, postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run(_TABLE)
    with ssh_server() as ssh, Session(tmp_path / "catalog.db") as session:
        session.execute(f"CREATE CONNECTION t TO SSH TUNNEL (HOST '127.0.0.1', PORT {ssh.port}, USER 'tunnel');")
        (keys,) = session.execute("SELECT public_key_1 FROM mz_catalog.mz_ssh_tunnel_connections;")
        ssh.authorize(str(keys.rows[0][0]))
        session.execute(
            f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, DATABASE {postgres_database},"
            " USER postgres, SSH TUNNEL t);"
        )
        login = Login.planned(session.access.connection("materialize.public.pg"), session.access)
        with _reading(postgres, postgres_database, login) as found:
            for _ in range(2):  # the second chunk has another tunnel
                ssh.forwarded.clear()
                with found.stream.chunk(found.tables["t"]) as read:
                    rows = _read(read)
                    assert repr(rows) == repr(_read_again(read))
                assert ssh.forwarded.count(("127.0.0.1", postgres.port)) >= 2


# --- failures ---------------------------------------------------------------------------------------------------------


class _Relay:
    """A port that forwards to a server until it has answered a number of bytes on a connection.

    Then the connection ends, is reset, or is held until `release` is set, as the `way` says. `limit` is None for no
    limit. `most` is the largest number of bytes that a connection was answered.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.limit: int | None = None
        self.way = "end"
        self.most = 0
        self.release = threading.Event()
        self.reached = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.upstream))
                threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, self.limit), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket, limit: int | None) -> None:
        answered = 0
        with suppress(OSError), server, client:
            while data := server.recv(1 << 16):
                if limit is not None and answered + len(data) > limit:
                    client.sendall(data[: limit - answered])
                    self._stop(client)
                    if self.way != "hold":
                        return
                    data, limit = data[limit - answered :], None
                client.sendall(data)
                answered += len(data)
                self.most = max(self.most, answered)

    def _stop(self, client: socket.socket) -> None:
        self.reached.set()
        if self.way == "hold":
            self.release.wait(PATIENCE_S)
        elif self.way == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.shutdown(socket.SHUT_RD)  # ends the other thread's wait, which would keep the socket open
        else:
            client.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(postgres: Postgres) -> Iterator[_Relay]:
    found = _Relay(postgres.port)
    yield found
    found.close()


@pytest.fixture
def relayed(postgres: Postgres, postgres_database: str, run: Run, relay: _Relay) -> Iterator[Reading]:
    """Read a table of 400 rows, through the relay only as far as ADBC does; the driver has loaded the types."""
    run(_TABLE)
    with _reading(postgres, postgres_database) as found:
        found.stream._driver = adbc.AdbcDriver(login_at(relay.port, postgres_database))
        with found.stream.chunk(found.tables["t"]) as read:
            _read(read)
            assert read._second is not None
        relay.most = 0
        with found.stream.chunk(found.tables["t"]) as read:
            _read(read)
        yield found


def _whole(found: Reading) -> bool:
    """Read the table, check its rows, and return whether they came through ADBC."""
    with found.stream.chunk(found.tables["t"]) as read:
        rows, errors = _read(read)
        assert [row["id"] for row in rows] == list(range(1, 401))
        assert all(row["x"] == "x" * 200 + str(row["id"]) for row in rows)
        assert not errors
        return read._exported is not None


@pytest.mark.parametrize(
    ("way", "every"), [("end", 4), *(pytest.param(way, 1, marks=pytest.mark.soak) for way in ("end", "reset"))]
)
def test_no_row_is_missing_wherever_a_connection_is_cut(relay: _Relay, relayed: Reading, way: str, every: int) -> None:
    relay.way, total = way, relay.most
    early, late = range(0, total, total // 23)[:24:every], range(total, total - 31, -every)
    through = []
    for limit in (*early, *reversed(late)):
        relay.limit = limit
        relayed.stream._driver._is_refused = False
        through.append(_whole(relayed))
    assert not any(through[: len(early)])  # rows were missing
    assert through[-1]


def test_a_connection_that_is_never_answered_is_given_up(
    relay: _Relay, relayed: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two places: while the snapshot is imported, and among the rows."""
    monkeypatch.setattr(dead_connection, "SILENCE_S", 0.3)
    monkeypatch.setattr(dead_connection, "_LOOK_S", 0.1)
    relay.way, total = "hold", relay.most
    for limit in (total // 2, 600):
        relay.limit = limit
        assert relayed.stream._driver.is_usable
        relay.reached.clear()
        assert not _whole(relayed)
        assert relay.reached.is_set()
    assert not relayed.stream._driver.is_usable  # only connections are refused, not queries


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_query_that_the_server_ends_is_read_again(relay: _Relay, relayed: Reading, run: Run, function: str) -> None:
    """The connection is held among the rows, which are more than the server can send ahead."""
    run("UPDATE t SET x = repeat(x, 1)")
    run("ALTER TABLE t ALTER x SET STORAGE EXTERNAL; UPDATE t SET x = repeat('x', 200) || id")
    relay.way, relay.limit = "hold", relay.most // 2
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(_whole, relayed)
        assert relay.reached.wait(PATIENCE_S)
        ended = run(
            f"SELECT {function}(pid) FROM pg_stat_activity WHERE application_name LIKE 'sinkql%' AND query LIKE 'COPY%'"
        )
        relay.release.set()
        assert ended == [(True,)]
        whole.result()


def test_an_interrupt_reaches_the_process_during_a_chunk(relay: _Relay, relayed: Reading) -> None:
    """The driver's own Python interface would catch it, and end the query instead."""
    relay.way, relay.limit = "hold", relay.most // 2
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        with ThreadPoolExecutor(1) as pool:
            whole = pool.submit(_whole, relayed)
            assert relay.reached.wait(PATIENCE_S)
            signal.raise_signal(signal.SIGINT)
            assert caught == [signal.SIGINT]
            relay.release.set()
            assert whole.result()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_that_ends_during_a_chunk_leaves_no_session(relay: _Relay, relayed: Reading, run: Run) -> None:
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sinkql%' AND datname = current_database()"
    before = run(sessions)
    relay.way, relay.limit = "hold", relay.most // 2
    child = get_context("fork").Process(target=_read_and_be_terminated, args=(relayed,))
    child.start()
    assert relay.reached.wait(PATIENCE_S)
    assert len(set(run(sessions)) - set(before)) == 2
    child.terminate()
    child.join(PATIENCE_S)
    assert child.exitcode == -signal.SIGTERM
    relay.release.set()
    deadline = Deadline()
    while not set(run(sessions)) <= set(before):
        deadline.check("the end of the sessions")


def _read_and_be_terminated(found: Reading) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _whole(found)


def test_the_error_is_that_of_psycopg_where_both_connections_are_lost(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run(_TABLE)
    with (
        front(postgres.port) as before,
        _reading(postgres, postgres_database, login_at(before.port, postgres_database)) as found,
        found.stream.chunk(found.tables["t"]) as read,
    ):
        before.reset()
        with pytest.raises(SinkqlError, match="SQ44") as caught:
            _read(read)
        assert caught.value.retryable


def test_another_server_is_refused(postgres: Postgres, postgres_database: str, run: Run) -> None:
    """As behind a pooler of several servers: one does not know the snapshot, one has another of that name."""
    run(_TABLE)
    with postgres_server() as other, _reading(postgres, postgres_database) as found:
        found.stream._driver = adbc.AdbcDriver(login_at(other.port, "postgres"))
        assert not _whole(found)
        assert not found.stream._driver.is_usable
    driver = adbc.AdbcDriver(login_at(postgres.port, postgres_database))
    with login_at(postgres.port, postgres_database).connect() as first:
        first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        ((name,),) = first.execute("SELECT pg_export_snapshot()").fetchall()
        with pytest.raises(AdbcFailedError, match="another server"):
            driver.open(first, ExportedSnapshot(name, "1:1:"), "SET TimeZone = 'UTC'")
    driver.close()


def test_a_user_who_may_not_export_snapshots_reads_as_before(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run(_TABLE)
    role = f"reader_{postgres_database}"
    run(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON t TO {role}")
    run("REVOKE EXECUTE ON FUNCTION pg_export_snapshot() FROM PUBLIC")
    login = login_at(postgres.port, postgres_database, user={"secret_text": [role]})
    with _reading(postgres, postgres_database, login) as found:
        assert not _whole(found)
        assert not found.stream._driver.is_usable


def test_a_transaction_that_waits_for_the_table_is_not_waited_for(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    """It waits for the chunk, whose second connection would wait for it in turn."""
    run(_TABLE)
    with _reading(postgres, postgres_database) as found, ThreadPoolExecutor(1) as pool:
        with found.stream.chunk(found.tables["t"]) as read:
            locking = pool.submit(run, "TRUNCATE t")
            deadline = Deadline()
            while not run("SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND NOT granted"):
                deadline.check("a lock")
            assert len(_read(read)[0]) == 400
            assert read._exported is None
        locking.result()
        assert found.stream._driver.is_usable
        run(_MANY.format(rows=400))
        assert _whole(found)


def test_a_type_that_cannot_be_sent_is_an_error_of_psycopg_alone(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, x text, r aclitem); CREATE PUBLICATION p FOR TABLE t (id, x)")
    run(_MANY.format(rows=400).replace("INTO t", "INTO t (id, x)"))
    with _reading(postgres, postgres_database) as found:
        assert _whole(found)


def test_nothing_is_left_open_after_a_chunk(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run(_TABLE)
    before = _connected_to(postgres.port)
    with _reading(postgres, postgres_database) as found:
        for _ in range(3):
            with suppress(_StoppedError), found.stream.chunk(found.tables["t"]) as read:
                _read(read)
                raise _StoppedError
    sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sinkql%' AND datname = current_database()"
    deadline = Deadline()
    while run(sessions) or _connected_to(postgres.port) - before:
        deadline.check("the end of the sessions, and of their sockets here")


def _connected_to(port: int) -> set[str]:
    """Return this process's open sockets that are connected to a port, by the names of their inodes."""
    connected = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].partition(":")[2], 16) == port:
            connected.add(f"socket:[{fields[9]}]")
    held = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            held.add(os.readlink(f"/proc/self/fd/{name}"))
    return connected & held


class _StoppedError(Exception):
    pass
