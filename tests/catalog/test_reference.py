"""Secrets in other systems are read on demand. Each failure has its code and reveals nothing."""

from __future__ import annotations

import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from sinkql.catalog.secret import providers
from sinkql.catalog.secret import providers as reference_aws
from sinkql.catalog.secret import providers as reference_vault
from sinkql.errors import SinkqlError
from support.aws import KEYS, Aws, aws
from support.patience import PATIENCE_S, joined
from support.vault import ROOT, Vault, vault

pytestmark = pytest.mark.server

resolve = partial(providers.resolve, project=Path())

_CANARY = "canary-77d0e1b4"
_HIDDEN = (_CANARY, ROOT, *KEYS.values())


def _refused(kind: str, *arguments: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as raised:
        resolve("s", kind, arguments)
    error = raised.value
    with_locals = traceback.TracebackException.from_exception(error, capture_locals=True)
    shown = error.shown() + "".join(with_locals.format()) + repr(error.__context__)
    assert [hidden for hidden in _HIDDEN if hidden in shown] == []
    assert error.hint
    return error


@pytest.fixture
def closed() -> Iterator[str]:
    """Yield an address of this machine that refuses connections."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield an address that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    ("kind", "arguments", "module"),
    [("keyring", ("a", "b"), "keyring"), ("vault", ("a", "b"), "hvac"), ("aws_secret", ("a",), "boto3")],
)
def test_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, arguments: tuple[str, ...], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    error = _refused(kind, *arguments)
    assert error.code == "SQ4120"
    assert f"pip install 'sinkql[{kind.removesuffix('_secret')}]'" in (error.hint or "")


# --- keyring ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use a keyring in a file, chosen by environment variables, as a user does."""
    before = keyring.get_keyring()
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyrings.alt.file.PlaintextKeyring")
    monkeypatch.setenv("KEYRING_PROPERTY_FILE_PATH", str(tmp_path / "ring.cfg"))
    keyring.core.init_backend()
    yield
    keyring.set_keyring(before)


def test_password_of_the_keyring_is_read_when_asked_for(ring: None) -> None:
    keyring.set_password("lake", "writer", _CANARY)
    assert resolve("s", "keyring", ("lake", "writer")) == _CANARY
    keyring.set_password("lake", "writer", "another")
    assert resolve("s", "keyring", ("lake", "writer")) == "another"


def test_password_that_the_keyring_has_not_is_named(ring: None) -> None:
    keyring.set_password("lake", "writer", _CANARY)
    error = _refused("keyring", "lake", "reader")
    assert (error.code, error.hint) == ("SQ4123", "Run keyring set lake reader, as the user who runs the job.")


class _Locked(KeyringBackend):
    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked(_CANARY)

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


class _Waiting(_Locked):
    def get_password(self, service: str, username: str) -> str | None:
        threading.Event().wait(PATIENCE_S)
        return None


class _Broken(_Locked):
    def get_password(self, service: str, username: str) -> str | None:
        raise OSError(_CANARY)


@pytest.mark.parametrize(("backend", "code"), [(_Locked, "SQ4122"), (_Waiting, "SQ4122"), (_Broken, "SQ4121")])
def test_keyring_that_does_not_open_is_told(
    ring: None, monkeypatch: pytest.MonkeyPatch, backend: type[_Locked], code: str
) -> None:
    monkeypatch.setattr(providers, "_REFERENCE_PATIENCE_S", 0.2 if backend is _Waiting else 10.0)
    keyring.set_keyring(backend())
    assert _refused("keyring", "lake", "writer").code == code


def test_machine_without_a_keyring_is_told(ring: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    keyring.core.init_backend()
    assert _refused("keyring", "lake", "writer").code == "SQ4121"


# --- vault -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    with vault(tmp_path_factory.mktemp("vault")) as server:
        yield server


@pytest.fixture
def store(bao: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vault:
    """Point the environment to this server only."""
    for name in ("ADDR", "TOKEN", "NAMESPACE", "CACERT", "CAPATH", "SKIP_VERIFY"):
        monkeypatch.delenv(f"VAULT_{name}", raising=False)
        monkeypatch.delenv(f"BAO_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, text in bao.environment.items():
        monkeypatch.setenv(name, text)
    return bao


def test_field_of_the_vault_is_read_when_asked_for(store: Vault) -> None:
    store.put("app/db", password=_CANARY, port=5432, hosts=["a", "b"])
    read = [resolve("s", "vault", ("secret/app/db", field)) for field in ("password", "port", "hosts")]
    assert read == [_CANARY, "5432", '["a", "b"]']
    store.put("app/db", password="another")
    assert resolve("s", "vault", ("/secret/app/db/", "password")) == "another"


def test_store_without_versions_is_read(store: Vault) -> None:
    client = store.client()
    client.sys.enable_secrets_engine("kv", path="team/old", options={"version": "1"})
    client.secrets.kv.v1.create_or_update_secret("app", {"password": _CANARY}, mount_point="team/old")
    assert resolve("s", "vault", ("team/old/app", "password")) == _CANARY


def test_store_of_a_namespace_is_read(store: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    store.client().adapter.post("/v1/sys/namespaces/space")
    client = store.client("space")
    client.sys.enable_secrets_engine("kv", path="kv", options={"version": "2"})
    client.secrets.kv.v2.create_or_update_secret("app", {"password": _CANARY}, mount_point="kv")
    monkeypatch.setenv("VAULT_NAMESPACE", "space")
    assert resolve("s", "vault", ("kv/app", "password")) == _CANARY


def test_settings_of_openbao_come_first(store: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("app/bao", password=_CANARY)
    monkeypatch.setenv("BAO_ADDR", store.address)
    monkeypatch.setenv("BAO_TOKEN", ROOT)
    monkeypatch.setenv("VAULT_ADDR", "https://127.0.0.1:1")
    monkeypatch.setenv("VAULT_TOKEN", "another")
    assert resolve("s", "vault", ("secret/app/bao", "password")) == _CANARY


def test_token_of_vault_login_is_used(store: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store.put("app/login", password=_CANARY)
    monkeypatch.delenv("VAULT_TOKEN")
    assert _refused("vault", "secret/app/login", "password").code == "SQ4131"
    (tmp_path / ".vault-token").write_text(f"{ROOT}\n")
    assert resolve("s", "vault", ("secret/app/login", "password")) == _CANARY


def test_token_that_is_no_header_is_not_shown(store: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_TOKEN", f"{ROOT}\n{_CANARY}")
    assert _refused("vault", "secret/app/db", "password").code == "SQ4131"


@pytest.mark.parametrize(
    ("path", "field", "code"),
    [
        ("secret/app/nothing", "password", "SQ4135"),
        ("secret/data/app/here", "password", "SQ4135"),
        ("secret/app/here", "user", "SQ4136"),
        ("nowhere/app", "password", "SQ4134"),
    ],
)
def test_what_the_vault_has_not_is_named(store: Vault, path: str, field: str, code: str) -> None:
    store.put("app/here", password=_CANARY, other=_CANARY)
    error = _refused("vault", path, field)
    assert error.code == code
    if code == "SQ4136":
        assert error.hint == "Its fields are: other, password."


def test_deleted_version_is_not_there(store: Vault) -> None:
    store.put("app/gone", password=_CANARY)
    store.client().secrets.kv.v2.delete_latest_version_of_secret("app/gone")
    assert _refused("vault", "secret/app/gone", "password").code == "SQ4135"


def test_token_without_rights_is_refused(store: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("app/db", password=_CANARY)
    weak = store.client().auth.token.create(policies=["default"])["auth"]["client_token"]
    for token in (weak, "s.nonsense"):
        monkeypatch.setenv("VAULT_TOKEN", token)
        error = _refused("vault", "secret/app/db", "password")
        assert error.code == "SQ4134"
        assert token not in error.shown()


def test_server_that_is_nowhere_is_told(store: Vault, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    monkeypatch.setenv("VAULT_ADDR", f"http://user:{_CANARY}@{closed}")
    error = _refused("vault", "secret/app/db", "password")
    assert (error.code, error.detail) == ("SQ4132", f"http://{closed}: ConnectionError")


def test_server_that_never_answers_is_given_up(store: Vault, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    monkeypatch.setattr(reference_vault, "_PATIENCE_S", 0.2)
    monkeypatch.setenv("VAULT_ADDR", f"http://{silent}")
    assert _refused("vault", "secret/app/db", "password").code == "SQ4132"


@pytest.mark.parametrize("address", [None, "", "vault.example.com", "ftp://vault.example.com", "https://"])
def test_address_that_is_none_is_told(store: Vault, monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.delenv("VAULT_ADDR")
    if address is not None:
        monkeypatch.setenv("VAULT_ADDR", address)
    assert _refused("vault", "secret/app/db", "password").code == "SQ4130"


def test_certificate_that_is_not_trusted_is_told(store: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAULT_CACERT")
    assert _refused("vault", "secret/app/db", "password").code == "SQ4133"
    store.put("app/unchecked", password=_CANARY)
    monkeypatch.setenv("VAULT_SKIP_VERIFY", "true")
    assert resolve("s", "vault", ("secret/app/unchecked", "password")) == _CANARY


def test_sealed_server_is_told(store: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with vault(tmp_path) as sealed:
        monkeypatch.setenv("VAULT_ADDR", sealed.address)
        monkeypatch.setenv("VAULT_CACERT", sealed.authority)
        sealed.client().sys.seal()
        assert _refused("vault", "secret/app/db", "password").code == "SQ4137"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"200 OK\r\nContent-Length: 5\r\n\r\nhello", "SQ4139"),
        (b'200 OK\r\nContent-Length: 11\r\n\r\n{"data": 1}', "SQ4139"),
        (b"307 Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "SQ4139"),
        (b"502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "SQ4132"),
        (f"500 Fails\r\nContent-Length: {len(_CANARY)}\r\n\r\n{_CANARY}".encode(), "SQ4138"),
    ],
)
def test_answer_that_is_no_vaults_is_told(
    store: Vault, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: str
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        monkeypatch.setenv("VAULT_ADDR", f"http://127.0.0.1:{listening.getsockname()[1]}")
        answering = threading.Thread(target=_answer, args=(listening, answer), daemon=True)
        answering.start()
        assert _refused("vault", "secret/app/db", "password").code == code
        joined(answering)


def _answer(listening: socket.socket, answer: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 " + answer)


# --- AWS Secrets Manager ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def amazon() -> Iterator[Aws]:
    with aws() as server:
        yield server


@pytest.fixture
def manager(amazon: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Aws:
    """Point the environment to this server only."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", *KEYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, text in amazon.environment.items():
        monkeypatch.setenv(name, text)
    return amazon


def test_secret_of_aws_is_read_when_asked_for(manager: Aws) -> None:
    client = manager.secrets()
    client.create_secret(Name="text", SecretString=_CANARY)
    assert resolve("s", "aws_secret", ("text",)) == _CANARY
    client.put_secret_value(SecretId="text", SecretString="another")
    assert resolve("s", "aws_secret", ("text",)) == "another"
    client.create_secret(Name="bytes", SecretBinary=_CANARY.encode())
    assert resolve("s", "aws_secret", ("bytes",)) == _CANARY


def test_field_of_a_secret_of_aws_is_read(manager: Aws) -> None:
    manager.secrets().create_secret(Name="fields", SecretString=f'{{"password": "{_CANARY}", "port": 5432}}')
    read = [resolve("s", "aws_secret", ("fields", field)) for field in ("password", "port")]
    assert read == [_CANARY, "5432"]
    error = _refused("aws_secret", "fields", "user")
    assert (error.code, error.hint) == ("SQ4145", "Its fields are: password, port.")
    manager.secrets().create_secret(Name="plain", SecretString=_CANARY)
    assert _refused("aws_secret", "plain", "user").code == "SQ4145"


def test_arn_names_its_region(manager: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = manager.secrets().create_secret(Name="by-arn", SecretString=_CANARY)["ARN"]
    monkeypatch.delenv("AWS_REGION")
    assert resolve("s", "aws_secret", (arn,)) == _CANARY
    assert _refused("aws_secret", "by-arn").code == "SQ4141"


def test_what_aws_has_not_is_named(manager: Aws) -> None:
    assert _refused("aws_secret", "nothing").code == "SQ4144"
    manager.secrets().create_secret(Name="image", SecretBinary=b"\xff\xfe")
    assert _refused("aws_secret", "image").code == "SQ4146"


def test_keys_that_are_none_or_wrong_are_told(manager: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.secrets().create_secret(Name="guarded", SecretString=_CANARY)
    manager.check_keys(after=0)
    try:
        assert _refused("aws_secret", "guarded").code == "SQ4143"
    finally:
        manager.check_keys(after=float("inf"))
    for name in KEYS:
        monkeypatch.delenv(name)
    assert _refused("aws_secret", "guarded").code == "SQ4140"


@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_aws_that_does_not_answer_is_told(
    manager: Aws, monkeypatch: pytest.MonkeyPatch, closed: str, silent: str, kind: str
) -> None:
    monkeypatch.setattr(reference_aws, "_AWS_PATIENCE_S", 0.2)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{closed if kind == 'closed' else silent}")
    assert _refused("aws_secret", "text").code == "SQ4142"


def test_debug_messages_of_the_sdk_hold_no_secret(
    manager: Aws, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager.secrets().create_secret(Name="logged", SecretString=_CANARY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token-31")
    caplog.set_level("DEBUG")
    for name in ("botocore", "botocore.parsers", "botocore.auth", "boto3"):
        caplog.set_level("DEBUG", name)
    assert manager.secrets().get_secret_value(SecretId="logged")["SecretString"] == _CANARY
    assert _CANARY in caplog.text
    caplog.clear()
    assert resolve("s", "aws_secret", ("logged",)) == _CANARY
    assert [each for each in (*_HIDDEN, "session-token-31") if each in caplog.text] == []
