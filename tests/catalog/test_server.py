"""A catalog in Postgres: permissions to open it, errors, its clock, its key, and copies of it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import click
import pytest

from sinkql.catalog import open_store
from sinkql.catalog.address import VARIABLE, ServerUrl, address_of
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.open_store import open_server
from sinkql.catalog.postgres import database as database_module
from sinkql.catalog.postgres.connection import Connection
from sinkql.catalog.postgres.database import ServerDatabase
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.catalog.sqlite.schema import VERSION
from sinkql.catalog.system import LAYOUT
from sinkql.cli.context import names_of
from sinkql.cli.main import run_command as run
from sinkql.errors import LateError, SinkqlError
from sinkql.machine import clock
from sinkql.session import Session
from sinkql.session.doctor import checks
from sinkql.session.sink.process import SinkProcess
from support.catalog import server_address, server_url
from support.pgbouncer import pgbouncer
from support.port import held_ports
from support.postgres import Postgres
from support.postgres import postgres as new_server

pytestmark = pytest.mark.server
_KEY = "A" * 43 + "="
_HISTORY = "SELECT error FROM mz_internal.mz_sink_status_history ORDER BY occurred_at"
_server_time = Connection.clock
_PASSWORD = "the-password-of-alice"
_SCRIPT = """
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE TABLE t (id bigint PRIMARY KEY);
INSERT INTO t VALUES (1), (2);
CREATE VIEW v AS SELECT counter FROM n;
COMMENT ON VIEW v IS 'a comment';
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '2s');
"""


@pytest.fixture
def url(postgres: Postgres, tmp_path: Path) -> ServerUrl:
    return server_address(postgres, tmp_path / ".sinkql")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, _KEY)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Run a server that requires a password of alice; she may create nothing in the database `closed`."""
    with new_server() as server:
        (server.data / "pg_hba.conf").write_text("host all postgres all trust\nhost all alice all scram-sha-256\n")
        server.execute("SELECT pg_reload_conf()")
        server.execute(f"CREATE ROLE alice LOGIN PASSWORD '{_PASSWORD}'")
        server.execute("CREATE DATABASE own OWNER alice")
        server.execute("CREATE DATABASE closed")
        yield server


def _refused(address: ServerUrl | str) -> SinkqlError:
    found = address_of(address)
    assert isinstance(found, ServerUrl)
    with pytest.raises(SinkqlError) as raised:
        open_server(found, LAYOUT)
    assert _PASSWORD not in f"{raised.value} {raised.value.__cause__!r} {found!r} {found}"
    return raised.value


def _with(url: str, password: str) -> str:
    return url.replace("alice@", f"alice:{password}@")


# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name", "schema", "libpq"),
    [
        ("postgresql://u@h/d", "postgresql://u@h/d", "sinkql", "postgresql://u@h/d"),
        ("postgres://u:p%40@h:1/d", "postgresql://u@h:1/d", "sinkql", "postgresql://u:p%40@h:1/d"),
        ("postgresql+psycopg:///d", "postgresql:///d", "sinkql", "postgresql:///d"),
        (
            "postgresql+psycopg://u@h/d?schema=a%20b&sslmode=require&password=p",
            "postgresql://u@h/d?schema=a+b",
            "a b",
            "postgresql://u@h/d?sslmode=require&password=p",
        ),
    ],
)
def test_url_says_where_the_catalog_is(
    url: str, name: str, schema: str, libpq: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = address_of(url)
    assert isinstance(found, ServerUrl)
    assert (str(found), found.schema, found.libpq, found.folder) == (name, schema, libpq, tmp_path / ".sinkql")


def test_folder_of_a_url_is_where_the_catalogs_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [address_of(f"postgresql://h/d?folder={folder}") for folder in ("state", "/var/lib/sinkql")]
    assert [tmp_path / "state", Path("/var/lib/sinkql")] == [getattr(each, "folder", None) for each in found]


def test_variable_names_the_catalog_where_nobody_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "postgresql://u@h/d")
    assert [str(address_of(None)), address_of(tmp_path / "c.db")] == ["postgresql://u@h/d", tmp_path / "c.db"]


