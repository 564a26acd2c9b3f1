"""A server of AWS APIs on a free port of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import requests

from support.patience import PATIENCE_S

KEYS = {"AWS_ACCESS_KEY_ID": "AKIATESTKEY", "AWS_SECRET_ACCESS_KEY": "aws-key-81f2"}


@dataclass(frozen=True)
class Aws:
    """A running server."""

    address: str

    @property
    def environment(self) -> dict[str, str]:
        return {**KEYS, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": self.address}

    def secrets(self) -> Any:  # boto3 has no types
        return boto3.client(
            "secretsmanager",
            region_name="eu-west-1",
            endpoint_url=self.address,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def check_keys(self, *, after: float) -> None:
        """Check keys and policies after this number of requests."""
        requests.post(f"{self.address}/moto-api/reset-auth", data=str(after), timeout=PATIENCE_S).raise_for_status()


@contextmanager
def aws() -> Iterator[Aws]:
    """Run a server until the block ends. The servers of a process share their content, so one runs at a time."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    running = Aws(f"http://{host}:{port}")
    try:
        yield running
    finally:
        requests.post(f"{running.address}/moto-api/reset", timeout=PATIENCE_S).raise_for_status()
        server.stop()
