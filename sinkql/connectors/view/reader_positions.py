"""Store the positions of the readers of a view's log, each in a file `readers/<id>.json`.

If the log lies in a store, the positions are stored there too, a while later, as `readers/<id>/<position>`. Until then,
more is retained for a reader than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.store import StateStore
from sinkql.storage import files

_ENDING = ".json"
READERS = "readers"
_PASSING = "passing"
_PUT_SECONDS = 30.0
_FORGOTTEN_SECONDS = 3600.0
"""The time after which the position of a query that ended without removing it is ignored."""


class _ReaderPosition(msgspec.Struct, frozen=True):
    """A reader's position; `passing` if it is a query, which may end without removing it."""

    at: int
    passing: bool = False


_DECODER = codec.decoder(
    _ReaderPosition
)  # created at import: two threads that first decode a type together crash the process


@dataclass(frozen=True, slots=True)
class ReaderPositions:
    """The positions of the readers of the log in a state directory."""

    directory: StateDirectory
    _stored_at: dict[str, tuple[str, float]] = field(default_factory=dict, compare=False, repr=False)

    def put(self, reader: str, at: int, *, passing: bool = False) -> bool:
        """Set a reader's position; return whether it was written to the store, where other hosts read it."""
        store = self.directory.store
        is_stored = store is not None and self._store_if_due(store, reader, at, passing=passing)
        files.write_atomic(self._path(reader), msgspec.json.encode(_ReaderPosition(at, passing)), sync=False)
        return is_stored

    def _store_if_due(self, store: StateStore, reader: str, at: int, *, passing: bool) -> bool:
        before, put_at = self._stored_at.get(reader, ("", 0.0))
        now = clock.monotonic()
        if before and at >= _position_of(before) and now < put_at + _PUT_SECONDS:
            return False
        try:
            return self._store(store, reader, f"{READERS}/{reader}/{at}{_query_ending() if passing else ''}", now)
        except (SinkqlError, OSError):
            if not self._path(reader).exists():
                raise
            return False  # the commit counts; the reader's older position retains more than it needs

    def _store(self, store: StateStore, reader: str, name: str, now: float) -> bool:
        others = [other for other in self._stored(store, reader) if other != name]
        store.put(name, self._empty())
        store.delete(others)
        self._stored_at[reader] = name, now
        return True

    def _empty(self) -> Path:
        path = self.directory.folder / READERS / ".empty"
        if not path.exists():
            files.write_atomic(path, b"", sync=False)
        return path

    def _stored(self, store: StateStore, reader: str = "") -> Iterator[str]:
        """Yield the stored names of one reader, or of all; delete names of queries that ended long ago."""
        for name, put_at in list(store.list(f"{READERS}/{reader}/" if reader else f"{READERS}/")):
            if _PASSING in name and put_at < clock.time() - _FORGOTTEN_SECONDS:
                store.delete([name])
            else:
                yield name

    def of(self, reader: str) -> int | None:
        """Return the position of a reader; None if it is unknown."""
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return _DECODER.decode(self._path(reader).read_bytes()).at
        store = self.directory.store
        return None if store is None else min(map(_position_of, self._stored(store, reader)), default=None)

    def forget(self, reader: str) -> None:
        """Delete the position of a query; if the store does not answer, it expires after an hour."""
        self._path(reader).unlink(missing_ok=True)
        self._stored_at.pop(reader, None)
        store = self.directory.store
        if store is not None:
            with suppress(SinkqlError, OSError):
                store.delete(list(self._stored(store, reader)))

    def copy_from(self, other: ReaderPositions) -> None:
        """Copy the positions that another log has on this machine, without queries."""
        for reader, position in other._local_positions():
            if not position.passing:
                self.put(reader, position.at)

    def positions(self) -> list[int]:
        """Return the positions of all readers; queries that ended long ago are forgotten."""
        store = self.directory.store
        if store is None:
            return [position.at for _, position in self._local_positions()]
        return list(map(_position_of, self._stored(store)))

    def _local_positions(self) -> Iterator[tuple[str, _ReaderPosition]]:
        for path in (self.directory.folder / READERS).glob(f"*{_ENDING}"):
            try:
                position = _DECODER.decode(path.read_bytes())
                if position.passing and path.stat().st_mtime < clock.time() - _FORGOTTEN_SECONDS:
                    path.unlink(missing_ok=True)
                    continue
            except (FileNotFoundError, msgspec.DecodeError):
                continue
            yield path.name.removesuffix(_ENDING), position

    def _path(self, reader: str) -> Path:
        return self.directory.folder / READERS / f"{reader}{_ENDING}"


def _query_ending() -> str:
    """Return the ending of a query's name; it changes with time, since objects keep the time of their creation."""
    return f"-{_PASSING}-{clock.time():.0f}"


def _position_of(name: str) -> int:
    return int(name.rpartition("/")[2].partition("-")[0])
