"""How far the readers of a view's log are, each in a file `readers/<id>.json`.

Where the log lies in a store, so do the places, as `readers/<id>/<place>` there, a while later: what is kept for a
reader is more than it needs then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import files

_PIN = ".json"
READERS = "readers"
_PASSING = "passing"
_PUT_SECONDS = 30.0
_FORGOTTEN_SECONDS = 3600.0
"""After so long a query that ended without a word holds nothing any more."""


class _Pin(msgspec.Struct, frozen=True):
    """How far a reader is; `passing` is one of a query, which may end without a word."""

    at: int
    passing: bool = False


_PINS = codec.decoder(_Pin)  # made with the module: threads that are the first to decode a type end the process


@dataclass(frozen=True, slots=True)
class ReaderPositions:
    """The readers of the log in `home`."""

    home: StateDirectory
    _put: dict[str, tuple[str, float]] = field(default_factory=dict, compare=False, repr=False)

    def put(self, reader: str, at: int, *, passing: bool = False) -> bool:
        """Note how far a reader is; tell whether other hosts may not have known it until now."""
        told = self.home.store is not None and self._told(reader, at, passing=passing)
        files.write_atomic(self._path(reader), msgspec.json.encode(_Pin(at, passing)), sync=False)
        return told

    def _told(self, reader: str, at: int, *, passing: bool) -> bool:
        before, put_at = self._put.get(reader, ("", 0.0))
        now = time.monotonic()
        if before and at >= _place(before) and now < put_at + _PUT_SECONDS:
            return False
        try:
            return self._store(reader, f"{READERS}/{reader}/{at}{_passing() if passing else ''}", now)
        except (SinkqlError, OSError):
            if not self._path(reader).exists():
                raise
            return False  # what was committed is; more is kept for the reader than it needs

    def _store(self, reader: str, name: str, now: float) -> bool:
        assert self.home.store is not None
        others = [each for each in self._stored(reader) if each != name]
        self.home.store.put(name, self._empty())
        self.home.store.delete(others)
        self._put[reader] = name, now
        return True

    def _empty(self) -> Path:
        path = self.home.folder / READERS / ".empty"
        if not path.exists():
            files.write_atomic(path, b"", sync=False)
        return path

    def _stored(self, reader: str = "") -> Iterator[str]:
        """Yield what the store has of a reader, or of all of them; queries that ended without a word are forgotten."""
        assert self.home.store is not None
        for name, put_at in list(self.home.store.list(f"{READERS}/{reader}/" if reader else f"{READERS}/")):
            if _PASSING in name and put_at < time.time() - _FORGOTTEN_SECONDS:
                self.home.store.delete([name])
            else:
                yield name

    def of(self, reader: str) -> int | None:
        """Return how far a reader said that it is."""
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return _PINS.decode(self._path(reader).read_bytes()).at
        return None if self.home.store is None else min(map(_place, self._stored(reader)), default=None)

    def forget(self, reader: str) -> None:
        """Forget a query; where the store does not answer now, it does so after an hour."""
        self._path(reader).unlink(missing_ok=True)
        self._put.pop(reader, None)
        if self.home.store is not None:
            with suppress(SinkqlError, OSError):
                self.home.store.delete(list(self._stored(reader)))

    def take(self, other: ReaderPositions) -> None:
        """Have the readers that another log has on this machine, but for queries."""
        for reader, pin in other._here():
            if not pin.passing:
                self.put(reader, pin.at)

    def places(self) -> list[int]:
        """Return how far the readers are; those of queries that ended without a word are forgotten."""
        return [pin.at for _, pin in self._here()] if self.home.store is None else list(map(_place, self._stored()))

    def _here(self) -> Iterator[tuple[str, _Pin]]:
        for path in (self.home.folder / READERS).glob(f"*{_PIN}"):
            try:
                pin = _PINS.decode(path.read_bytes())
                if pin.passing and path.stat().st_mtime < time.time() - _FORGOTTEN_SECONDS:
                    path.unlink(missing_ok=True)
                    continue
            except (FileNotFoundError, msgspec.DecodeError):
                continue
            yield path.name.removesuffix(_PIN), pin

    def _path(self, reader: str) -> Path:
        return self.home.folder / READERS / f"{reader}{_PIN}"


def _passing() -> str:
    """Return what the names of places of queries end with: another one each time, as an object keeps its time."""
    return f"-{_PASSING}-{time.time():.0f}"


def _place(name: str) -> int:
    return int(name.rpartition("/")[2].partition("-")[0])
