"""A folder without new files → it is listed again only after a change, and no new file is missed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from files.test_files_reader import _ALL, _lines, _put, _reader
from sinkql.connector_api.stream import Offsets
from sinkql.connectors.files import local_listing
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError
from sinkql.machine import clock


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the list to which each listed folder is added; a folder counts as quiet without delay."""
    found: list[Path] = []
    below = Folder._names_below

    def told(folder: Folder, path: Path, *rest: object) -> object:
        found.append(path)
        return below(folder, path, *rest)  # type: ignore[arg-type]  # as it is

    monkeypatch.setattr(Folder, "_names_below", told)
    monkeypatch.setattr(local_listing, "_TICK_NS", 0)
    _at_second(1, monkeypatch)
    return found


def _at_second(second: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the time since the machine started at which folders are checked."""
    monkeypatch.setattr(clock, "monotonic_ns", lambda: second * 1_000_000_000)


def _next_tick(folder: Path) -> None:
    """Wait until further changes have a later time than the folder."""
    probe = folder.parent / "probe"
    while True:
        probe.write_bytes(b"")
        probe.chmod(0o600)
        if probe.stat().st_ctime_ns > max(each.stat().st_ctime_ns for each in (folder, *folder.rglob("*"))):
            return


def _quiet(tmp_path: Path, listed: list[Path], *, recursive: bool = True) -> tuple[FilesReader, Offsets]:
    """Return a reader that has read all files and then checked the folder once more."""
    _put(tmp_path, "a.json", _lines(range(1)))
    _put(tmp_path, "sub/deep/b.json", _lines(range(1, 2)))
    _next_tick(tmp_path / "in")
    reader = _reader(tmp_path, folder=Folder(tmp_path / "in", "*", recursive))
    at = reader.latest(reader.initial(at_end=False), _ALL)
    assert at == reader.latest(at, _ALL)
    listed.clear()
    return reader, at


def _names(reader: FilesReader, start: Offsets) -> list[str]:
    return [file.name for file in reader.log.added(start["log"], reader.latest(start, _ALL)["log"])]


def test_a_folder_is_not_listed_while_nothing_changes_in_it_and_each_new_file_is_found(
    tmp_path: Path, listed: list[Path]
) -> None:
    reader, at = _quiet(tmp_path, listed)
    assert (_names(reader, at), listed) == ([], [])
    _put(tmp_path, "sub/deep/c.json", _lines(range(1)))
    assert _names(reader, at) == ["sub/deep/c.json"]
    _put(tmp_path, "new/d.json", _lines(range(1)))
    assert _names(reader, at) == ["new/d.json", "sub/deep/c.json"]


@pytest.mark.parametrize("name", ["a.json", "sub/deep/b.json"])
def test_a_file_that_is_replaced_or_rewritten_in_a_quiet_folder_is_an_error(
    tmp_path: Path, listed: list[Path], name: str
) -> None:
    reader, at = _quiet(tmp_path, listed)
    path = tmp_path / "in" / name
    before = path.read_bytes()
    other = path.with_name(".other")
    other.write_bytes(before[::-1])
    other.rename(path)
    with pytest.raises(SinkqlError, match="changed after it was listed"):
        reader.latest(at, _ALL)
    path.write_bytes(before)
    assert at == reader.latest(at, _ALL)
    path.write_bytes(before[::-1])
    with pytest.raises(SinkqlError, match="changed after it was listed"):
        reader.latest(at, _ALL)


def test_a_folder_that_is_gone_for_a_while_is_told_and_read_on(tmp_path: Path, listed: list[Path]) -> None:
    reader, at = _quiet(tmp_path, listed)
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(SinkqlError) as error:
        reader.latest(at, _ALL)
    assert (error.value.code, error.value.retryable) == ("SQ3304", True)
    assert f'cannot list "{tmp_path / "in"}": No such file or directory' in error.value.message
    shutil.copytree(tmp_path / "away", tmp_path / "in")
    assert at == reader.latest(at, _ALL)
    _put(tmp_path, "c.json", _lines(range(1)))
    assert _names(reader, at) == ["c.json"]


def test_a_folder_with_a_link_in_it_is_listed_each_time(tmp_path: Path, listed: list[Path]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "target")
    reader, at = _quiet(tmp_path, listed, recursive=False)
    (tmp_path / "target").rmdir()
    (tmp_path / "target").write_text(_lines(range(1)))
    os.utime(tmp_path / "target", (1_700_000_000, 1_700_000_000))
    assert _names(reader, at) == ["link.json"]


@pytest.mark.parametrize("how", ["just changed", "another file system", "no list of mounts"])
def test_a_folder_whose_times_do_not_tell_is_listed_each_time(
    tmp_path: Path, listed: list[Path], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    match how:
        case "just changed":
            monkeypatch.setattr(local_listing, "_TICK_NS", 3_600_000_000_000)
        case "another file system":
            monkeypatch.setattr(local_listing, "_KEEP_TIMES", ())
        case _:
            monkeypatch.setattr(local_listing, "_MOUNTS", tmp_path / "none")
    reader, at = _quiet(tmp_path, listed)
    assert _names(reader, at) == []
    assert listed[0] == tmp_path / "in"


def test_a_file_system_is_told_by_its_device_and_a_subvolume_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    lines = (
        ("0:40", "/", "ext4"),
        ("0:41", "/data\\040set/in", "tmpfs"),
        ("0:42", "/data\\040set", "nfs4"),
        ("0:43", "/volumes", "btrfs"),
        ("0:44", "/volumes/network", "nfs4"),
        ("0:45", "/twice", "btrfs"),
        ("0:46", "/twice", "fuse.x"),
    )
    mounts.write_text("".join(f"1 2 {d} / {place} rw shared:1 - {type_} x rw\n" for d, place, type_ in lines))
    monkeypatch.setattr(local_listing, "_MOUNTS", mounts)
    found = [
        local_listing._keeps_times(folder, os.makedev(0, device))
        for folder, device in (("/data set/in", 41), ("/data set/in", 42), ("/", 40), ("/other", 99))
    ]
    assert found == [True, False, True, False]
    volumes = ("/volumes/a", "/volumes/network/a", "/twice")
    assert [local_listing._keeps_times(folder, os.makedev(0, 99)) for folder in volumes] == [True, False, False]


def test_a_quiet_folder_is_listed_each_minute_whatever_its_times_say(
    tmp_path: Path, listed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_listing, "_stamp", lambda status: (status.st_dev, status.st_ino, 0, 0))
    reader, at = _quiet(tmp_path, listed)
    _put(tmp_path, "c.json", _lines(range(1)))
    assert _names(reader, at) == []
    _at_second(61, monkeypatch)
    assert _names(reader, at) == ["c.json"]
