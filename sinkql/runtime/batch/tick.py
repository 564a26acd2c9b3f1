"""The ticks of a catalog's timeline: each says how far sources are read, for all jobs that share them.

Tick n has the number n (`sinkql.storage.numbered_log`) in the catalog, or in a folder. Whoever finds nothing more to
read makes the next one, before it reads up to there: of two that would make the same one does, and the other goes by
that. So nobody has to hold a lease, and a process that slept can make none that differs from one that is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from sinkql import codec
from sinkql.connector_api.stream import Offsets
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import NumberedLog

_KEPT = 256
"""How many ticks stay: a job that is further behind goes to one of these at once."""
_SWEEP_EVERY = 32


class Tick(msgspec.Struct, frozen=True):
    """How far each of the sources is read, by `Reader.comparable_position`; `at` is when it was made, in ms, growing.

    `whole` says of sources when they had no more than that, or no more than a tick before this one.
    """

    at: int
    sources: dict[str, Offsets]
    whole: dict[str, int] = {}


_TICKS = codec.decoder(Tick)  # made with the module, as threads that make one at once end the process


@dataclass(frozen=True, slots=True)
class Ticks:
    """The ticks by their numbers."""

    files: NumberedLog
    _known: dict[int, Tick] = field(default_factory=dict, compare=False, repr=False)

    def newest_first(self) -> Iterator[tuple[int, Tick]]:
        """Yield the ticks that are there with their numbers, the last one first."""
        for number in reversed(self.files.numbers()):
            found = self._tick(number)
            if found is not None:
                yield number, found

    def newest(self) -> tuple[int, Tick] | None:
        """Return the last tick and its number; None where there is none."""
        return next(self.newest_first(), None)

    def _tick(self, number: int) -> Tick | None:
        if number not in self._known:
            data = self.files.read(number)
            if data is None:
                return None
            self._known[number] = _TICKS.decode(data)
            for old in [each for each in list(self._known) if each < number - _KEPT]:
                self._known.pop(old, None)
        return self._known.get(number)

    def advance(self, sources: Mapping[str, Offsets], whole: Mapping[str, int]) -> bool:
        """Make the next tick, at which these sources are read so far, and others as at the last one.

        Tells whether there is a new one, which may be somebody else's; not where the last one says the same.
        """
        number, last = self.newest() or (0, Tick(0, {}))
        known = all(last.sources.get(source) == at for source, at in sources.items())
        if known and whole.items() <= last.whole.items():
            return False
        now = max(time.time_ns() // 1_000_000, last.at + 1)
        tick = Tick(now, {**last.sources, **sources}, {**last.whole, **whole})
        failpoint.point("tick")
        if not self.files.create(number + 1, msgspec.json.encode(tick)):
            return True
        failpoint.point("tick-made")
        self.files.stays(number + 1)  # or one of its number was there, and has gone, while this process slept
        if (number + 1) % _SWEEP_EVERY == 0:
            self.files.begin_at(number + 2 - _KEPT)
        return True


def roundness(number: int) -> int:
    """Return the greatest power of two that a number is a multiple of.

    Jobs that cannot go to each tick go to the roundest of those that they can: so they meet, however fast each is.
    """
    return number & -number
