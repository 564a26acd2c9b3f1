"""CREATE CONNECTION … TO POSTGRES tries the connection; each kind of failure has a code and a hint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.connection import PostgresConnection
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.authority import authority
from support.port import free_ports
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.tls_front import tls_front

pytestmark = pytest.mark.server

_HBA = "host all postgres all trust\nhost all bob all scram-sha-256\nhost all clear all password\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """Run a server that asks bob for a password, and refuses roles that its pg_hba.conf does not list."""
    with postgres_server() as server:
        server.execute(
            "CREATE ROLE bob LOGIN PASSWORD 'hunter22'; CREATE ROLE eve LOGIN;"
            " CREATE ROLE clear LOGIN PASSWORD 'hunter22'"
        )
        (server.data / "pg_hba.conf").write_text(_HBA)
        server.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "catalog.db") as opened:
        opened.execute("CREATE SECRET right AS 'hunter22'; CREATE SECRET wrong AS 'hunter23';")
        yield opened


def _connect(port: int, **options: str) -> str:
    given = {"HOST": "'127.0.0.1'", "PORT": str(port), "DATABASE": "postgres", "USER": "postgres"}
    given |= {name.replace("_", " "): value for name, value in options.items()}
    return f"CREATE CONNECTION c TO POSTGRES ({', '.join(f'{name} {value}' for name, value in given.items())});"


def test_a_server_that_asks_for_a_clear_password_is_refused_where_the_environment_says_so(
    session: Session, guarded: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGREQUIREAUTH", "scram-sha-256")
    with pytest.raises(SinkqlError) as caught:
        session.execute(_connect(guarded.port, USER="clear", PASSWORD="SECRET right"))
    assert caught.value.code == "SQ4414"
    assert "server requested a cleartext password" in (caught.value.detail or "")
    session.execute(_connect(guarded.port, USER="bob", PASSWORD="SECRET right") + "DROP CONNECTION c;")
    monkeypatch.delenv("PGREQUIREAUTH")
    session.execute(_connect(guarded.port, USER="clear", PASSWORD="SECRET right"))


def test_a_password_is_a_secret_and_a_certificate_is_text(session: Session, guarded: Postgres, tmp_path: Path) -> None:
    trusted, identity = authority(tmp_path)
    with tls_front(guarded.port, identity) as port:
        session.execute(
            f"CREATE SECRET ca AS file('{trusted}');"
            + _connect(
                port, USER="bob", PASSWORD="SECRET right", SSL_MODE="verify_full", SSL_CERTIFICATE_AUTHORITY="SECRET ca"
            )
            + "VALIDATE CONNECTION c;"
        )
    (result,) = session.execute("SHOW CREATE CONNECTION c;")
    assert "hunter22" not in str(result.rows)


_FAILURES = [
    ("SQ4401", {"HOST": "'nosuch.invalid'"}, "HOST"),
    ("SQ4402", {"PORT": "closed"}, "PORT"),
    ("SQ4404", {"USER": "bob"}, "USER"),
    ("SQ4404", {"USER": "bob", "PASSWORD": "SECRET wrong"}, "PASSWORD"),
    ("SQ4405", {"USER": "eve"}, "USER"),
    ("SQ4406", {"DATABASE": "nosuch"}, "DATABASE"),
    ("SQ4407", {"SSL_MODE": "require"}, "SSL MODE"),
]


@pytest.mark.parametrize(("code", "options", "blamed"), _FAILURES, ids=range(len(_FAILURES)))
def test_a_failure_points_to_the_option_that_causes_it(
    session: Session, guarded: Postgres, code: str, options: dict[str, str], blamed: str
) -> None:
    closed = str(free_ports(1)[0])
    text = _connect(guarded.port, **{name: closed if value == "closed" else value for name, value in options.items()})
    error = _refused(session, text)
    assert error.code == code, str(error)
    assert error.span is not None
    assert text[error.span.start :].startswith(blamed), str(error)
    assert "hunter" not in str(error)


def test_a_certificate_is_checked(session: Session, guarded: Postgres, tmp_path: Path) -> None:
    trusted, identity = authority(tmp_path)
    (tmp_path / "other").mkdir()
    stranger, _ = authority(tmp_path / "other")
    session.execute(
        f"CREATE SECRET ca AS file('{trusted}'); CREATE SECRET stranger AS file('{stranger}');"
        "CREATE SECRET nonsense AS 'nonsense';"
    )
    with tls_front(guarded.port, identity) as port:

        def tried(mode: str, ca: str, host: str = "127.0.0.1") -> str:
            options = {"HOST": f"'{host}'", "SSL_MODE": mode, "SSL_CERTIFICATE_AUTHORITY": f"SECRET {ca}"}
            return _refused(session, _connect(port, **options)).code

        assert tried("verify_ca", "stranger") == "SQ4408"
        assert tried("verify_full", "ca", "localhost") == "SQ4409"
        assert tried("verify_full", "nonsense") == "SQ4410"
        session.execute(_connect(port, HOST="localhost", SSL_MODE="verify_ca", SSL_CERTIFICATE_AUTHORITY="SECRET ca"))
    (tmp_path / "old").mkdir()
    old, expired = authority(tmp_path / "old", days=-1)
    session.execute(f"DROP CONNECTION c; ALTER SECRET ca AS file('{old}');")
    with tls_front(guarded.port, expired) as port:
        assert tried("verify_ca", "ca") == "SQ4408"


def test_a_user_without_replication_is_told_so_where_a_source_is_created(session: Session, guarded: Postgres) -> None:
    session.execute(_connect(guarded.port, USER="bob", PASSWORD="SECRET right"))
    error = _refused(session, "CREATE SOURCE s FROM POSTGRES CONNECTION c (PUBLICATION 'p');")
    assert error.code == "SQ2806", str(error)
    guarded.execute("CREATE PUBLICATION p")
    error = _refused(session, "CREATE SOURCE s FROM POSTGRES CONNECTION c (PUBLICATION 'p');")
    guarded.execute("DROP PUBLICATION p")
    assert error.code == "SQ4411", str(error)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("SQ4403", "connection timeout expired"),
        ("SQ4405", 'FATAL:  no pg_hba.conf entry for host "::1", user "u", database "d", no encryption'),
        ("SQ4412", "FATAL:  sorry, too many clients already"),
        ("SQ4413", "FATAL:  the database system is starting up"),
        ("SQ4414", "FATAL:  something new"),
        ("SQ4415", "SSL error: tlsv13 alert certificate required"),
        ("SQ4415", "SSL error: ssl/tls alert certificate expired"),
        ("SQ4415", "FATAL:  connection requires a valid client certificate"),
    ],
)
def test_what_the_server_says_is_told_by_its_words(code: str, told: str) -> None:
    options = PostgresConnection("h", 1, "d", {}, "disable")
    error = failure(psycopg.OperationalError(told), options, user="u")
    assert (error.code, '"u"' in str(error)) == (code, False)
    assert error.retryable


def _refused(session: Session, text: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        session.execute(text)
    return caught.value
