"""A client certificate and its key are loaded from text: no file of them is left, and no password prompt appears."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sinkql.connector_api import identity
from support.authority import authority


def _texts(folder: Path, password: bytes | None) -> tuple[str, str]:
    """Return a certificate and its key, encrypted if there is a password."""
    pair = authority(folder)[1].read_text()
    key, certificate = pair.split("-----BEGIN CERTIFICATE", 1)
    locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    found = load_pem_private_key(key.encode(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
    )
    return f"-----BEGIN CERTIFICATE{certificate}".rstrip(), found.decode().rstrip()


def test_no_file_of_a_key_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = _texts(tmp_path, None)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, path: Path, **more: str) -> None:
        modes.extend(each.stat().st_mode & 0o777 for each in (path.parent, path))
        load(context, path, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    identity.load_certificate(ssl.create_default_context(), certificate, key)
    assert (modes, os.listdir(temporary)) == ([0o700, 0o600], [])


def test_a_key_with_a_password_is_an_error_and_no_question(tmp_path: Path) -> None:
    certificate, key = _texts(tmp_path, b"opensesame")
    with pytest.raises(ssl.SSLError):
        identity.load_certificate(ssl.create_default_context(), certificate, key)
