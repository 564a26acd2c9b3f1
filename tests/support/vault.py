"""A real OpenBao server in development mode, with TLS."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvac

from support.patience import PATIENCE_S, Deadline

ROOT = "root-token-5d1c"
_ATTEMPTS = 4


@dataclass(frozen=True)
class Vault:
    """A running server: its address, and the file of the authority that signed its certificate."""

    address: str
    authority: str

    @property
    def environment(self) -> dict[str, str]:
        return {"VAULT_ADDR": self.address, "VAULT_CACERT": self.authority, "VAULT_TOKEN": ROOT}

    def client(self, namespace: str | None = None) -> Any:  # hvac has no types
        return hvac.Client(url=self.address, token=ROOT, verify=self.authority, namespace=namespace)

    def put(self, path: str, **fields: object) -> None:
        """Write a secret to the versioned store `secret`."""
        self.client().secrets.kv.v2.create_or_update_secret(path, fields)


@contextmanager
def vault(folder: Path) -> Iterator[Vault]:
    """Run a server with its certificates in `folder` until the block ends."""
    for attempt in range(_ATTEMPTS):
        own = folder / f"vault{attempt}"
        own.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        process = _start(own, address)
        try:
            server = Vault(f"https://{address}", str(own / "vault-ca.pem"))
            if _ready(process, server):
                yield server
                return
        finally:
            process.kill()  # its data is only in memory
            process.wait(PATIENCE_S)
    raise RuntimeError((folder / f"vault{_ATTEMPTS - 1}" / "log").read_text())


def _start(own: Path, address: str) -> subprocess.Popen[bytes]:
    bao = shutil.which("bao", path=str(Path(sys.executable).parent)) or "bao"
    arguments = [f"-dev-root-token-id={ROOT}", f"-dev-listen-address={address}", f"-dev-tls-cert-dir={own}"]
    with (own / "log").open("wb") as log:
        return subprocess.Popen(
            [bao, "server", "-dev", "-dev-tls", "-dev-no-store-token", *arguments],
            env=_without_settings(),
            stdout=log,
            stderr=log,
            cwd=own,
        )


def _without_settings() -> Mapping[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith(("VAULT_", "BAO_"))}


def _ready(process: subprocess.Popen[bytes], server: Vault) -> bool:
    """Wait until the server's store answers; return False if the process ended, as with a port in use."""
    deadline = Deadline()
    while process.poll() is None:
        deadline.check("an answer")
        try:
            server.put("ready", yes="1")
            return True
        except (OSError, hvac.exceptions.VaultError):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
    return False
