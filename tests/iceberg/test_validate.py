"""Invalid connections to real servers: each failure has its code, at the option that causes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.proxy import proxy
from support.seaweed import ROLE, SECRET, Seaweed

pytestmark = pytest.mark.server

_ROLE = f"ASSUME ROLE ARN = '{ROLE}'"
_REST = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', "
_TABLES = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 's3tablesrest', "
_AWS = "CREATE CONNECTION c TO AWS ("


@pytest.fixture(scope="module")
def places(server: Seaweed) -> Iterator[dict[str, str]]:
    """Yield the addresses of the servers, and of a port without a listener."""
    with closing(socket.socket()) as unused, proxy(server.rest) as (refusing, rule):
        unused.bind(("127.0.0.1", 0))
        rule.statuses = [403] * 100
        yield {
            "REST": f"127.0.0.1:{server.rest}",
            "S3": f"127.0.0.1:{server.s3}",
            "NOBODY": f"127.0.0.1:{unused.getsockname()[1]}",
            "REFUSING": f"127.0.0.1:{refusing}",
        }


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, server: Seaweed, places: dict[str, str]) -> Iterator[Session]:
    """Yield a session with valid and invalid connections; tests create nothing in it that lasts."""
    with pytest.MonkeyPatch.context() as patch, Session(tmp_path_factory.mktemp("validate") / "c.db") as session:
        patch.setenv("AWS_ACCESS_KEY_ID", server.user)
        patch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        session.execute(f"""
            CREATE SECRET good AS '{SECRET}';
            CREATE SECRET bad AS 'wrong-wrong';
            CREATE CONNECTION aws TO AWS (
              ACCESS KEY ID = '{server.user}', SECRET ACCESS KEY = SECRET good, ENDPOINT = 'http://{places["S3"]}'
            ) WITH (VALIDATE);
            CREATE CONNECTION wrong_aws TO AWS (
              ACCESS KEY ID = '{server.user}', SECRET ACCESS KEY = SECRET bad, ENDPOINT = 'http://{places["S3"]}'
            );
            CREATE CONNECTION role TO AWS (
              {_ROLE}, ENDPOINT = 'http://{places["S3"]}', ASSUME ROLE EXTERNAL ID = 'tenant'
            ) WITH (VALIDATE);
            CREATE CONNECTION wrong_role TO AWS (ASSUME ROLE ARN = '{ROLE}X', ENDPOINT = 'http://{places["S3"]}');
            CREATE CONNECTION lake TO ICEBERG CATALOG (
              CATALOG TYPE = 'rest', URL = 'http://{places["REST"]}', WAREHOUSE = 'lake',
              CREDENTIAL = 'admin:' || SECRET good
            );
            CREATE CONNECTION tables TO ICEBERG CATALOG (
              CATALOG TYPE = 's3tablesrest', URL = 'http://{places["REST"]}', WAREHOUSE = 'lake', AWS CONNECTION = aws
            );
        """)
        yield session


def refusal(session: Session, statement: str) -> tuple[str, str]:
    """Return the code of a statement's error, which must show no secret, and the text at its caret."""
    with pytest.raises(SinkqlError) as caught:
        session.execute(statement)
    error = caught.value
    assert error.span is not None
    assert error.hint
    assert error.exit_code == 4
    shown = str(error)
    assert SECRET not in shown.replace("SECRET", "")
    assert "wrong-wrong" not in shown
    return error.code, statement[error.span.start : error.span.end]


