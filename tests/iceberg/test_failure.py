"""A missing, wrong or refusing catalog or store raises one coded error with its cause."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pyiceberg.exceptions import ForbiddenError, OAuthError, RESTError, ServerError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from sinkql import logical
from sinkql.connectors.aws.store import S3
from sinkql.connectors.iceberg.storage import Stores
from sinkql.connectors.iceberg.table import rest_catalog as rest_catalogs
from sinkql.connectors.iceberg.table.catalog import open_catalog, validate
from sinkql.connectors.iceberg.table.failure import catalog_error, is_transient
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError
from support.access import Access
from support.lake import Lake, Sink
from support.patience import joined
from support.seaweed import Seaweed


def refusal(options: dict[str, Any], access: Access | None = None) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("lake", "ICEBERG CATALOG", options), access or Access())
    assert caught.value.hint
    assert caught.value.detail
    assert caught.value.exit_code == 4
    return caught.value


def rest(server: Seaweed, **options: Any) -> dict[str, Any]:
    return {
        "catalog_type": "rest",
        "url": f"http://127.0.0.1:{server.rest}",
        "warehouse": "lake",
        "credential": {"secret_text": ["admin:", {"secret": "s"}]},
        **options,
    }


@pytest.fixture
def silent() -> Iterator[int]:
    """Yield the port of a server that accepts connections but never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return

        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        joined(thread)
        for each in held:
            each.close()


def test_nothing_listens(lake: Lake) -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        error = refusal({"catalog_type": "rest", "url": f"http://127.0.0.1:{unused.getsockname()[1]}"})
    assert error.code == "SQ4201"


@pytest.mark.parametrize("credential", [False, True])
def test_a_catalog_that_never_answers_is_not_waited_for(
    silent: int, monkeypatch: pytest.MonkeyPatch, *, credential: bool
) -> None:
    monkeypatch.setattr(rest_catalogs, "_TIMEOUT", (0.2, 0.2))
    options: dict[str, Any] = {"catalog_type": "rest", "url": f"http://127.0.0.1:{silent}"}
    if credential:
        options["credential"] = {"secret_text": [{"secret": "s"}]}
    assert refusal(options).code == "SQ4201"


@pytest.mark.server
def test_wrong_credential(server: Seaweed) -> None:
    assert refusal(rest(server), Access("wrong")).code == "SQ4202"


@pytest.mark.server
def test_no_credential(server: Seaweed) -> None:
    options = rest(server)
    del options["credential"]
    assert refusal(options).code == "SQ4202"


@pytest.mark.server
def test_wrong_warehouse(server: Seaweed) -> None:
    assert refusal(rest(server, warehouse="pond")).code == "SQ4204"


@pytest.mark.server
def test_right_catalog_is_valid(server: Seaweed) -> None:
    validate(logical.Connection("lake", "ICEBERG CATALOG", rest(server)), Access())


@pytest.mark.server
def test_wrong_storage_key(server: Seaweed, tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, server)
    sink = Sink(lake, name)
    sink.start()
    wrong = {**server.storage, "s3.secret-access-key": "wrong"}
    catalog = open_catalog("lake", rest(server), Access(), Stores(S3(wrong)))
    with pytest.raises(OSError, match="AWS Error") as caught:
        catalog.load_table(("shop", name)).scan().to_arrow()
    assert catalog_error(caught.value, "lake").code == "SQ4302"


def test_url_without_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal({"catalog_type": "sql", "url": "nonsense", "warehouse": "w"}).code == "SQ4206"
    assert refusal({"catalog_type": "sql", "url": "oracle9://x", "warehouse": "w"}).code == "SQ4206"


def test_folder_where_a_file_stands(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    options = {
        "catalog_type": "sql",
        "url": f"sqlite:///{tmp_path}/c.db",
        "warehouse": str(tmp_path / "taken" / "warehouse"),
    }
    assert refusal(options).code == "SQ4304"


def test_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sinkql.connectors.iceberg.table.catalog.os.access", lambda *_: False
    )  # root can write to every folder
    options = {"catalog_type": "sql", "url": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "warehouse")}
    assert refusal(options).code == "SQ4301"


