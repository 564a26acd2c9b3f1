"""Fetch jars from Maven's central repository into a folder, with Spark's copy of Ivy: Maven is not needed.

The script `jars.py POM FOLDER` does nothing if the folder is newer than the project, and never fails: tests that need
missing jars are skipped.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

from sinkql.errors import SinkqlError
from sinkql.runtime.spark.java import check_java

_SPARK = Path(pyspark.__file__).parent / "jars"
_FETCHED = Path(__file__).parents[2] / ".jars"
_NAME = "[artifact]-[revision](-[classifier]).[ext]"
_PROJECT = "<groupId>sinkql.tests</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
_PASSWORD = "changeit"


class JarsError(Exception):
    """Jars could not be fetched."""


def fetch(pom: Path, folder: Path, *, transitive: bool = True) -> None:
    """Put the jars that a project needs at run time, or only those it names, into a folder; raise JarsError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as work:
        made = Path(work, "jars")
        options = ["-ivy", str(pom), "-confs", "runtime", "-retrieve", f"{made}/{_NAME}"]
        options += [] if transitive else ["-notransitive"]
        try:
            java = [check_java().path, *_trusting(Path(work))]
        except (SinkqlError, OSError, ValueError) as error:
            raise JarsError(str(error)) from error
        command = [*java, "-cp", f"{_SPARK}/*", "org.apache.ivy.Main", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode or not made.is_dir():
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            said = [line for line in lines if ": not found" in line or "Handler:" in line] or lines
            raise JarsError("\n".join(said[:3]))
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
        os.utime(folder)


def named(*names: str, transitive: bool = True) -> list[Path]:
    """Return jars by their names, `group:artifact:version`, with dependencies; skip the test if the fetch fails."""
    import pytest  # the script runs without it

    folder = _FETCHED / "+".join(name.partition(":")[2].replace(":", "-") for name in names)
    with _alone(), tempfile.TemporaryDirectory(prefix="jars-") as work:
        if not folder.is_dir():
            pom = Path(work, "pom.xml")
            pom.write_text(_pom(names))
            try:
                fetch(pom, folder, transitive=transitive)
            except JarsError as error:
                pytest.skip(f"jars could not be fetched from Maven's repository: {error}")
    return sorted(folder.glob("*.jar"))


def _pom(names: Sequence[str]) -> str:
    needs = ""
    for name in names:
        group, artifact, version = name.split(":")
        needs += f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        needs += f"<version>{version}</version></dependency>"
    return f"<project><modelVersion>4.0.0</modelVersion>{_PROJECT}<dependencies>{needs}</dependencies></project>"


@contextmanager
def _alone() -> Iterator[None]:
    """Lock the folder of jars, so that one process at a time uses it."""
    _FETCHED.mkdir(exist_ok=True)
    with (_FETCHED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _trusting(folder: Path) -> list[str]:
    """Return options by which Java trusts the same authorities as Python and pip do here."""
    paths = [*(os.environ.get(name) for name in _VARIABLES), ssl.get_default_verify_paths().cafile]
    bundle = next((Path(path) for path in paths if path and Path(path).is_file()), None)
    if bundle is None:
        return []  # Java uses its own list
    with warnings.catch_warnings(action="ignore"):  # about serial numbers of old authorities
        found = x509.load_pem_x509_certificates(bundle.read_bytes())
        certificates = [PKCS12Certificate(each, str(number).encode()) for number, each in enumerate(found)]
        store = serialize_java_truststore(certificates, BestAvailableEncryption(_PASSWORD.encode()))
    (folder / "trusted.p12").write_bytes(store)
    return [
        f"-Djavax.net.ssl.trustStore={folder / 'trusted.p12'}",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def main() -> None:
    pom, folder = (Path(each).absolute() for each in sys.argv[1:])
    if folder.is_dir() and folder.stat().st_mtime > pom.stat().st_mtime:
        return
    try:
        fetch(pom, folder)
    except JarsError as error:
        print(f"the jars of {pom} could not be fetched from Maven's repository:\n{error}")


if __name__ == "__main__":
    main()