@pytest.mark.parametrize("url", ["mysql://h/d", "postgresql+asyncpg://h/d", "postgresql://h/d?schema", "http://h"])
def test_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        address_of(url)
    assert raised.value.code == "SQ4113"


def test_url_with_what_libpq_does_not_know_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    url = server_url(postgres, tmp_path)
    errors = [_refused(f"{url}&{more}") for more in ("colour=red", "port=x", "connect_timeout=x", "sslmode=x")]
    assert [error.code for error in errors] == ["SQ4113"] * 4
    assert errors[0].detail == 'invalid URI query parameter: "colour"'


@pytest.mark.parametrize(
    "authority", ["u:se/cret@h/d", "u:se?cret=1@h/d", "u:se#cret@h/d", "u:se:cret/x@h", "u:%zzsecret@h/d", "h:secret/d"]
)
def test_sign_in_a_password_does_not_show_it(authority: str, tmp_path: Path) -> None:
    with pytest.raises(SinkqlError) as raised:
        open_server(cast(ServerUrl, address_of(f"postgresql://{authority}")), LAYOUT)
    assert raised.value.code == "SQ4113"
    assert "cret" not in f"{raised.value}{raised.value.detail}"


def test_several_hosts_may_be_named(tmp_path: Path) -> None:
    found = address_of("postgresql://u:p@a:1,[::1]:2,c/d?target_session_attrs=read-write")
    assert str(found) == "postgresql://u@a:1,[::1]:2,c/d"


