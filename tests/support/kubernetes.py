"""A Kubernetes cluster: the real API server, controllers and scheduler, etcd, and a node (`kubelet`).

`kubernetes_programs` builds the programs. RBAC authorizes all requests.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from support.authority import authority
from support.bridge import Bridge
from support.image import Image
from support.kubelet import Kubelet
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

HOME = Path(__file__).parents[2] / ".kubernetes"
"""The folder of the programs."""
_PORT = 443
_SERVICES = "10.63.0.0/24"
"""Addresses of services. They are unreachable, since no kube-proxy runs."""
_CONTROLLERS = (
    "endpoint",
    "garbagecollector",
    "persistentvolume-binder",
    "root-ca-cert-publisher",
    "serviceaccount",
    "serviceaccount-token",
    "statefulset",
)
_LOOK_S = 0.2
_LOG_BYTES = 4000


@dataclass(slots=True)
class Kubernetes:
    """A cluster of one node; `kubectl` has all rights."""

    folder: Path
    network: Bridge
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    kubelet: Kubelet = field(init=False)
    _servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"https://{self.network.address}:{_PORT}"

    @property
    def authority(self) -> Path:
        """Return the file with the certificate of the API server's authority."""
        return self.folder / "authority.pem"

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl; return its output."""
        command: list[str | Path] = [HOME / "tools/usr/bin/kubectl", "--kubeconfig", self._config, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        return done.stdout

    def objects(self, kind: str, *selected: str) -> list[dict[str, Any]]:
        """Return the objects of a kind; `selected` are options of kubectl."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json", *selected))["items"]
        return found

    def client(self) -> httpx.Client:
        """Return a client of the API with all rights."""
        return httpx.Client(
            base_url=self.url,
            verify=ssl.create_default_context(cafile=str(self.authority)),
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def start(self, images: Mapping[str, Image]) -> None:
        """Start all servers and the node, and wait until pods can be created."""
        _, identity = authority(self.folder, self.network.address, "kubernetes.default.svc")
        self._write_settings()
        with held_ports(2) as (clients, peers):
            self._run(
                [
                    *(HOME / "tools/usr/bin/etcd", "--data-dir", self.folder / "etcd"),
                    *(f"--{each}-client-urls=http://127.0.0.1:{clients}" for each in ("listen", "advertise")),
                    f"--listen-peer-urls=http://127.0.0.1:{peers}",
                ]
            )
            self._run(
                [
                    HOME / "bin/kube-apiserver",
                    f"--etcd-servers=http://127.0.0.1:{clients}",
                    *(f"--bind-address={self.network.address}", f"--advertise-address={self.network.address}"),
                    *(f"--secure-port={_PORT}", f"--service-cluster-ip-range={_SERVICES}"),
                    *(f"--tls-cert-file={identity}", f"--tls-private-key-file={identity}"),
                    *(f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
                    *(f"--service-account-key-file={identity}", f"--service-account-signing-key-file={identity}"),
                    f"--service-account-issuer={self.url}",
                    f"--cert-dir={self.folder / 'certificates'}",
                    "--disable-admission-plugins=TaintNodesByCondition",  # no controller removes its taint here
                ]
            )
            self._wait_for_api()
        alone = ("--kubeconfig", self._config, "--leader-elect=false", "--port=0", "--secure-port=0")
        self._run(
            [
                *(HOME / "bin/kube-controller-manager", *alone, f"--controllers={','.join(_CONTROLLERS)}"),
                *(f"--root-ca-file={self.authority}", f"--service-account-private-key-file={identity}"),
            ]
        )
        self._run([HOME / "bin/kube-scheduler", *alone])
        self.kubelet = Kubelet(self.folder / "node", self.network, self.client(), images)
        self.kubelet.start()
        self._wait_for_account()

    def stop(self) -> None:
        """Kill all servers."""
        if hasattr(self, "kubelet"):
            self.kubelet.stop()
        for server in self._servers:
            server.kill()
            server.wait(PATIENCE_S)

    @property
    def _config(self) -> Path:
        return self.folder / "config.json"

    def _write_settings(self) -> None:
        (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        context = {"cluster": "test", "user": "admin"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        self._config.write_text(json.dumps(config))

    def _run(self, command: Sequence[str | Path]) -> None:
        with self.folder.joinpath(f"{Path(command[0]).name}.log").open("ab") as log:
            self._servers.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *command],
                    cwd=self.folder,
                    env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_for_api(self) -> None:
        deadline = Deadline()
        with self.client() as client:
            while True:
                try:
                    if client.get("/readyz").is_success:
                        return
                except httpx.TransportError:
                    pass
                self._look(deadline)

    def _wait_for_account(self) -> None:
        """Wait until the service account has a token for pods."""
        deadline = Deadline()
        while not any(each.get("secrets") for each in self.objects("serviceaccounts")):
            self._look(deadline)

    def _look(self, deadline: Deadline) -> None:
        deadline.check("Kubernetes")
        for server in self._servers:
            assert server.poll() is None, self._logs()
        time.sleep(_LOOK_S)

    def _logs(self) -> str:
        return "\n".join(f"{each}: {each.read_text()[-_LOG_BYTES:]}" for each in self.folder.glob("*.log"))


@contextmanager
def kubernetes(folder: Path, network: Bridge, images: Mapping[str, Image]) -> Iterator[Kubernetes]:
    """Run a cluster, whose node has these images, until the block ends."""
    folder.mkdir(parents=True)
    found = Kubernetes(folder, network)
    try:
        found.start(images)
        yield found
    finally:
        found.stop()
