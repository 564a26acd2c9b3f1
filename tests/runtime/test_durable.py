"""One way to write files: whole or not at all, durably, with the right mode."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

import sinkql
from sinkql import durable


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    durable.write(path, b"first, which is longer")
    durable.write(path, b"second")
    assert (path.read_bytes(), os.listdir(path.parent)) == (b"second", ["file"])


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    durable.write(path, b"old")

    def full(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        durable.write(path, b"new")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


def test_file_and_folder_are_synced_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def rename(draft: Path, target: Path) -> Path:
        done.append("rename")
        return replace(draft, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", rename)
    durable.write(tmp_path / "file", b"x")
    assert done == ["file", "rename", "folder"]


def test_a_private_file_is_its_owners_alone_and_others_keep_their_mode(tmp_path: Path) -> None:
    private, script = tmp_path / "private", tmp_path / "script"
    private.write_bytes(b"")
    private.chmod(0o644)
    durable.write(private, b"x", private=True)
    script.write_bytes(b"")
    script.chmod(0o755)
    durable.write(script, b"x")
    assert (mode(private), mode(script)) == (0o600, 0o755)


def test_a_link_is_followed_and_a_device_is_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    durable.write(link, b"x")
    durable.write(Path("/dev/null"), b"x")
    assert (link.is_symlink(), (tmp_path / "file").read_bytes()) == (True, b"x")
    assert Path("/dev/null").is_char_device()


def test_only_one_creates_a_file(tmp_path: Path) -> None:
    durable.create(tmp_path / "key", b"mine", private=True)
    with pytest.raises(FileExistsError):
        durable.create(tmp_path / "key", b"theirs", private=True)
    with pytest.raises(FileExistsError), durable.stream(tmp_path / "key"):
        pass
    assert ((tmp_path / "key").read_bytes(), mode(tmp_path / "key")) == (b"mine", 0o600)
    assert os.listdir(tmp_path) == ["key"]


def test_no_other_module_writes_drafts_of_its_own() -> None:
    own = re.compile(r"os\.replace|os\.rename|os\.link\b|os\.fsync|NamedTemporaryFile|mkstemp|hardlink_to")
    folder = Path(sinkql.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if own.search(path.read_text())}
    assert found == {"durable.py"}