def test_missing_psycopg_is_told(url: ServerUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("psycopg", "sinkql.catalog.postgres."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SinkqlError) as raised:
        open_store.open_server(url, LAYOUT)
    assert (raised.value.code, raised.value.hint) == ("SQ4155", "Run pip install 'psycopg[binary]'.")


# --- opening ----------------------------------------------------------------------------------------------------------


def test_server_that_is_nowhere_may_come_back(tmp_path: Path) -> None:
    with held_ports(1) as (port,):
        error = _refused(f"postgresql://alice:{_PASSWORD}@127.0.0.1:{port}/d?folder={tmp_path}")
    assert (error.code, error.retryable, isinstance(error, LateError)) == ("SQ4150", True, True)
    assert error.message == f'catalog "postgresql://alice@127.0.0.1:{port}/d" cannot be reached'


def test_host_that_is_not_known_is_told(tmp_path: Path) -> None:
    assert _refused(f"postgresql://nowhere.invalid/d?folder={tmp_path}").code == "SQ4150"


def test_wrong_password_is_told(strict: Postgres, tmp_path: Path) -> None:
    url = server_url(strict, tmp_path, user="alice", database="own")
    errors = [_refused(_with(url, "wrong")), _refused(url)]
    assert [error.code for error in errors] == ["SQ4151", "SQ4151"]
    assert [error.retryable for error in errors] == [False, False]
    assert "PGPASSWORD" in str(errors[0].hint)


def test_user_that_is_not_there_is_told(postgres: Postgres, tmp_path: Path) -> None:
    assert _refused(server_url(postgres, tmp_path, user="nobody_here")).code == "SQ4151"


def test_password_of_the_environment_is_taken(
    strict: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", _PASSWORD)
    with Session(server_url(strict, tmp_path, user="alice", database="own")) as session:
        assert session.execute("SHOW SINKS")[0].rows == ()


def test_database_that_is_not_there_is_told(postgres: Postgres, tmp_path: Path) -> None:
    assert _refused(server_url(postgres, tmp_path, database="nowhere")).code == "SQ4152"


def test_user_who_may_create_no_schema_is_told_and_uses_the_one_that_he_is_given(
    strict: Postgres, tmp_path: Path
) -> None:
    url = _with(server_url(strict, tmp_path, user="alice", database="closed"), _PASSWORD)
    error = _refused(url)
    schema = url.partition("schema=")[2].partition("&")[0]
    assert error.code == "SQ4153"
    assert f'CREATE SCHEMA "{schema}" AUTHORIZATION' in str(error.hint)
    strict.execute(f'CREATE SCHEMA "{schema}" AUTHORIZATION alice', "closed")
    with Session(url) as session:
        session.execute("CREATE SCHEMA s")


def test_catalog_of_another_user_is_told(strict: Postgres, tmp_path: Path) -> None:
    url = server_url(strict, tmp_path, database="own")
    with Session(url):
        pass
    assert _refused(_with(url.replace("postgres@", "alice@"), _PASSWORD)).code == "SQ4153"


@pytest.mark.soak
def test_pooler_without_transactions_is_told(postgres: Postgres, tmp_path: Path) -> None:
    with pgbouncer(postgres, "statement", size=2) as port:
        assert _refused(server_address(postgres, tmp_path / ".sinkql", port=port)).code == "SQ4156"


def test_schema_of_another_program_is_refused_and_left_alone(postgres: Postgres, url: ServerUrl) -> None:
    postgres.execute(f"CREATE SCHEMA {url.schema}; CREATE TABLE {url.schema}.items (a int)")
    assert _refused(url).code == "SQ4154"
    tables = f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{url.schema}'"
    assert postgres.execute(tables) == [("items",)]


def test_catalog_of_a_newer_version_is_refused(postgres: Postgres, url: ServerUrl) -> None:
    open_server(url, LAYOUT)
    postgres.execute(f"UPDATE {url.schema}.catalog_version SET version = {VERSION + 1}")
    assert _refused(url).code == "SQ4102"


def test_catalog_without_its_tables_is_damaged(postgres: Postgres, url: ServerUrl) -> None:
    database = open_server(url, LAYOUT)
    postgres.execute(f"DROP TABLE {url.schema}.leases")
    with pytest.raises(SinkqlError) as raised:
        Control(database).holder("s")
    assert raised.value.code == "SQ4103"


# --- transactions -----------------------------------------------------------------------------------------------------


def test_writer_whose_turn_does_not_come_gives_up_for_now(url: ServerUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 1)
    one, other = open_server(url, LAYOUT), open_server(url, LAYOUT)
    for held in (one, other):  # in the same database object, and in a second one
        with one.write(), pytest.raises(LateError) as raised, held.write():
            pass
        assert raised.value.code == "SQ4104"
    with other.write() as connection:
        connection.insert("settings", {"name": "a", "value": "b"})


def test_transaction_in_which_a_statement_failed_is_not_taken_for_done(url: ServerUrl) -> None:
    database = open_server(url, LAYOUT)

    def go_on() -> None:
        with database.write() as connection:
            connection.insert("settings", {"name": "a", "value": "b"})
            with pytest.raises(Exception, match="does not exist"):
                connection.execute("SELECT * FROM nowhere")

    with pytest.raises(SinkqlError):
        go_on()
    with database.read() as connection:
        assert connection.scalar("SELECT count(*) FROM settings") == 0


def test_connections_that_were_lost_are_opened_again(tmp_path: Path) -> None:
    with new_server() as server:
        database = open_server(server_address(server, tmp_path), LAYOUT)
        control = Control(database)
        control.set_desired("s", "running")
        with database.read(), database.read():
            pass  # two connections stay in the pool
        server.restart()
        control.acquire("s", owner="a", takeover=False)
        server.stop()
        with pytest.raises(LateError) as raised:
            control.renew("s", owner="a")
        assert raised.value.code == "SQ4150"
        server.start()
        control.renew("s", owner="a")
        assert control.is_held("s")


def test_connection_that_is_lost_in_a_transaction_leaves_nothing(postgres: Postgres, url: ServerUrl) -> None:
    database = open_server(url, LAYOUT)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sinkql' AND state <> 'idle'"

    def lose() -> None:
        with database.write() as connection:
            connection.insert("settings", {"name": "a", "value": "b"})
            postgres.execute(end)

    with pytest.raises(LateError):
        lose()
    with database.read() as connection:
        assert connection.scalar("SELECT count(*) FROM settings") == 0


def test_transactions_one_after_the_other_share_a_connection(postgres: Postgres, url: ServerUrl) -> None:
    database = open_server(url, LAYOUT)
    assert len({_backend(database) for _ in range(3)}) == 1
    database.close()
    assert _backend(database) > 0


def _backend(database: ServerDatabase) -> int:
    with database.read() as connection:
        return int(connection.scalar("SELECT pg_backend_pid()"))


def test_text_with_a_nul_is_stored_without_it(url: ServerUrl) -> None:
    control = Control(open_server(url, LAYOUT))
    control.status("s", "failed", error="a\0b")
    with control._database.read() as connection:
        assert connection.scalar("SELECT error FROM statuses") == "a\N{SYMBOL FOR NULL}b"


# --- leases -----------------------------------------------------------------------------------------------------------


def test_leases_go_by_the_servers_clock(
    url: ServerUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: None
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(url) as session:
        session.execute(_SCRIPT)
        (job,) = session.jobs()
        control = session.catalog.control
        for ahead in (-3600, 3600):  # seconds by which the server's clock is ahead of this machine's
            monkeypatch.setattr(Connection, "clock", lambda self, ahead=ahead: _server_time(self) + ahead)
            control.acquire(job.sink_id, owner="a", takeover=True)
            control.status(job.sink_id, "running", owner="a")
            with pytest.raises(SinkqlError):
                control.acquire(job.sink_id, owner="b", takeover=False)
            assert [row[1] for row in session.status()[1]] == ["running"]
            with session.catalog.database.write() as connection:
                connection.execute("UPDATE leases SET expires = expires - 31")
            assert not control.is_held(job.sink_id)
            assert [row[1] for row in session.status()[1]] == ["failed"]


def test_clock_is_that_of_the_server(url: ServerUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(clock, "time", lambda: 0.0)
    control = Control(open_server(url, LAYOUT))
    control.set_desired("s", "running")
    control.acquire("s", owner="a", takeover=False)
    holder = control.holder("s")
    assert holder is not None
    assert now < holder.expires < now + 10 + control.lease_seconds


def test_lease_of_a_process_of_another_host_is_valid_until_it_runs_out(url: ServerUrl) -> None:
    database = open_server(url, LAYOUT)
    control = Control(database, lease_seconds=1)
    control.set_desired("s", "running")
    control.acquire("s", owner="a", takeover=False)
    with database.write() as connection:  # this host's name and pid, but of a different container
        connection.update("leases", {"process": "1 another-boot pid:[1]"}, "sink_id = ?", "s")
    with pytest.raises(SinkqlError) as raised:
        control.acquire("s", owner="b", takeover=False)
    assert raised.value.code == "SQ5201"
    until = time.monotonic() + 10
    while control.is_held("s"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert control.acquire("s", owner="b", takeover=False) == 2


def test_what_a_process_of_another_host_began_is_left_to_it_for_a_while(url: ServerUrl, key: None) -> None:
    with Session(url) as session:
        intent_log = session.catalog.intent_log
        numbers = [intent_log.begin("drop", {"n": number}) for number in range(2)]
        long_ago = (datetime.now(UTC) - timedelta(minutes=11)).isoformat(sep=" ")
        with session.catalog.database.write() as connection:
            connection.execute("UPDATE journal SET host = 'another'")
            connection.update("journal", {"started_at": long_ago}, "number = ?", numbers[1])
        assert [intent.number for intent in intent_log.adopt()] == numbers[1:]


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_literal_secret_needs_the_key_of_the_environment(url: ServerUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with Session(url) as session:
        session.execute("CREATE SECRET reference AS env_var('HOME');")
        with pytest.raises(SinkqlError) as stored:
            session.execute("CREATE SECRET literal AS 'canary-7';")
        assert session.execute("SHOW SECRETS")[0].rows == (("reference", ""),)
        monkeypatch.setenv(KEY_VARIABLE, _KEY)
        session.execute("CREATE SECRET literal AS 'canary-7';")
        assert session.catalog.secret("materialize.public.literal").reveal() == "canary-7"
        monkeypatch.delenv(KEY_VARIABLE)
        with pytest.raises(SinkqlError) as read:
            session.catalog.secret("materialize.public.literal")
        monkeypatch.setenv(KEY_VARIABLE, "B" * 43 + "=")
        with pytest.raises(SinkqlError) as closed:
            session.catalog.secret("materialize.public.literal")
    assert [each.value.code for each in (stored, read, closed)] == ["SQ4118", "SQ4118", "SQ4108"]
    assert "openssl rand -base64 32" in str(stored.value.hint)
    assert "canary-7" not in f"{stored.value} {read.value} {closed.value}"


def test_password_of_the_url_is_in_no_argument_of_a_process(tmp_path: Path) -> None:
    url = address_of(f"postgresql://alice:{_PASSWORD}@h/d")
    found: list[dict[str, Any]] = []
    told = "import json, os, sys; print(json.dumps({'arguments': sys.argv, 'catalog': os.environ['SINKQL_CATALOG']}))"
    process = SinkProcess(url, found.append, lambda code, errors: None, command=(sys.executable, "-c", told))
    process.start()
    process.wait()
    process.wait_for_events()
    assert found == [{"arguments": ["-c", "--output", "json", "up"], "catalog": f"postgresql://alice:{_PASSWORD}@h/d"}]


# --- the command line, and copies -------------------------------------------------------------------------------------


def _said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _content(place: str | Path) -> list[tuple[Any, ...]]:
    with Session(place) as session, session.catalog.database.read() as connection:
        items = connection.all("SELECT id, create_sql, facts, details FROM items ORDER BY number")
        more = connection.all("SELECT event_type, details FROM audit_events ORDER BY number")
        return [*map(tuple, items), *map(tuple, more), *map(tuple, connection.all("SELECT * FROM comments"))]


def test_a_copy_goes_from_a_file_to_the_server_and_back(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: None
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    file, back, url = tmp_path / "a" / "catalog.db", tmp_path / "c" / "catalog.db", server_url(postgres, tmp_path / "b")
    with Session(file) as session:
        session.execute(
            _SCRIPT + "CREATE SECRET x AS 'canary-8'; CREATE VIEW gone AS SELECT counter FROM n; DROP VIEW gone;"
        )
    for arguments in (
        ["--catalog", str(file), "catalog", "backup", "one.db"],
        ["--catalog", url, "catalog", "restore", "one.db"],
        ["--catalog", url, "catalog", "verify"],
        ["--catalog", url, "catalog", "backup", "two.db"],
        ["--catalog", str(back), "catalog", "restore", "two.db"],
    ):
        assert run(arguments) == 0, capsys.readouterr().err
    assert _content(file) == _content(url) == _content(back)
    with Session(url) as there, Session(back) as again:
        for session in (there, again):
            assert session.catalog.secret("materialize.public.x").reveal() == "canary-8"
            assert session.preview("t").rows == ((1,), (2,))
            session.execute("CREATE VIEW next AS SELECT counter FROM n;")
            next_id = session.catalog.entries()["materialize.public.next"].id
            assert next_id == "u8"


def test_restoring_keeps_what_was_there_and_refuses_while_a_sink_runs(
    url: ServerUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(url) as session:
        session.execute(_SCRIPT)
        (job,) = session.jobs()
        session.catalog.control.status(job.sink_id, "stalled", error="early")
        assert run(["--catalog", url.text, "catalog", "backup", "one.db"]) == 0
        session.execute("CREATE VIEW later AS SELECT counter FROM n;")
        session.catalog.control.status(job.sink_id, "stalled", error="late")
        assert session.execute(_HISTORY)[0].rows == (("early",), ("late",))
        session.catalog.control.acquire(job.sink_id, owner="a", takeover=False)
        assert run(["--catalog", url.text, "catalog", "restore", "one.db"]) == 5
        assert "SQ5211" in capsys.readouterr().err
        session.catalog.control.release(job.sink_id, owner="a")
        assert run(["--catalog", url.text, "--output", "json", "catalog", "restore", "one.db"]) == 0
        (said,) = _said(capsys)
        assert session.execute("SHOW VIEWS")[0].rows == (("v", "a comment"),)
        assert session.execute("SELECT count(*) FROM mz_views")[0].rows == ((1,),)
        assert session.execute(_HISTORY)[0].rows == (("early",),)
    with Session(said["kept"]) as kept:
        assert "materialize.public.later" in kept.catalog.entries()


@pytest.mark.parametrize("command", [["status"], ["stop", "s"], ["catalog", "verify"], ["catalog", "backup", "x.db"]])
def test_commands_make_no_catalog_where_there_is_none(
    url: ServerUrl, postgres: Postgres, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--catalog", url.text, *command]) == 4
    assert "SQ4115" in capsys.readouterr().err
    assert postgres.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{url.schema}'") == []
    assert os.listdir(tmp_path) == []


def test_plan_compares_with_nothing_and_makes_none(
    url: ServerUrl, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.sql").write_text("CREATE SOURCE n FROM LOAD GENERATOR COUNTER;")
    assert run(["--catalog", url.text, "plan", "pipeline.sql"]) == 0
    assert postgres.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{url.schema}'") == []
    assert run(["--catalog", url.text, "apply", "pipeline.sql", "--yes"]) == 0
    assert run(["--catalog", url.text, "plan", "pipeline.sql", "--detailed-exitcode"]) == 0


def test_names_are_completed_from_the_server_if_it_answers(url: ServerUrl) -> None:
    with Session(url) as session:
        session.execute(
            'CREATE TABLE t1 (id bigint); CREATE SCHEMA a; CREATE TABLE a."t.u" (id bigint); CREATE VIEW v AS TABLE t1;'
        )
    nowhere = url.text.replace(f":{url.text.rpartition(':')[2].partition('/')[0]}/", ":1/")
    for catalog, found in ((url.text, ['a."t.u"', "t1", "v"]), (nowhere, []), ("mysql://nowhere", [])):
        root = click.Context(click.Command("sinkql"))
        root.params = {"catalog": catalog}
        command = click.Context(click.Command("stop"), parent=root)
        assert names_of("TABLE", "VIEW")(command, click.Argument(["names"]), "") == found


def test_verify_and_upgrade_name_the_catalog_without_its_password(
    strict: Postgres, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = _with(server_url(strict, tmp_path / ".sinkql", user="alice", database="own"), _PASSWORD)
    with Session(url) as session:
        session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER;")
    assert run(["--catalog", url, "catalog", "verify"]) == 0
    assert run(["--catalog", url, "catalog", "upgrade"]) == 0
    told = capsys.readouterr()
    assert f"no problems in {address_of(url)} (1 items)" in told.out
    assert _PASSWORD not in told.out + told.err
    assert not (tmp_path / ".sinkql" / "catalog.db").exists()


def test_doctor_checks_the_catalog_and_its_folder(url: ServerUrl, tmp_path: Path) -> None:
    def found(address: ServerUrl | str) -> dict[str, tuple[str, str]]:
        return {each.name: (each.state, each.found) for each in checks(address_of(address)) if "catalog" in each.name}

    assert found(url)["catalog"] == ("ok", f'catalog "{url}" does not exist yet; the first statement creates it')
    open_server(url, LAYOUT)
    assert found(url)["catalog"] == ("ok", str(url))
    assert found(url)["catalog folder"][1].startswith(f"{url.folder}, ")
    with held_ports(1) as (port,):
        state, what = found(f"postgresql://u:{_PASSWORD}@127.0.0.1:{port}/d?folder={tmp_path}")["catalog"]
    assert (state, what) == ("wrong", f'catalog "postgresql://u@127.0.0.1:{port}/d" cannot be reached')


def test_row_without_its_item_is_found(
    postgres: Postgres,
    url: ServerUrl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(url) as session:
        session.execute(_SCRIPT)
    postgres.execute(f"UPDATE {url.schema}.items SET create_sql = 'CREATE VIEW w AS SELECT 1;' WHERE name = 'v'")
    postgres.execute(f"INSERT INTO {url.schema}.comments VALUES ('u99', 0, 'c')")
    assert run(["--catalog", url.text, "--output", "json", "catalog", "verify"]) == 4
    assert {each["code"] for each in _said(capsys)} == {"SQ4116"}


def test_folder_of_the_catalog_is_the_owners_alone(url: ServerUrl) -> None:
    with closing(Session(url)):
        assert url.folder.stat().st_mode & 0o777 == 0o700
    url.folder.chmod(0o750)
    with pytest.raises(SinkqlError) as raised:
        Session(url)
    assert raised.value.code == "SQ4114"
