"""Numbered files (`sinkql.numbered`) that a store has, and a folder here as far as they were made or read here.

A file is made in the store first, where its name decides between hosts, and then here. So who reads on the host of the
one that writes sees each at once, and others when they look at the store again.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count, takewhile

from sinkql.extension.home import Home, StateStore
from sinkql.numbered import Numbered, file_name, numbers_in

_LOOK_SECONDS = 2.0


@dataclass(slots=True)
class _Listing:
    """The numbers that a store had when it was asked, and those `made` here since, by when that was.

    It is asked for again where somebody `wanted` it later.
    """

    numbers: list[int]
    at: float
    made: dict[int, float] = field(default_factory=dict)
    wanted: float = -math.inf


_listings: dict[tuple[str, str], _Listing] = {}
"""What this process knows of each folder: many readers ask."""
_turn = threading.Lock()


@dataclass(frozen=True, slots=True)
class StoredNumbered:
    """The files of a folder of `home`, which has a store; `Numbers`."""

    home: Home
    part: str
    _here: Numbered = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_here", Numbered(self.home.folder / self.part))

    @property
    def _store(self) -> StateStore:
        assert self.home.store is not None
        return self.home.store

    @property
    def _key(self) -> tuple[str, str]:
        return str(self.home.folder), self.part

    def look(self) -> None:
        """Ask the store the next time."""
        with _turn:
            _listings.setdefault(self._key, _Listing([], -math.inf)).wanted = time.monotonic()

    def numbers(self) -> list[int]:
        listed = self._listed()
        return [*listed, *self._newer(listed)]

    def _newer(self, listed: list[int]) -> list[int]:
        """Return the numbers here that follow those of the store: they were made since it was asked."""
        here, following = set(self._here.numbers()), max(listed, default=0) + 1
        return list(takewhile(here.__contains__, count(following)))

    def _listed(self) -> list[int]:
        found, now = _listings.get(self._key), time.monotonic()
        if found is None or found.wanted >= found.at or now > found.at + _LOOK_SECONDS:
            names = [name.rpartition("/")[2] for name, _ in self._store.list(f"{self.part}/")]
            found = self._take(numbers_in(names), now)
        return found.numbers

    def _take(self, listed: list[int], asked_at: float) -> _Listing:
        """Take what the store had: others may have asked it later, and made files since, which are there as well."""
        with _turn:
            before = _listings.get(self._key) or _Listing([], -math.inf)
            if before.at > asked_at:
                return before
            made = {number: at for number, at in before.made.items() if at > asked_at}
            found = _listings[self._key] = _Listing(sorted({*listed, *made}), asked_at, made, before.wanted)
            self._here.remove(*(set(self._here.numbers()) - set(found.numbers)))
            return found

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def there(self, number: int) -> bool:
        listed = self._listed()
        return number in listed or number in self._newer(listed)

    def read(self, number: int) -> bytes | None:
        if not self.there(number):
            return None
        found = self.home.noted(self._name(number))
        if found is None:
            self.look()
        return found

    def create(self, number: int, data: bytes) -> bool:
        try:
            self.home.put_data(self._name(number), data)
        except FileExistsError:
            self.look()
            return False
        with _turn:
            found = _listings.setdefault(self._key, _Listing([], -math.inf))
            found.made[number] = time.monotonic()
            found.numbers = sorted({*found.numbers, number})
            self.home.note(self._name(number), data, stored=True)
        return True

    def follows(self, number: int) -> bool:
        if number == 1:
            return True
        try:
            before = self._store.get(self._name(number - 1), BytesIO())
        except ValueError:  # damaged, but there
            return True
        if before is not None:
            return True
        self.look()
        return max(self._listed(), default=0) == number

    def remove(self, *numbers: int) -> None:
        self._store.delete(map(self._name, numbers))
        self._here.remove(*numbers)
        found = _listings.get(self._key)
        if found is not None:
            found.numbers = [each for each in found.numbers if each not in numbers]

    def _name(self, number: int) -> str:
        return f"{self.part}/{file_name(number)}"