@pytest.mark.parametrize(
    ("statement", "code", "option"),
    [
        (f"{_REST}URL = 'http://NOBODY')", "SQ4201", "URL = 'http://NOBODY'"),
        (f"{_REST}URL = 'https://REST')", "SQ4209", "URL = 'https://REST'"),
        (f"{_REST}URL = 'http://S3')", "SQ4206", "URL = 'http://S3'"),
        (f"{_REST}URL = 'http://REST', CREDENTIAL = 'admin:' || SECRET bad)", "SQ4202", "CREDENTIAL = "),
        (f"{_REST}URL = 'http://REST/v1', CREDENTIAL = SECRET good)", "SQ4206", "URL = 'http://REST/v1'"),
        (f"{_REST}URL = 'http://REFUSING', CREDENTIAL = 'admin:' || SECRET good)", "SQ4203", "CREDENTIAL = "),
        (
            f"{_REST}URL = 'http://REST', CREDENTIAL = 'admin:' || SECRET good, WAREHOUSE = 'pond')",
            "SQ4204",
            "WAREHOUSE = 'pond'",
        ),
        (
            f"{_REST}URL = 'http://REST', CREDENTIAL = SECRET good, OAUTH2 SERVER URL = 'http://NOBODY')",
            "SQ4212",
            "OAUTH2 SERVER URL = 'http://NOBODY'",
        ),
        (f"{_TABLES}URL = 'http://REST', WAREHOUSE = 'pond', AWS CONNECTION = aws)", "SQ4204", "WAREHOUSE = 'pond'"),
        (
            f"{_TABLES}URL = 'http://REST', WAREHOUSE = 'lake', AWS CONNECTION = wrong_aws)",
            "SQ4211",
            "AWS CONNECTION = wrong_aws",
        ),
        (
            f"{_TABLES}URL = 'http://REST', WAREHOUSE = 'lake', AWS CONNECTION = wrong_role)",
            "SQ4222",
            "AWS CONNECTION = wrong_role",
        ),
        (f"{_TABLES}URL = 'http://NOBODY', WAREHOUSE = 'lake', AWS CONNECTION = aws)", "SQ4201", "URL = "),
        (
            f"{_AWS}ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET bad, ENDPOINT = 'http://S3') WITH (VALIDATE)",
            "SQ4220",
            "ACCESS KEY ID = 'admin'",
        ),
        (
            f"{_AWS}ASSUME ROLE ARN = '{ROLE}X', ENDPOINT = 'http://S3') WITH (VALIDATE)",
            "SQ4222",
            "ASSUME ROLE ARN = ",
        ),
        (f"{_AWS}{_ROLE}, ENDPOINT = 'http://NOBODY') WITH (VALIDATE)", "SQ4223", "ENDPOINT = 'http://NOBODY'"),
        (
            f"{_AWS}ACCESS KEY ID = 'x', SECRET ACCESS KEY = SECRET good, ENDPOINT = 'http://REST') WITH (VALIDATE)",
            "SQ4223",
            "ENDPOINT = 'http://REST'",
        ),
        (f"{_AWS}{_ROLE}, ENDPOINT = 'https://S3') WITH (VALIDATE)", "SQ4227", "ENDPOINT = 'https://S3'"),
        (f"{_AWS}{_ROLE}, REGION = 'the moon') WITH (VALIDATE)", "SQ4225", "REGION = 'the moon'"),
    ],
)
def test_a_failure_is_shown_at_its_option(
    session: Session, places: dict[str, str], statement: str, code: str, option: str
) -> None:
    for name, place in places.items():
        statement, option = (each.replace(f"//{name}", f"//{place}") for each in (statement, option))
    found, place = refusal(session, statement + ";")
    assert found == code
    assert place.startswith(option)


def test_a_role_needs_credentials_of_the_machine(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert refusal(session, "VALIDATE CONNECTION role;") == ("SQ4224", "role")


def test_connections_that_work_are_valid(session: Session) -> None:
    tags = [session.execute(f"VALIDATE CONNECTION {name};")[0].tag for name in ("lake", "tables", "aws", "role")]
    assert tags == ["VALIDATE CONNECTION"] * 4


def test_a_kind_that_cannot_be_asked_says_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = session.catalog.registry.connections
    monkeypatch.setitem(kinds, "AWS", replace(kinds["AWS"], validate=None))
    with pytest.raises(SinkqlError) as caught:
        session.execute("VALIDATE CONNECTION aws;")
    assert caught.value.code == "SQ2984"
