"""Values of secrets are never shown, are encrypted, are bound to their place, and are resolved on demand."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sinkql.catalog.secret.cipher import KEY_VARIABLE, Cipher
from sinkql.catalog.secret.value import SecretInput, SecretValue
from sinkql.errors import SinkqlError

_CANARY = "canary-9f27c1"


@pytest.fixture
def cipher(tmp_path: Path) -> Cipher:
    return Cipher(tmp_path / "catalog.db", lambda: "catalog", tmp_path)


def _literal(text: str = _CANARY) -> SecretInput:
    return SecretInput("literal", SecretValue(text))


def _refused(cipher: Cipher, given: SecretInput) -> SinkqlError:
    with pytest.raises(SinkqlError) as raised:
        cipher.open("u1", "s", cipher.seal("u1", given))
    return raised.value


def test_value_is_not_printed() -> None:
    value = SecretValue(_CANARY)
    assert [
        repr(value),
        str(value),
        str([value]),
    ] == ["SecretValue(<redacted>)", "<redacted>", "[SecretValue(<redacted>)]"]


@pytest.mark.parametrize(
    "show",
    [pickle.dumps, json.dumps, copy.copy, hash, "{}".format, lambda value: f"{value:>20}"],
    ids=["pickle", "json", "copy", "hash", "format", "f-string"],
)
def test_value_refuses_to_be_shown(show: Callable[[SecretValue], object]) -> None:
    with pytest.raises(TypeError) as raised:
        show(SecretValue(_CANARY))
    assert _CANARY not in str(raised.value)


def test_values_compare_by_text() -> None:
    assert SecretValue("a") == SecretValue("a")
    assert SecretValue("a") != SecretValue("b")
    assert SecretValue("a") != "a"


def test_literal_comes_back(cipher: Cipher) -> None:
    sealed = cipher.seal("u1", _literal("ü€"))
    assert cipher.open("u1", "s", sealed).reveal() == "ü€"


def test_ciphertext_differs_each_time(cipher: Cipher) -> None:
    assert cipher.seal("u1", _literal()).ciphertext != cipher.seal("u1", _literal()).ciphertext


def test_key_file_is_the_owners_alone(cipher: Cipher, tmp_path: Path) -> None:
    cipher.seal("u1", _literal())
    (key,) = tmp_path.iterdir()
    assert (key.name, stat.S_IMODE(key.stat().st_mode)) == ("catalog.db.key", 0o600)


def test_value_moved_to_another_secret_version_or_catalog_does_not_open(cipher: Cipher, tmp_path: Path) -> None:
    sealed = cipher.seal("u1", _literal())
    elsewhere = Cipher(tmp_path / "catalog.db", lambda: "another catalog", tmp_path)
    for where, item_id, found in (
        (cipher, "u2", sealed),
        (cipher, "u1", replace(sealed, version=2)),
        (elsewhere, "u1", sealed),
        (cipher, "u1", replace(sealed, ciphertext=b"\0" * 30)),
    ):
        with pytest.raises(SinkqlError) as raised:
            where.open(item_id, "s", found)
        assert raised.value.code == "SQ4108"


def test_key_comes_from_the_environment(cipher: Cipher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, base64.b64encode(bytes(32)).decode())
    sealed = cipher.seal("u1", _literal())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(KEY_VARIABLE, bytes(32).hex())
    assert cipher.open("u1", "s", sealed).reveal() == _CANARY
    monkeypatch.setenv(KEY_VARIABLE, bytes(range(32)).hex())
    with pytest.raises(SinkqlError) as raised:
        cipher.open("u1", "s", sealed)
    assert raised.value.code == "SQ4108"


def test_missing_key_file_is_named(cipher: Cipher, tmp_path: Path) -> None:
    sealed = cipher.seal("u1", _literal())
    (tmp_path / "catalog.db.key").unlink()
    with pytest.raises(SinkqlError) as raised:
        cipher.open("u1", "s", sealed)
    assert raised.value.code == "SQ4107"


def test_key_file_open_to_others_is_refused(cipher: Cipher, tmp_path: Path) -> None:
    sealed = cipher.seal("u1", _literal())
    (tmp_path / "catalog.db.key").chmod(0o640)
    with pytest.raises(SinkqlError) as raised:
        cipher.open("u1", "s", sealed)
    assert raised.value.code == "SQ4109"


def test_bad_key_is_refused_without_being_shown(cipher: Cipher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "too-short-key")
    error = _refused(cipher, _literal())
    assert error.code == "SQ4112"
    assert "too-short-key" not in error.shown()


def test_variable_is_read_when_asked_for(cipher: Cipher, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = SecretInput("env_var", arguments=("SINKQL_TEST_SECRET",))
    monkeypatch.delenv("SINKQL_TEST_SECRET", raising=False)
    assert _refused(cipher, reference).code == "SQ4110"
    sealed = cipher.seal("u1", reference)
    monkeypatch.setenv("SINKQL_TEST_SECRET", _CANARY)
    assert cipher.open("u1", "s", sealed).reveal() == _CANARY


def test_file_is_read_when_asked_for_without_its_last_newline(cipher: Cipher, tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    reference = SecretInput("file", arguments=(str(path),))
    assert _refused(cipher, reference).code == "SQ4111"
    path.write_text(_CANARY + "\n")
    assert cipher.open("u1", "s", cipher.seal("u1", reference)).reveal() == _CANARY
    path.write_bytes(b"\xff\xfe")
    assert _refused(cipher, reference).detail == "it is not UTF-8 text"


def test_references_need_no_key(cipher: Cipher, tmp_path: Path) -> None:
    cipher.seal("u1", SecretInput("env_var", arguments=("X",)))
    assert list(tmp_path.iterdir()) == []


def test_key_file_is_made_once(tmp_path: Path) -> None:
    first, second = (Cipher(tmp_path / "catalog.db", lambda: "catalog", tmp_path) for _ in range(2))
    sealed = first.seal("u1", _literal())
    assert second.open("u1", "s", sealed).reveal() == _CANARY
    assert os.listdir(tmp_path) == ["catalog.db.key"]
