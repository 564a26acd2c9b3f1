"""Google's tokens, BigLake's catalog and Cloud Storage, simulated by a process on this machine; keys of accounts."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from support.google_server import BUCKET, EMAIL, PROJECT
from support.patience import PATIENCE_S


@dataclass
class Google:
    """A running server, and the private key of its one account."""

    port: int
    private: rsa.RSAPrivateKey

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def catalog(self) -> str:
        return f"{self.address}/iceberg/v1/restcatalog"

    @property
    def warehouse(self) -> str:
        return f"gs://{BUCKET}"

    @cached_property
    def key(self) -> str:
        """Return the account's key in Google's format."""
        return self.key_of(self.private)

    def key_of(self, private: rsa.RSAPrivateKey) -> str:
        """Return a key file that names the account but has this private key."""
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return json.dumps(
            {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key_id": "k1",
                "private_key": pem,
                "client_email": EMAIL,
                "client_id": "1",
                "token_uri": f"{self.address}/token",
            }
        )

    def files(self) -> Any:  # pyarrow has no types
        """Return Cloud Storage, accessed with a token of the account that lasts an hour."""
        from pyarrow.fs import GcsFileSystem

        return GcsFileSystem(
            access_token=self.token(),
            credential_token_expiration=datetime.now(UTC) + timedelta(hours=1),
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
        )

    def token(self) -> str:
        """Request a token as any program does."""
        info = json.loads(self.key)
        account = service_account.Credentials.from_service_account_info(
            info, scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )
        account.refresh(Request())
        found: str = account.token
        return found

    def asked(self) -> dict[str, Any]:
        """Return the tokens that the server issued, and its requests: method, path and token."""
        return self._control(None)

    def rule(self, **rules: Any) -> None:
        """Change `RULES`; `revoke` revokes all issued tokens."""
        self._control(json.dumps(rules).encode())

    def _control(self, body: bytes | None) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.address}/control", body, timeout=PATIENCE_S) as reply:
            found: dict[str, Any] = json.load(reply)
            return found


def new_key() -> rsa.RSAPrivateKey:
    """Return a private key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@contextmanager
def google() -> Iterator[Google]:
    """Run a server until the block ends."""
    private = new_key()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    # a separate process: pyarrow waits for Cloud Storage without releasing Python's lock
    command = [sys.executable, "-m", "support.google_server", public]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Google(int(process.stdout.readline()), private)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
