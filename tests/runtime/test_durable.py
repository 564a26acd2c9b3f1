"""Atomic writes of files: complete or absent, durable, and with the right mode."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

import sinkql
from sinkql.storage import files as storage_files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    storage_files.write_atomic(path, b"first, which is longer")
    storage_files.write_atomic(path, b"second")
    assert (path.read_bytes(), os.listdir(path.parent)) == (b"second", ["file"])


def test_a_write_that_fails_leaves_the_old_file_and_no_unfinished_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    storage_files.write_atomic(path, b"old")

    def full(handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        storage_files.write_atomic(path, b"new")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


def test_file_and_folder_are_synced_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage_files.make_folder(tmp_path)  # syncs the parent folder first
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
    storage_files.write_atomic(tmp_path / "file", b"x")
    assert done == ["file", "rename", "folder"]


def test_a_folder_that_is_made_again_is_durable_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system may give a recreated folder the inode number of the lost one."""
    really, done = Path.stat, []
    fsync = os.fsync

    def note(handle: int) -> None:
        fsync(handle)
        done.append(os.readlink(f"/proc/self/fd/{handle}"))

    def one_number(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = really(path, follow_symlinks=follow_symlinks)
        return os.stat_result((found.st_mode, 7, *found[2:]))

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "stat", one_number)
    folder = tmp_path / "log" / "first"
    for _ in range(2):
        done.clear()
        storage_files.make_folder(folder)
        assert {str(tmp_path), str(folder.parent)} <= set(done)
        (tmp_path / "log").rename(tmp_path / "lost")
        shutil.rmtree(tmp_path / "lost")


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        storage_files.make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        storage_files.make_folder(tmp_path / "file" / "folder")


def test_files_of_others_are_synced_before_the_folders_that_list_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "new" / part / name for part in "ab" for name in "xy"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    done: list[str] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        fsync(handle)
        done.append(os.readlink(f"/proc/self/fd/{handle}"))

    monkeypatch.setattr(os, "fsync", note)
    storage_files.sync_files(paths)
    folders = [tmp_path / "new" / "a", tmp_path / "new" / "b", tmp_path / "new", tmp_path]
    assert {str(path) for path in paths} == set(done[:4])
    assert {str(folder) for folder in folders} <= set(done[4:])
    again = len(done)
    storage_files.sync_files(paths[:2])
    assert sorted(map(str, (*paths[:2], paths[0].parent))) == sorted(done[again:])


@pytest.mark.parametrize("files", [1, 3, 100])
def test_a_file_that_cannot_be_synced_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    paths = [tmp_path / f"{number:03}" for number in range(files)]
    for path in paths:
        path.write_bytes(b"")
    fsync = os.fsync

    def fail(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") == str(paths[-1]):
            raise OSError(5, "Input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        storage_files.sync_files(paths)


def test_a_private_file_is_its_owners_alone_and_others_keep_their_mode(tmp_path: Path) -> None:
    private, script = tmp_path / "private", tmp_path / "script"
    private.write_bytes(b"")
    private.chmod(0o644)
    storage_files.write_atomic(private, b"x", private=True)
    script.write_bytes(b"")
    script.chmod(0o755)
    storage_files.write_atomic(script, b"x")
    assert (mode(private), mode(script)) == (0o600, 0o755)


def test_a_link_is_followed_and_a_device_is_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    storage_files.write_atomic(link, b"x")
    storage_files.write_atomic(Path("/dev/null"), b"x")
    assert (link.is_symlink(), (tmp_path / "file").read_bytes()) == (True, b"x")
    assert Path("/dev/null").is_char_device()


def test_only_one_creates_a_file(tmp_path: Path) -> None:
    storage_files.create_new(tmp_path / "key", b"mine", private=True)
    with pytest.raises(FileExistsError):
        storage_files.create_new(tmp_path / "key", b"theirs", private=True)
    with pytest.raises(FileExistsError), storage_files.write_stream(tmp_path / "key"):
        pass
    assert ((tmp_path / "key").read_bytes(), mode(tmp_path / "key")) == (b"mine", 0o600)
    assert os.listdir(tmp_path) == ["key"]


def test_no_other_module_writes_drafts_of_its_own() -> None:
    own = re.compile(r"os\.replace|os\.rename|os\.link\b|os\.fsync|NamedTemporaryFile|mkstemp|hardlink_to")
    folder = Path(sinkql.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if own.search(path.read_text())}
    assert found == {"files.py"}