def test_folder_that_no_url_can_name(tmp_path: Path) -> None:
    options = {"catalog_type": "sql", "url": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/a#b"}
    with pytest.raises(SinkqlError) as caught:
        validate(logical.Connection("lake", "ICEBERG CATALOG", options), Access())
    assert caught.value.code == "SQ4305"


def test_folders_are_created(tmp_path: Path) -> None:
    options = {
        "catalog_type": "sql",
        "url": f"sqlite:///{tmp_path}/deep/er/c.db",
        "warehouse": str(tmp_path / "far" / "warehouse"),
    }
    validate(logical.Connection("lake", "ICEBERG CATALOG", options), Access())
    assert (tmp_path / "deep" / "er" / "c.db").exists()


def test_secret_stays_out_of_the_error(server: Seaweed) -> None:
    error = refusal(rest(server), Access("hunter2-hunter2"))
    assert "hunter2" not in f"{error.message} {error.detail} {error.hint}"


def test_a_busy_sqlite_catalog_is_an_unknown_outcome(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake_options = dict(lake.connection.options)
    lake_options["url"] += "?timeout=0.1"
    monkeypatch.setattr(Lake, "connection", type(lake.connection)("lake", "ICEBERG CATALOG", lake_options))
    sink = Sink(lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    holder = sqlite3.connect(lake.folder / "catalog.db", check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    post = TargetTable.post
    raised: list[Exception] = []

    def watched(*arguments: Any) -> Table:  # same signature as the patched method
        try:
            return post(*arguments)
        except Exception as error:
            raised.append(error)
            holder.rollback()
            raise

    monkeypatch.setattr(TargetTable, "post", watched)
    sink.finish(attempt)
    holder.close()
    assert [type(error) for error in raised] == [OperationalError]
    assert lake.rows(name) == [(1, "a")]


def test_patience_ends(lake: Lake) -> None:
    calls: list[int] = []

    def absent() -> None:
        calls.append(1)
        raise ConnectionError("no route")

    target = TargetTable(
        open_catalog("lake", lake.connection.options, Access()), "n", "t", "lake", patience=Patience(3, 0, 0)
    )
    with pytest.raises(SinkqlError) as caught:
        target.patiently(absent)
    assert (len(calls), caught.value.code) == (3, "SQ4304")


def test_what_cannot_get_better_is_not_tried_again() -> None:
    assert not is_transient(PermissionError(13, "no"))
    assert not is_transient(ValueError("no"))
    assert is_transient(ConnectionError("no"))


@pytest.mark.parametrize(
    ("error", "code", "option"),
    [
        (OAuthError("invalid_scope: PRINCIPAL_ROLE:NONE"), "SQ4202", "SCOPE"),
        (OAuthError("invalid_client"), "SQ4202", "CREDENTIAL"),
        (ForbiddenError("AccessDeniedException: not allowed"), "SQ4203", "CREDENTIAL"),
        (ForbiddenError("The security token included in the request is invalid."), "SQ4211", "AWS CONNECTION"),
        (ClientError({"Error": {"Code": "UnrecognizedClientException"}}, "GetDatabases"), "SQ4211", "AWS CONNECTION"),
        (ClientError({"Error": {"Code": "InvalidSignatureException"}}, "GetDatabases"), "SQ4211", "AWS CONNECTION"),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetDatabases"), "SQ4203", "CREDENTIAL"),
        (EndpointConnectionError(endpoint_url="https://glue.nowhere"), "SQ4201", "URL"),
        (ForbiddenError('Received unexpected JSON Payload: {"message": "signature"}'), "SQ4211", "AWS CONNECTION"),
        (ServerError("Received unexpected JSON Payload: <html>502 Bad Gateway"), "SQ4201", "URL"),
        (ServerError("IllegalStateException: Warehouse 'w' is not known"), "SQ4204", "WAREHOUSE"),
        (ServerError("RuntimeIOException: warehouse w does not exist"), "SQ4204", "WAREHOUSE"),
        (ServerError("RuntimeIOException: cannot read s3://b/warehouse/t/m.json: host not found"), "SQ4201", "URL"),
        (ServerError("RuntimeIOException: s3://b/warehouse not found"), "SQ4201", "URL"),
        (RESTError("Received unexpected JSON Payload: <html>hello"), "SQ4206", "URL"),
    ],
)
def test_an_error_names_the_option_that_causes_it(error: Exception, code: str, option: str) -> None:
    found = catalog_error(error, "lake")
    assert (found.code, found.option) == (code, option)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "When reading 'lake/region/301-403.parquet': AWS Error NETWORK_CONNECTION during GetObject",
            "SQ4304",
        ),
        ("When reading 'lake/t/a.parquet': AWS Error ACCESS_DENIED during HeadObject operation", "SQ4302"),
        ("When reading 'b/t': AWS Error UNKNOWN (HTTP status 403) during HeadObject operation", "SQ4302"),
        ("When reading 'b/t': AWS Error UNKNOWN (HTTP status 301) during HeadObject operation", "SQ4303"),
        ("When reading 'b/t': AWS Error UNKNOWN during PutObject: ExpiredToken", "SQ4308"),
        (
            "google::cloud::Status(PERMISSION_DENIED: Permanent error, with a last message of no right)",
            "SQ4302",
        ),
        ("When reading 'b/permission_denied': google::cloud::Status(UNAVAILABLE: Retry policy exhausted)", "SQ4304"),
    ],
)
def test_words_of_a_path_say_nothing_about_a_failure_of_the_store(message: str, code: str) -> None:
    assert catalog_error(OSError(message), "lake").code == code


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("SIGNATURE_DOES_NOT_MATCH", "rejects the keys"),
        ("INVALID_ACCESS_KEY_ID", "rejects the keys"),
        ("ACCESS_DENIED", "denies access"),
    ],
)
def test_wrong_keys_are_told_from_keys_that_may_not(answer: str, said: str) -> None:
    found = catalog_error(OSError(f"When reading 'lake/t': AWS Error {answer} during PutObject operation: …"), "lake")
    assert (found.code, found.message) == ("SQ4302", f'the storage behind connection "lake" {said}')
    assert "the sink's AWS connection" in (found.hint or "")


def test_the_session_token_that_a_catalog_repeats_is_not_shown() -> None:
    error = catalog_error(ForbiddenError("SignatureDoesNotMatch: host:h\nx-amz-security-token:SECRET\n"), "lake")
    assert error.code == "SQ4211"
    assert "SECRET" not in str(error)
    assert "x-amz-security-token:***" in str(error)


def test_messages_of_aws_are_not_shown() -> None:
    answer = {"Error": {"Code": "InvalidSignatureException", "Message": "x-amz-security-token:TOKEN"}}
    assert "TOKEN" not in str(catalog_error(ClientError(answer, "GetTable"), "lake"))
