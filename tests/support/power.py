"""Trace the file operations of a process, and simulate power failures at any moment: only synced data survives.

The simulated disk is the strictest: bytes, new names and removed names become durable when their file or folder is
synced, and not before. Calls are ordered by their return, as in the output of `strace`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,lseek,fsync,fdatasync,syncfs,"
    "sync,sync_file_range,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "sendfile,copy_file_range"
)
_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
_UNFINISHED, _RESUMED = " <unfinished ...>", re.compile(r"<\.\.\. \w+ resumed>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_HANDLE = re.compile(r"(-?\d+|AT_FDCWD)<([^>]*)>")


def record(command: Sequence[str], log: Path, *, environment: Mapping[str, str]) -> None:
    """Run a command, and record the file operations of all its processes."""
    options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "100000000", "-e", f"trace={_CALLS}", "-e", "signal=none"]
    subprocess.run(["strace", *options, "-o", str(log), *command], env=environment, check=True)


@dataclass(eq=False)
class _File:
    data: bytearray = field(default_factory=bytearray)
    kept: bytes = b""


@dataclass(eq=False)
class _Folder:
    names: dict[str, _Folder | _File] = field(default_factory=dict)
    kept: dict[str, _Folder | _File] = field(default_factory=dict)


@dataclass
class Disk:
    """A folder as processes see it, and as a power failure would leave it."""

    root: Path
    top: _Folder = field(default_factory=_Folder)
    _at: dict[int, int] = field(default_factory=dict)

    def play(self, log: Path) -> Iterator[str]:
        """Replay a log; yield the path after each sync, and after each write to a file "acknowledged"."""
        for name, arguments, result in _calls(log):
            if result >= 0:
                yield from self._do(name, arguments, result)

    def after_failure(self) -> dict[Path, bytes]:
        """Return the files that would remain if the power failed now."""
        return dict(_kept(self.top, self.root))

    def _do(self, name: str, arguments: str, result: int) -> Iterator[str]:
        match name:
            case "open" | "openat" | "creat":
                self._open(arguments, result)
            case "lseek":
                self._at[_handle(arguments)[0]] = result
            case "write":
                handle, path = _handle(arguments)
                at = self._at.get(handle, 0)
                self._at[handle] = at + result
                if self._write(path, at, _text(arguments)[:result]):
                    yield path
            case "pwrite64":
                self._write(_handle(arguments)[1], int(arguments.rpartition(", ")[2]), _text(arguments)[:result])
            case "ftruncate":
                found, size = self._find(_handle(arguments)[1]), int(arguments.rpartition(", ")[2])
                if isinstance(found, _File):
                    found.data[:] = found.data[:size].ljust(size, b"\0")
            case "fsync" | "fdatasync":
                path = _handle(arguments)[1]
                found = self._find(path)
                if isinstance(found, _File):
                    found.kept = bytes(found.data)
                elif found is not None:
                    found.kept = dict(found.names)
                if found is not None:
                    yield path
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                old, new = _paths(arguments)
                found = self._find(old)
                folder, last = self._parent(new)
                if found is not None and folder is not None:
                    folder.names[last] = found
                    if name.startswith("rename"):
                        self._remove(old)
            case "unlink" | "unlinkat" | "rmdir":
                self._remove(_paths(arguments)[0])
            case "mkdir" | "mkdirat":
                folder, last = self._parent(_paths(arguments)[0])
                if folder is not None:
                    folder.names[last] = _Folder()
            case "sync" | "syncfs" | "sync_file_range":
                return  # durable files are also synced one by one
            case _:
                assert str(self.root) not in _decoded(arguments), f"a call that this model lacks: {name}"

    def _open(self, arguments: str, result: int) -> None:
        path = _paths(arguments)[0]
        self._at[result] = 0
        if "O_CREAT" not in arguments and "O_TRUNC" not in arguments:
            return
        folder, last = self._parent(path)
        if folder is None:
            return
        found = folder.names.setdefault(last, _File())
        if "O_TRUNC" in arguments and isinstance(found, _File):
            found.data.clear()

    def _write(self, path: str, at: int, data: bytes) -> bool:
        """Write data; return whether the file holds acknowledgements."""
        found = self._find(path)
        if not isinstance(found, _File):
            return False
        if len(found.data) < at:
            found.data.extend(bytes(at - len(found.data)))
        found.data[at : at + len(data)] = data
        return path.endswith("/acknowledged")

    def _find(self, path: str) -> _Folder | _File | None:
        if path == str(self.root):
            return self.top
        folder, last = self._parent(path)
        return folder.names.get(last) if folder is not None else None

    def _parent(self, path: str) -> tuple[_Folder | None, str]:
        """Return the folder that contains a path, None if it is elsewhere, and the path's last part."""
        try:
            *above, last = Path(path).relative_to(self.root).parts
        except ValueError:
            return None, ""
        folder: _Folder | _File | None = self.top
        for each in above:
            folder = folder.names.get(each) if isinstance(folder, _Folder) else None
        return (folder if isinstance(folder, _Folder) else None), last

    def _remove(self, path: str) -> None:
        folder, last = self._parent(path)
        if folder is not None:
            folder.names.pop(last, None)


def _kept(folder: _Folder, path: Path) -> Iterator[tuple[Path, bytes]]:
    for name, each in folder.kept.items():
        if isinstance(each, _File):
            yield path / name, each.kept
        else:
            yield from _kept(each, path / name)


def _calls(log: Path) -> Iterator[tuple[str, str, int]]:
    """Yield each completed call: its name, arguments and result."""
    waiting: dict[str, str] = {}
    with log.open() as lines:
        for line in lines:
            match = _LINE.match(line)
            assert match is not None, line[:200]
            process, text = match.groups()
            if text.endswith(_UNFINISHED):
                waiting[process] = text.removesuffix(_UNFINISHED)
                continue
            text = _RESUMED.sub(lambda _, process=process: waiting.pop(process), text, count=1)
            call = _CALL.match(text)
            if call is not None:
                yield call[1], call[2], int(call[3])


def _handle(arguments: str) -> tuple[int, str]:
    match = _HANDLE.match(arguments)
    return (int(match[1]), _decoded(match[2])) if match is not None else (-1, "")


def _text(arguments: str) -> bytes:
    match = _TEXT.search(arguments)
    assert match is not None, arguments[:200]
    assert match[2] is None, "a text that is cut"
    return _bytes(match[1])


def _paths(arguments: str) -> list[str]:
    """Return the paths of a call, relative to the preceding folder handle if there is one."""
    found = []
    for match in re.finditer(rf"(?:{_HANDLE.pattern}, )?{_TEXT.pattern}", arguments):
        path = os.fsdecode(_bytes(match[3]))
        found.append(os.path.join(_decoded(match[2] or ""), path))
    return found


def _decoded(text: str) -> str:
    return os.fsdecode(_bytes(text)) if "\\x" in text else text


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
