"""Images of containers as folders of files, with their program; `build` makes one from a Dockerfile with buildah."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BASE = "docker.io/library/python:3.11-slim-bookworm"
_SOURCE, _STORE = "/srv/source", "/srv/store"


@dataclass(frozen=True, slots=True)
class Image:
    """An image on a node; nothing writes to `root`."""

    root: Path
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0
    folder: str = "/"


def build(source: Path, dockerfile: str, *, home: Path) -> Image:
    """Build the image of a Dockerfile in `source` with the programs that `kubernetes_programs` put into `home`."""
    tools, base, store = home / "tools", home / "base.tar", home / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    place = store / "base.tar"
    place.hardlink_to(base)
    buildah = _Buildah(tools, {source: _SOURCE, store: _STORE})
    first = buildah.run("from", "scratch").strip()
    buildah.run("add", first, f"{_STORE}/base.tar", "/")
    buildah.run("commit", "--rm", first, _BASE)
    file = f"{_SOURCE}/{dockerfile}"
    ignored = ("--ignorefile", f"{file}.dockerignore")  # Docker finds this file by its name
    buildah.run("build", "--pull-never", "--no-cache", "--file", file, *ignored, "--tag", "made", _SOURCE)
    config: dict[str, Any] = json.loads(buildah.run("inspect", "--type", "image", "made"))["OCIv1"]["config"]
    container = buildah.run("from", "--pull-never", "made").strip()
    root = buildah.run("mount", container).strip().removeprefix(_STORE)
    return Image(
        store / root.lstrip("/"),
        tuple(config.get("Entrypoint") or ()),
        tuple(config.get("Cmd") or ()),
        dict(each.split("=", 1) for each in config.get("Env") or ()),
        int(config.get("User") or 0),
        config.get("WorkingDir") or "/",
    )


@dataclass(frozen=True, slots=True)
class _Buildah:
    tools: Path
    shown: Mapping[Path, str]

    def run(self, *arguments: str) -> str:
        """Run buildah, whose containers use the network of this machine; return its output."""
        root = shlex.quote(str(self.tools))
        lines = ["set -e", f"mount --bind {root} {root}", f"cd {root}"]  # buildah remounts its root
        for path, there in self.shown.items():
            lines += [f"mkdir -p .{there}", f"mount --bind {shlex.quote(str(path))} .{there}"]
        lines += ["mount --rbind /dev dev", "mount -t proc proc proc", "mount --rbind /sys sys"]
        lines += ["touch etc/resolv.conf", "mount --bind /etc/resolv.conf etc/resolv.conf"]
        command = ("buildah", "--storage-driver=vfs", f"--root={_STORE}/root", f"--runroot={_STORE}/run", *arguments)
        variables = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "BUILDAH_ISOLATION=chroot", "TMPDIR=/var/tmp")
        lines.append(f"exec chroot . /usr/bin/env -i {shlex.join([*variables, *command])}")
        entered = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
        done = subprocess.run(entered, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"buildah {arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout
