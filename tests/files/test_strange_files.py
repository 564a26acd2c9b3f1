"""Anything but plain files in a folder → an error with a code, never a wait or a bare OSError."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from files.test_files_reader import _ALL, _drain, _put, _reader, _rows
from sinkql.connector_api.stream import Offsets
from sinkql.connectors.files.local_listing import Folder
from sinkql.errors import SinkqlError


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _link_to_pipe(path: Path) -> None:
    os.mkfifo(path.parent / ".pipe")
    path.symlink_to(".pipe")


_STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "it is a named pipe"),
    "link to a pipe": (_link_to_pipe, "it is a named pipe"),
    "socket": (_socket, "it is a socket"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "its target does not exist"),
    "endless link": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
}


@pytest.mark.parametrize("kind", _STRANGE)
def test_what_is_no_file_is_an_error_until_it_is_moved(tmp_path: Path, kind: str) -> None:
    make, why = _STRANGE[kind]
    _put(tmp_path, "a.json", '{"id": 1}\n')
    make(tmp_path / "in" / "b.json")
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)
    asks: tuple[Callable[[], Offsets], ...] = (lambda: reader.latest(start, _ALL), lambda: reader.target(start))
    for ask in asks:
        with pytest.raises(SinkqlError) as error:
            ask()
        assert error.value.code == "SQ3305"
        assert error.value.retryable
        assert f'b.json": {why}' in error.value.message
    assert reader.lag(start) > 0
    (tmp_path / "in" / "b.json").unlink()
    assert [row["id"] for row in _rows(reader, start, reader.latest(start, _ALL))] == [1]


def test_a_name_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    _put(tmp_path, os.fsdecode(b"\xff.json"), '{"id": 1}\n')
    reader = _reader(tmp_path)
    with pytest.raises(SinkqlError, match="its name is not UTF-8") as error:
        reader.latest(reader.initial(at_end=False), _ALL)
    assert error.value.code == "SQ3305"
    str(error.value).encode()


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text('{"id": 1}\n')
    os.utime(tmp_path / "elsewhere.json", (1_700_000_000, 1_700_000_000))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").symlink_to(tmp_path / "elsewhere.json")
    batches, _ = _drain(_reader(tmp_path), _ALL)
    assert [[row["id"] for row in batch] for batch in batches] == [[1]]


@pytest.mark.parametrize("what", ["open", "read"])
def test_a_file_that_the_system_does_not_let_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The error of the operating system is simulated, since tests may run as root."""
    _put(tmp_path, "a.json", '{"id": 1}\n')
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    if what == "open":
        monkeypatch.setattr("sinkql.connectors.files.content.os.open", refuse)
    else:
        monkeypatch.setattr("sinkql.connectors.files.content._bytes", refuse)
    with pytest.raises(SinkqlError, match=r'cannot read ".*a\.json": Permission denied') as error:
        reader.latest(start, _ALL)
    assert error.value.code == "SQ3305"


@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "none"])
def test_a_path_that_is_no_folder_and_no_file_is_an_error(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = _reader(tmp_path, folder=Folder(tmp_path / path, "*", False))
    with pytest.raises(SinkqlError) as error:
        reader.latest(reader.initial(at_end=False), _ALL)
    assert error.value.code == "SQ3304"


def test_a_state_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(tmp_path, "a.json", '{"id": 1}\n')
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("sinkql.connectors.files.processed_files.files.write_atomic", full)
        with pytest.raises(SinkqlError, match="No space left on device") as error:
            reader.latest(start, _ALL)
    assert (error.value.code, error.value.retryable) == ("SQ3306", True)
    assert [row["id"] for row in _rows(reader, start, reader.latest(start, _ALL))] == [1]
