"""Install programs for tests of Kubernetes; run `tests/support/kubernetes_programs.py FOLDER` as root on Debian 12.

FOLDER/tools is a root folder with Debian's etcd, kubectl, buildah and Go. FOLDER/bin has the servers, which Debian's
package lacks, built from its source. FOLDER/base.tar stands for the base image of deploy/Dockerfile: Debian with its
Python, and this machine's settings for PyPI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

_SUITE = "bookworm"
_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
"""One of these files exists."""
_TOOLS = ("buildah", "ca-certificates", "etcd-server", "golang-1.19-go", "kubernetes-client")
_PYTHON = ("ca-certificates", "python3.11-venv", "python-is-python3")
_ARCHIVE = "kubernetes_1.20.5+really1.20.2.orig.tar.gz"
_SHA256 = "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc"
_SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_PACKAGE = "k8s.io/kubernetes"
_SCHEMAS = "pkg/generated/openapi"
_LEFT_OUT = {"code-generator", "sample-apiserver", "testdata"}
_TAG = "+k8s:openapi-gen="
_AS_ROOT = ("-o", "APT::Sandbox::User=root")
_APT_GET = ("apt-get", "-qq", *_AS_ROOT)
_HELPER = "/usr/lib/apt/apt-helper"
_TEXT: Any = {"capture_output": True, "text": True}
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def make(folder: Path) -> None:
    """Put all programs into a folder."""
    tools, work = folder / "tools", folder / "work"
    for each in (tools, work):
        shutil.rmtree(each, ignore_errors=True)
    work.mkdir(parents=True)
    _debian(tools, _TOOLS, work)
    base = work / "base"
    _debian(base, _PYTHON, work)
    shutil.copy(f"/{_CERTIFICATES}", base / _CERTIFICATES)  # may contain an authority of the local network
    base.joinpath("etc/pip.conf").write_text(f"[global]\ncert = /{_CERTIFICATES}\n")
    with tarfile.open(folder / "base.tar", "w") as packed:
        packed.add(base, ".")
    _build(_unpacked(work), tools / "usr/lib/go-1.19", folder / "bin", work)
    shutil.rmtree(work)


def _debian(root: Path, packages: tuple[str, ...], work: Path) -> None:
    """Create a root folder with these packages and their dependencies, from this machine's package sources."""
    found = work / "mmdebstrap"
    if not found.exists():
        found.mkdir()
        subprocess.run([*_APT_GET, "download", "mmdebstrap"], cwd=found, check=True)
        (package,) = found.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, found], check=True)
    command: list[str | Path] = ["perl", found / "usr/bin/mmdebstrap", "--quiet", "--mode=root", "--variant=apt"]
    sources = next(each for each in _SOURCES if each.exists())
    subprocess.run([*command, f"--include={','.join(packages)}", _SUITE, root, sources], check=True)


def _unpacked(work: Path) -> Path:
    """Return the folder of the source, downloaded from the same mirror as the package."""
    asked = subprocess.run([*_APT_GET, "download", "--print-uris", "kubernetes-client"], check=True, **_TEXT)
    found = re.search(r"'(\S+/)[^/']+\.deb'", asked.stdout)
    assert found is not None, asked.stdout
    path, place = work / _ARCHIVE, work / "go" / "src" / _PACKAGE
    subprocess.run(
        [_HELPER, *_AS_ROOT, "download-file", f"{found[1]}{_ARCHIVE}", path, f"SHA256:{_SHA256}"], check=True
    )
    with tarfile.open(path) as packed:
        packed.extractall(work / "source", filter="tar")
    (made,) = (work / "source").iterdir()
    place.parent.mkdir(parents=True)
    made.rename(place)
    return place


def _build(source: Path, go_root: Path, target: Path, work: Path) -> None:
    """Build the servers; first generate the one file that the source lacks."""
    environment = {
        "GOCACHE": str(work / "cache"),
        **os.environ,
        "CGO_ENABLED": "0",
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "GOPATH": str(work / "go"),
        "GOROOT": str(go_root),
    }
    go = go_root / "bin" / "go"

    def build(package: str, program: Path) -> None:
        subprocess.run([go, "build", "-o", program, package], cwd=source, env=environment, check=True)

    generator = work / "openapi-gen"
    build("./vendor/k8s.io/kube-openapi/cmd/openapi-gen", generator)
    described = ",".join(f"{_PACKAGE}/{each}" for each in _tagged(source))
    named = ("-p", f"{_PACKAGE}/{_SCHEMAS}", "-O", "zz_generated.openapi", "-o", work / "go" / "src")
    told = ("-h", os.devnull, "-r", work / "violations")
    subprocess.run([generator, *named, *told, "-i", described], cwd=source, env=environment, check=True)
    for each in _SERVERS:
        build(f"./cmd/{each}", target / each)


def _tagged(source: Path) -> list[str]:
    """Return the folders of the packages to describe, by the rule of the source's Makefile."""
    found = set()
    for top, there in (("pkg", "pkg"), ("staging/src", "vendor")):
        for path in source.joinpath(top).rglob("*.go"):
            name = path.relative_to(source / top)
            if not _LEFT_OUT & {*name.parts} and _TAG in path.read_text():
                found.add(f"{there}/{name.parent}")
    return sorted(found)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
