"""A real S3 store with an Iceberg REST catalog, as a separate process."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

SECRET = "secretsecret"
ROLE = "arn:aws:iam::123456789012:role/MaterializeIcebergRole"
VENDED_S = 900
_ATTEMPTS = 4


@dataclass(frozen=True)
class Seaweed:
    """The ports of a running server with the warehouse `lake`; its only user and `ROLE` have all rights.

    Its catalog vends credentials on request.
    """

    s3: int
    rest: int
    user: str = "admin"
    secret: str = SECRET

    @property
    def storage(self) -> dict[str, str]:
        return {
            "s3.endpoint": f"http://127.0.0.1:{self.s3}",
            "s3.access-key-id": self.user,
            "s3.secret-access-key": self.secret,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }


@contextmanager
def seaweed(folder: Path, *, user: str = "admin", secret: str = SECRET) -> Iterator[Seaweed]:
    """Run a server with its data in `folder` until the block ends."""
    for attempt in range(_ATTEMPTS):
        data = folder / f"data{attempt}"
        data.mkdir(parents=True)
        with _held_ports(7) as ports:
            server = Seaweed(ports[0], ports[1], user, secret)
            process = _start(data, ports, server)
            try:
                if _ready(process, server):
                    yield server
                    return
            finally:
                process.kill()  # its data is deleted with the folder
                process.wait(PATIENCE_S)
    raise RuntimeError((folder / f"data{_ATTEMPTS - 1}.log").read_text())


def _start(data: Path, ports: list[int], server: Seaweed) -> subprocess.Popen[bytes]:
    s3, rest, lance, master, volume, filer, _ = ports
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or "weed"
    arguments = [
        f"-dir={data}", "-tableBucket=lake", "-bucket=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        f"-s3.port={s3}", f"-s3.port.iceberg={rest}", f"-s3.port.lance={lance}", f"-master.port={master}",
        f"-volume.port={volume}", f"-filer.port={filer}", "-webdav=false", "-admin.ui=false",
        f"-s3.iam.config={_policies(data.with_suffix('.json'))}", f"-s3.iceberg.credentialRole={ROLE}",
        f"-s3.iceberg.credentialDurationSeconds={VENDED_S}",
    ]  # fmt: skip
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": server.user, "AWS_SECRET_ACCESS_KEY": server.secret}
    with data.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([weed, "mini", *arguments], env=environment, stdout=log, stderr=log, cwd=data)


def _policies(file: Path) -> Path:
    """Write the policies: any user with keys may assume the one role, and so may the catalog to vend credentials."""
    everything = {"Effect": "Allow", "Action": ["*"], "Resource": ["*"]}
    actions = ["sts:AssumeRole", "sts:AssumeRoleWithCredentials"]
    trust = [
        {"Effect": "Allow", "Principal": each, "Action": actions}
        for each in ({"AWS": "*"}, {"Service": "iceberg-catalog"}, {"Federated": "iceberg-catalog"})
    ]
    name = ROLE.rpartition("/")[2]
    found = {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "tests",
            "signingKey": base64.b64encode(bytes(range(32))).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roles": [
            {
                "roleName": name,
                "roleArn": ROLE,
                "trustPolicy": {"Version": "2012-10-17", "Statement": trust},
                "attachedPolicies": ["all"],
            }
        ],
        "policies": [{"name": "all", "document": {"Version": "2012-10-17", "Statement": [everything]}}],
    }
    file.write_text(json.dumps(found))
    return file


def _ready(process: subprocess.Popen[bytes], server: Seaweed) -> bool:
    """Wait until the warehouse answers; return False if the process ended, as with a port in use."""
    deadline = Deadline()
    while process.poll() is None:
        deadline.check("an answer")
        try:
            _list_namespaces(server)
            return True
        except OSError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
    return False


def _list_namespaces(server: Seaweed) -> None:
    """List the warehouse's namespaces; raise OSError while the server or the warehouse is missing."""
    endpoint = f"http://127.0.0.1:{server.rest}"
    form = {"grant_type": "client_credentials", "client_id": server.user, "client_secret": server.secret}
    with urllib.request.urlopen(f"{endpoint}/v1/oauth/tokens", urlencode(form).encode(), timeout=PATIENCE_S) as reply:
        token = json.load(reply)["access_token"]
    request = urllib.request.Request(f"{endpoint}/v1/lake/namespaces", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S):
        pass


@contextmanager
def _held_ports(count: int) -> Iterator[list[int]]:
    """Reserve ports until the block ends, as `held_ports` does, together with those 10,000 higher, for gRPC."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            (port,) = stack.enter_context(held_ports(1))
            if port >= 55_000:
                continue
            second = stack.enter_context(socket.socket())
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                second.bind(("127.0.0.1", port + 10_000))
                found.append(port)
        yield found
