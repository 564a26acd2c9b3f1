"""Numbered files (`sinkql.storage.numbered_log`) in a store, with a local folder for the files made or read here.

A file is created in the store first, where its name decides between hosts, and then in the local folder. So a reader on
the writer's host sees each file immediately, and readers on other hosts when they list the store again.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from itertools import count, takewhile

from sinkql.machine import clock
from sinkql.machine.memory import remembered
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.store import StateStore
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import ENTRY_NAMES, FolderNumberedLog, StoredFirst

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


_turn = threading.Lock()


@remembered(1)
def _listings() -> dict[tuple[str, str], _Listing]:
    """Return this process's listing of each folder, which many readers share."""
    return {}


@dataclass(frozen=True, slots=True)
class StoredNumbered:
    """A `NumberedLog` in the folder `part` of `home`, which has a store."""

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
            _listings().setdefault(self._key, _Listing([], -math.inf)).wanted = clock.monotonic()

    def numbers(self) -> list[int]:
        listed = self._listed()
        return [*listed, *self._newer(listed)]

    def _newer(self, listed: list[int]) -> list[int]:
        """Return the local numbers after the store's numbers, which were made since the listing."""
        here, following = set(self._here.numbers()), max(listed, default=0) + 1
        return list(takewhile(here.__contains__, count(following)))

    def _listed(self) -> list[int]:
        listing, now = _listings().get(self._key), clock.monotonic()
        if listing is None or listing.wanted >= listing.at or now > listing.at + _LOOK_SECONDS:
            listing = self._take(*self._first.entries(ENTRY_NAMES), now)
        return listing.numbers

    def _take(self, listed: list[int], first: int, asked_at: float) -> _Listing:
        """Store a listing: other threads may have listed the store later, or have made files that it lacks."""
        with _turn:
            before = _listings().get(self._key) or _Listing([], -math.inf)
            if before.at > asked_at:
                return before
            first = max(first, before.first)
            later = {number: at for number, at in before.created.items() if at > asked_at}
            there = sorted(number for number in {*listed, *later} if number >= first)
            listing = _listings()[self._key] = _Listing(there, asked_at, later, before.wanted, first)
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
            listing = _listings().setdefault(self._key, _Listing([], -math.inf))
            listing.created[number] = clock.monotonic()
            listing.numbers = sorted({*listing.numbers, number})
            self.home.write_small(self._name(number), data, stored=True)
        return True

    def stays(self, number: int) -> bool:
        if number >= self._first.now():
            return True
        self._remove(number)
        return False

    def begin_at(self, number: int) -> None:
        self._first.put(number)
        with _turn:
            listing = _listings().setdefault(self._key, _Listing([], -math.inf))
            listing.first = max(listing.first, number)
            listing.numbers = [later for later in listing.numbers if later >= number]
        failpoint.point("log-begins")
        for present in self._first.entries(ENTRY_NAMES)[0]:
            if present < number:
                self._remove(present)
                failpoint.point("log-forgotten")

    @property
    def _first(self) -> StoredFirst:
        return StoredFirst(self._store, f"{self.part}/", self._put_empty)

    def _put_empty(self, name: str) -> None:
        path = self.home.folder / ".empty"
        if not path.exists():
            files.write_atomic(path, b"", sync=False)
        self._store.put(name, path)

    def _remove(self, number: int) -> None:
        self._store.delete([self._name(number)])
        self._here.remove(number)
        with _turn:
            listing = _listings().get(self._key)
            if listing is not None:
                listing.numbers = [other for other in listing.numbers if other != number]
                listing.created.pop(number, None)

    def _name(self, number: int) -> str:
        return f"{self.part}/{ENTRY_NAMES.name(number)}"
