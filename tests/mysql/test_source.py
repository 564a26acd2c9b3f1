"""CREATE SOURCE … FROM MYSQL against a real server: the columns and keys that it finds, and errors with their hints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb

pytestmark = pytest.mark.server

_TABLES = (
    "CREATE TABLE users (id int unsigned PRIMARY KEY, email varchar(90) NOT NULL UNIQUE, name text, doc json, "
    "born date, place point, uid uuid)",
    "CREATE TABLE by_code (code char(3) NOT NULL UNIQUE, price decimal(65,10), note varchar(9) CHARACTER SET big5)",
    "CREATE TABLE keyless (x int, f float)",
    "CREATE TABLE by_float (f double PRIMARY KEY)",
    "CREATE TABLE files (id int PRIMARY KEY) ENGINE = MyISAM",
    "CREATE TABLE versions (id int PRIMARY KEY) WITH SYSTEM VERSIONING",
    "CREATE TABLE pets (id int PRIMARY KEY, user int unsigned, CONSTRAINT owner FOREIGN KEY (user) REFERENCES users "
    "(id) ON DELETE CASCADE)",
    "CREATE VIEW seen AS SELECT * FROM users",
)


@pytest.fixture
def tables(server: MariaDb, database: str) -> str:
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        for each in _TABLES:
            cursor.execute(each)
    return database


@pytest.fixture
def session(tmp_path: Path, server: MariaDb) -> Iterator[Session]:
    """Open a catalog with a connection to the server."""
    with Session(tmp_path / "catalog.db") as opened:
        password = PASSWORD.replace("'", "''")
        opened.execute(
            f"CREATE SECRET p AS '{password}'; CREATE SECRET wrong AS 'wrong'; "
            f"CREATE SECRET ca AS file('{server.trusted}');" + _connection(server)
        )
        yield opened


def _connection(server: MariaDb, **given: str) -> str:
    options = {"HOST": "'127.0.0.1'", "PORT": str(server.port), "USER": "'reader'", "PASSWORD": "SECRET p", **given}
    listed = ", ".join(f"{name.replace('_', ' ')} = {value}" for name, value in options.items())
    return f"CREATE CONNECTION {'my' if not given else 'other'} TO MYSQL ({listed});"


def _refused(session: Session, text: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        session.execute(text)
    return caught.value


def _source(session: Session, name: str) -> logical.Source:
    found = session.catalog.plans.item(f"materialize.public.{name}")
    assert isinstance(found, logical.Source)
    return found


def test_tables_have_the_servers_columns_and_keys(session: Session, tables: str) -> None:
    session.execute(
        f"CREATE SOURCE s FROM MYSQL CONNECTION my (EXCLUDE COLUMNS ({tables}.users.place, {tables}.by_code.note), "
        f"TEXT COLUMNS (users.born)) FOR TABLES ({tables}.users, {tables}.by_code AS codes, keyless, "
        "by_float);"
    )
    users, codes = _source(session, "users"), _source(session, "codes")
    assert [(each.name, str(each.type), each.nullable) for each in users.shape.columns[:4]] == [
        ("id", "uint4", False),
        ("email", "text", False),
        ("name", "text", True),
        ("doc", "jsonb", True),
    ]
    assert [str(each.type) for each in users.shape.columns[4:]] == ["text", "uuid"]
    assert {frozenset({"id"}), frozenset({"email"})} == set(users.shape.keys)
    assert users.shape.change == logical.Change.UPSERT
    assert [str(each.type) for each in codes.shape.columns] == ["text", "numeric(38,10)"]
    assert (frozenset({"code"}),) == codes.shape.keys
    for name in ("keyless", "by_float"):
        assert _source(session, name).shape.change == logical.Change.RETRACT


def test_all_tables_of_a_database_are_subsources(session: Session, tables: str, server: MariaDb) -> None:
    server.run(*(f"DROP TABLE {tables}.{name}" for name in ("pets", "by_code", "files", "versions")))
    session.execute(f"CREATE SOURCE s FROM MYSQL CONNECTION my (IGNORE COLUMNS (users.place)) FOR SCHEMAS ({tables});")
    (shown,) = session.execute("SHOW SUBSOURCES ON s;")
    assert sorted(row[0] for row in shown.rows) == ["by_float", "keyless", "users"]


def test_a_table_of_a_source_chooses_its_columns(session: Session, tables: str) -> None:
    session.execute(
        "CREATE SOURCE s FROM MYSQL CONNECTION my;"
        f"CREATE TABLE u FROM SOURCE s (REFERENCE {tables}.users) WITH (EXCLUDE COLUMNS (place, doc), "
        "TEXT COLUMNS (id));"
    )
    assert [(each.name, str(each.type)) for each in _source(session, "u").shape.columns] == [
        ("id", "text"),
        ("email", "text"),
        ("name", "text"),
        ("born", "date"),
        ("uid", "uuid"),
    ]


_REFUSED = (
    ("SQ2830", "", "files", "ENGINE = InnoDB"),
    ("SQ2830", "", "versions", ""),
    ("SQ2831", "", "pets", "IGNORE CASCADES"),
    ("SQ2814", "", "users", "EXCLUDE COLUMNS"),
    ("SQ2814", "", "by_code", "EXCLUDE COLUMNS"),
    ("SQ2812", "(TEXT COLUMNS (users.nam))", "users", "users.name"),
    ("SQ2813", "(EXCLUDE COLUMNS (users.id))", "users", "view"),
    ("SQ2832", "(TEXT COLUMNS (keyless.f))", "keyless", "real"),
    ("SQ2461", "", "seen", ""),
)


@pytest.mark.parametrize(("code", "options", "table", "hint"), _REFUSED, ids=range(len(_REFUSED)))
def test_what_cannot_be_read_is_refused_with_a_way_out(
    session: Session, tables: str, code: str, options: str, table: str, hint: str
) -> None:
    error = _refused(session, f"CREATE SOURCE s FROM MYSQL CONNECTION my {options} FOR TABLES ({tables}.{table});")
    assert error.code == code, str(error)
    assert hint in (error.hint or "")
    assert error.span is not None


def test_tables_with_cascades_are_read_where_the_user_says_so(session: Session, tables: str) -> None:
    session.execute(
        f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({tables}.pets) WITH (IGNORE CASCADES = true);"
    )
    assert _source(session, "pets").shape.change == logical.Change.UPSERT


def test_cascades_are_not_in_the_log(server: MariaDb, tables: str) -> None:
    server.run(f"INSERT INTO {tables}.users (id, email) VALUES (1, 'e')", f"INSERT INTO {tables}.pets VALUES (1, 1)")
    (before,) = server.rows("SELECT @@gtid_binlog_pos")
    server.run("FLUSH BINARY LOGS", f"DELETE FROM {tables}.users")
    assert not server.rows(f"SELECT * FROM {tables}.pets")
    (file,) = server.rows("SHOW MASTER STATUS")
    events = server.rows(f"SHOW BINLOG EVENTS IN '{file[0]}'")
    assert before
    assert sum(each[2].startswith("Delete_rows") for each in events) == 1


_SETTINGS = (
    ("binlog_format", "MIXED", "ROW"),
    ("binlog_row_image", "MINIMAL", "FULL"),
    ("binlog_row_metadata", "NO_LOG", "FULL"),
)


@pytest.mark.parametrize(("name", "wrong", "right"), _SETTINGS, ids=[each[0] for each in _SETTINGS])
def test_a_setting_that_leaves_out_changes_is_refused(
    session: Session, server: MariaDb, name: str, wrong: str, right: str
) -> None:
    server.run(f"SET GLOBAL {name} = '{wrong}'")
    try:
        error = _refused(session, "CREATE SOURCE s FROM MYSQL CONNECTION my FOR ALL TABLES;")
    finally:
        server.run(f"SET GLOBAL {name} = '{right}'")
    assert (error.code, error.retryable) == ("SQ4464", True)
    assert f"SET GLOBAL {name} = '{right}'" in (error.hint or "")


_FAILURES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("SQ4460", {"HOST": "'nosuch.invalid'"}, "HOST"),
    ("SQ4460", {"PORT": "1"}, "PORT"),
    ("SQ4461", {"PASSWORD": "SECRET wrong"}, "PASSWORD"),
    ("SQ4461", {"USER": "'nobody'"}, "USER"),
    ("SQ4462", {"SSL_MODE": "verify_ca", "SSL_CERTIFICATE_AUTHORITY": "'nonsense'"}, "PEM"),
    ("SQ4462", {"SSL_MODE": "verify_identity", "HOST": "'localhost'", "SSL_CERTIFICATE_AUTHORITY": "SECRET ca"}, "CA"),
)


@pytest.mark.parametrize(("code", "options", "hint"), _FAILURES, ids=range(len(_FAILURES)))
def test_a_connection_that_fails_says_why(
    session: Session, server: MariaDb, code: str, options: dict[str, str], hint: str
) -> None:
    error = _refused(session, _connection(server, **options))
    assert (error.code, error.retryable) == (code, True), str(error)
    assert hint.lower() in (error.hint or "").lower()
    assert PASSWORD not in str(error)


@pytest.mark.parametrize("mode", ["required", "verify_ca", "verify_identity"])
def test_a_connection_is_encrypted(session: Session, server: MariaDb, mode: str) -> None:
    server.run("ALTER USER reader@'%' REQUIRE SSL")
    try:
        assert "SSL MODE" in (_refused(session, _connection(server, SSL_MODE="disabled")).hint or "")
        session.execute("VALIDATE CONNECTION my;")  # the connection prefers TLS
        authority = {} if mode == "required" else {"SSL_CERTIFICATE_AUTHORITY": "SECRET ca"}
        session.execute(_connection(server, SSL_MODE=mode, **authority))
    finally:
        server.run("ALTER USER reader@'%' REQUIRE NONE")


@pytest.mark.parametrize("privilege", ["REPLICATION SLAVE", "BINLOG MONITOR"])
def test_a_user_without_a_privilege_is_told(session: Session, server: MariaDb, privilege: str) -> None:
    server.run(f"REVOKE {privilege} ON *.* FROM reader@'%'")
    try:
        error = _refused(session, "CREATE SOURCE s FROM MYSQL CONNECTION my FOR ALL TABLES;")
    finally:
        server.run(f"GRANT {privilege} ON *.* TO reader@'%'")
    assert error.code == "SQ4465"
    assert "GRANT" in (error.hint or "")
