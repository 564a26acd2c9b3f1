"""Numbered files (`sinkql.storage.numbered_log`) in a store, with a local folder for the files made or read here.

A file is created in the store first, where its name decides between hosts, and then in the local folder. So a reader on
the writer's host sees each file immediately, and readers on other hosts when they list the store again.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path

from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.store import StateStore
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import FIRST, FolderNumberedLog, file_name, first_in, first_name, numbers_in

_LOOK_SECONDS = 2.0


@dataclass(slots=True)
class _Listing:
    """The numbers in a store at the time of a listing, and the numbers `created` here since then.

    The store is listed again if a reader `wanted` it later. No number is below `first`.
    """

    numbers: list[int]
    at: float
    created: dict[int, float] = field(default_factory=dict)
    wanted: float = -math.inf
    first: int = 0


_listings: dict[tuple[str, str], _Listing] = {}
"""This process's listing of each folder, which many readers share."""
_turn = threading.Lock()


@dataclass(frozen=True, slots=True)
class StoredNumbered:
    """The files of a folder of `home`, which has a store; `Numbers`."""

    home: StateDirectory
    part: str
    _here: FolderNumberedLog = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_here", FolderNumberedLog(self.home.folder / self.part))

    @property
    def _store(self) -> StateStore:
        return self.home.required_store

    @property
    def _key(self) -> tuple[str, str]:
        return str(self.home.folder), self.part

    def look(self) -> None:
        """List the store for the next question."""
        with _turn:
            _listings.setdefault(self._key, _Listing([], -math.inf)).wanted = time.monotonic()

    def numbers(self) -> list[int]:
        listed = self._listed()
        return [*listed, *self._newer(listed)]

    def _newer(self, listed: list[int]) -> list[int]:
        """Return the local numbers after those of the store, which were made since the listing."""
        here, following = set(self._here.numbers()), max(listed, default=0) + 1
        return list(takewhile(here.__contains__, count(following)))

    def _listed(self) -> list[int]:
        listing, now = _listings.get(self._key), time.monotonic()
        if listing is None or listing.wanted >= listing.at or now > listing.at + _LOOK_SECONDS:
            names = [name.removeprefix(f"{self.part}/") for name, _ in self._store.list(f"{self.part}/")]
            # read `first` last: an entry is never seen after it is known to be below the first
            first = first_in(name.removeprefix(f"{FIRST}/") for name in names if name.startswith(f"{FIRST}/"))
            listing = self._take(numbers_in(name for name in names if "/" not in name), first, now)
        return listing.numbers

    def _take(self, listed: list[int], first: int, asked_at: float) -> _Listing:
        """Store a listing: other threads may have listed the store later, or have made files that it lacks."""
        with _turn:
            before = _listings.get(self._key) or _Listing([], -math.inf)
            if before.at > asked_at:
                return before
            first = max(first, before.first)
            later = {number: at for number, at in before.created.items() if at > asked_at}
            there = sorted(number for number in {*listed, *later} if number >= first)
            listing = _listings[self._key] = _Listing(there, asked_at, later, before.wanted, first)
            self._here.remove(*(set(self._here.numbers()) - set(listing.numbers)))
            return listing

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def exists(self, number: int) -> bool:
        listed = self._listed()
        return number in listed or number in self._newer(listed)

    def read(self, number: int) -> bytes | None:
        if not self.exists(number):
            return None
        data = self.home.read_small(self._name(number))
        if data is None:
            self.look()
        return data

    def create(self, number: int, data: bytes) -> bool:
        try:
            self.home.upload_bytes(self._name(number), data)
        except FileExistsError:
            self.look()
            return False
        with _turn:
            listing = _listings.setdefault(self._key, _Listing([], -math.inf))
            listing.created[number] = time.monotonic()
            listing.numbers = sorted({*listing.numbers, number})
            self.home.write_small(self._name(number), data, stored=True)
        return True

    def stays(self, number: int) -> bool:
        under = f"{self.part}/{FIRST}/"
        if number >= first_in(name.removeprefix(under) for name, _ in self._store.list(under)):
            return True
        self._remove(number)
        return False

    def begin_at(self, number: int) -> None:
        under = f"{self.part}/{FIRST}/"
        noted = [name for name, _ in self._store.list(under)]
        if number > first_in(name.removeprefix(under) for name in noted):
            self._store.put(f"{under}{first_name(number)}", self._empty())
            self._store.delete(noted)
        with _turn:
            listing = _listings.setdefault(self._key, _Listing([], -math.inf))
            listing.first = max(listing.first, number)
            listing.numbers = [later for later in listing.numbers if later >= number]
        failpoint.point("log-begins")
        names = (name.removeprefix(f"{self.part}/") for name, _ in list(self._store.list(f"{self.part}/")))
        for old in numbers_in(name for name in names if "/" not in name):
            if old < number:
                self._remove(old)
                failpoint.point("log-forgotten")

    def _empty(self) -> Path:
        path = self.home.folder / ".empty"
        if not path.exists():
            files.write_atomic(path, b"", sync=False)
        return path

    def _remove(self, number: int) -> None:
        self._store.delete([self._name(number)])
        self._here.remove(number)
        with _turn:
            listing = _listings.get(self._key)
            if listing is not None:
                listing.numbers = [other for other in listing.numbers if other != number]
                listing.created.pop(number, None)

    def _name(self, number: int) -> str:
        return f"{self.part}/{file_name(number)}"
