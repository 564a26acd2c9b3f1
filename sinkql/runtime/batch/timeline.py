"""The inputs of a job that are read at ticks → how far a batch goes, so that jobs that share sources meet.

A job is at a tick where its sources, and those below the logs that it reads, are read just as far as the tick says. A
job of sources alone may end a batch between two ticks, as where there is much to read; one that reads logs goes from
tick to tick, for what it reads has to be of one state of the sources below.

The ticks of a catalog's timeline: each says how far sources are read, for all jobs that share them.

Tick n has the number n (`sinkql.storage.numbered_log`) in the catalog, or in a folder. Whoever finds nothing more to
read makes the next one, before it reads up to there: of two that would make the same one does, and the other goes by
that. So nobody has to hold a lease, and a process that slept can make none that differs from one that is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from sinkql import codec, physical
from sinkql.connector_api.stream import JobOffsets, Limit, Offsets, Reader, ViewLogReader, same
from sinkql.runtime.batch.clock import CLOCK
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import FolderNumberedLog, NumberedLog

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


_NO_LIMIT = Limit(1 << 62, 1 << 62)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """How far the inputs that are read at ticks go; `more` if there is another tick, or a limit cut it.

    `at` is when the tick was made, None where it goes to none.
    """

    ends: JobOffsets
    more: bool = False
    at: int | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A tick that all logs have reached, and where each of them has."""

    number: int
    tick: Tick
    places: Mapping[str, Offsets]


@dataclass(slots=True)
class Timeline:
    """Say how far a job goes. `inputs` are those that are read at ticks, with the sources below each.

    A run that commits what there is began at `since_ms`. A job that `keeps` a log goes to ticks at which no row changed
    as well, for who reads it may wait for one.
    """

    ticks: Ticks
    inputs: Mapping[str, tuple[str, ...]]
    readers: Mapping[str, Reader]
    keeps: bool
    since_ms: int = 0
    _sources: dict[str, Reader] = field(init=False)
    _logs: dict[str, ViewLogReader] = field(init=False)

    def __post_init__(self) -> None:
        self._logs = {name: each for name, each in self.readers.items() if isinstance(each, ViewLogReader)}
        self._sources = {name: self.readers[name] for name in self.inputs if name not in self._logs}

    @classmethod
    def of(
        cls,
        job: physical.Job,
        readers: Mapping[str, Reader],
        folder: Path,
        ticks: NumberedLog | None = None,
        *,
        since_ms: int = 0,
    ) -> Timeline:
        """Return that of a job whose own folder is `folder`, of a catalog with these ticks; they are beside without."""
        return cls(
            Ticks(ticks or FolderNumberedLog(folder.parent.parent / "ticks")), job.timeline, readers, job.view, since_ms
        )

    @property
    def joint(self) -> bool:
        """Tell whether the job goes from tick to tick, as it reads logs: then all inputs are at the same one."""
        return any(name in self._logs for name in self.inputs)

    # --- where a job is ----------------------------------------------------------------------------------------------

    def below(self, offsets: JobOffsets) -> JobOffsets | None:
        """Return how far the sources below all inputs are read; None of a job that nobody asks for that.

        A source that is read at two places is left out.
        """
        if not self.keeps and not self._logs:
            return None
        found: dict[str, Offsets] = {}
        apart = set()
        for source, at in self._read(offsets):
            if not same(found.setdefault(source, at), at):
                apart.add(source)
        return {source: at for source, at in found.items() if source not in apart}

    def _read(self, offsets: JobOffsets) -> Iterator[tuple[str, Offsets]]:
        for name, reader in self.readers.items():
            if name in self._logs:
                yield from (self._logs[name].below(offsets[name]) or {}).items()
            elif (at := reader.comparable_position(offsets[name])) is not None:
                yield name, at

    def tick(self, below: JobOffsets | None) -> int | None:
        """Return the number of the first tick at which the sources below are read so far; None where there is none."""
        found: int | None = None
        known: Collection[str] = ()
        for number, tick in self.ticks.newest_first() if below else ():
            known = known or tick.sources.keys() & (below or {}).keys()
            at = bool(known) and all(same((below or {})[each], tick.sources.get(each)) for each in known)
            if found is not None and not at:
                break
            found = number if at else found
        return found

    def agrees(self, offsets: JobOffsets) -> bool:
        """Tell whether all that the job reads is of one state of the sources below."""
        return not self.joint or self._at(self._own(offsets)) is not None

    def _own(self, offsets: JobOffsets) -> JobOffsets:
        return {name: offsets[name] for name in self.inputs}

    def _at(self, own: JobOffsets) -> JobOffsets | None:
        """Return how far the sources are read that are read at ticks; None where inputs are of several states."""
        found: dict[str, Offsets] = {}
        for name, sources in self.inputs.items():
            below = self._below(name, own[name])
            for source in sources:
                if source not in below or not same(found.setdefault(source, below[source]), below[source]):
                    return None
        return found

    def _below(self, name: str, at: Offsets) -> JobOffsets:
        """Return how far the sources below an input are read, as far as that can be told."""
        if name in self._logs:
            return self._logs[name].below(at) or {}
        common = self.readers[name].comparable_position(at)
        return {} if common is None else {name: common}

    # --- where it goes -----------------------------------------------------------------------------------------------

    def ahead(
        self, start: JobOffsets, limit: Limit, targets: JobOffsets | None = None, *, due: int | None = None
    ) -> TimelineStep:
        """Return how far a batch from `start` goes; makes a tick where there is none ahead, and more to read.

        A row comes or goes by itself when it is `due`; else the clock goes on with data alone.
        """
        own, until = self._own(start), targets or {}
        if not own:
            return TimelineStep({})
        if self.joint and (begun := self._beginning(own, limit, until)):
            return TimelineStep({**own, **begun})
        cut = False
        for _ in range(_TRIES):
            found = self._chosen(own, limit, due)
            if found is not None or not self._sources:
                return replace(found, more=found.more or cut) if found is not None else TimelineStep(own)
            known = self._further(own)
            if self.joint and known:  # the logs are to come there first
                return TimelineStep(own)
            looked, cut = self._looked(own, limit, until, due)
            common = {
                name: at
                for name, each in looked.items()
                if (at := self._sources[name].comparable_position(each)) is not None
            }
            if len(common) < len(looked):  # a first snapshot is read, whose parts are of several moments
                return TimelineStep({**own, **looked})
            if not self.ticks.advance({**common, **known}, self._whole(looked, until)):
                break
        return TimelineStep(own)

    def _further(self, own: JobOffsets) -> JobOffsets:
        """Return how far the last tick goes in sources of which it has more than was read."""
        _, last = self.ticks.newest() or (0, Tick(0, {}))
        return {
            name: at
            for name, each in self._sources.items()
            if (at := last.sources.get(name)) is not None and not same(each.latest(own[name], _NO_LIMIT, at), own[name])
        }

    def _looked(self, own: JobOffsets, limit: Limit, until: JobOffsets, due: int | None) -> tuple[JobOffsets, bool]:
        """Return how far the sources could go by now, and whether the limit cut that."""
        wider = Limit(limit.rows + limit.rows // 16 + 1, limit.bytes + limit.bytes // 16 + 1)
        there = {name: each.latest(own[name], wider, until.get(name)) for name, each in self._sources.items()}
        moved = {name: at for name, at in there.items() if not same(at, own[name])}
        found = {**own, **{name: self._sources[name].latest(own[name], limit, at) for name, at in moved.items()}}
        cut = any(not same(found[name], at) for name, at in there.items())
        if CLOCK in moved and not until and len(moved) == 1 and (due is None or due > moved[CLOCK]["at"]):
            found[CLOCK] = own[CLOCK]
        return {name: found[name] for name in there}, cut

    def _beginning(self, own: JobOffsets, limit: Limit, until: JobOffsets) -> JobOffsets:
        """Return how far the first snapshots of sources go, which are read before the logs."""
        begun = {name: each for name, each in self._sources.items() if each.comparable_position(own[name]) is None}
        return {name: each.latest(own[name], limit, until.get(name)) for name, each in begun.items()}

    def _whole(self, looked: JobOffsets, until: JobOffsets) -> dict[str, int]:
        """Return the sources that had no more than what was found, in a run that knows what there was."""
        reached = [
            name for name in looked if name in until and self.readers[name].target_reached(looked[name], until[name])
        ]
        return dict.fromkeys(reached, max(self.since_ms, 1))

    def targets(self, begin: JobOffsets) -> JobOffsets | None:
        """Return where a run that commits what there is ends; None where the logs have no tick in common yet.

        What another job of the run has found to be the end of a source is its end for all.
        """
        found = {name: reader.target(begin[name]) for name, reader in self.readers.items() if name not in self.inputs}
        if self.joint:
            self._agree(self._own(begin))
            candidate = next(self._candidates(self._own(begin), here=True), None)
            if candidate is None:
                return None
            logs = {name: at if self.keeps else self._logs[name].changed(at) for name, at in candidate.places.items()}
            return {**found, **logs, **{name: candidate.tick.sources[name] for name in self._sources}}
        _, newest = self.ticks.newest() or (0, Tick(0, {}))
        for name, reader in self._sources.items():
            known = newest.whole.get(name, 0) >= max(self.since_ms, 1)
            found[name] = newest.sources[name] if known else reader.target(begin[name])
        if CLOCK in found and self.since_ms:  # all jobs of a run have the same time
            found[CLOCK] = {"at": max(begin[CLOCK]["at"], self.since_ms)}
        return found

    def meets(self, begin: JobOffsets) -> bool:
        """Tell whether the logs have a tick in common."""
        own = self._own(begin)
        self._agree(own)
        return next(self._candidates(own, here=True), None) is not None

    def _agree(self, own: JobOffsets) -> None:
        """Make a tick where the logs are now, if that is of one state: their jobs may have come there without one."""
        found: dict[str, Offsets] = {}
        for name, log in self._logs.items():
            if name not in self.inputs:
                continue
            _, below = next(log.places(own[name]), (None, None))
            if below is None:  # where it is now nobody knows
                return
            for source, at in below.items():
                if not same(found.setdefault(source, at), at):
                    return
        for name, each in self._sources.items():
            common = each.comparable_position(each.latest(own[name], _NO_LIMIT))
            if name not in found and common is not None:
                found[name] = common
        sources = {source for each in self.inputs.values() for source in each}
        if sources <= found.keys() and not self._known({source: found[source] for source in sources}):
            self.ticks.advance({source: found[source] for source in sources}, {})

    def _known(self, sources: JobOffsets) -> bool:
        """Tell whether sources are read just so far at a tick: the last one may be ahead of all logs."""
        ticks = (tick.sources for _, tick in self.ticks.newest_first())
        return any(all(same(each.get(name), at) for name, at in sources.items()) for each in ticks)

    def extended(self, end: JobOffsets) -> JobOffsets:
        """Return how far a batch may go on of which a row failed, where it goes from tick to tick."""
        own = self._own(end)
        candidate = next(self._candidates(own), None)
        ends = self._at_tick(own, candidate) if candidate is not None else None
        return ends if ends is not None and self._at(ends) is not None else own

    def _candidates(self, own: JobOffsets, *, here: bool = False) -> Iterator[_Candidate]:
        """Yield the ticks ahead that all logs have reached, the last one first; `here`, also that of the job."""
        logs = {name: self._reached(name, own[name]) for name in self.inputs if name in self._logs}
        at = self._at(own)
        for number, tick in self.ticks.newest_first():
            if not all(source in tick.sources for each in self.inputs.values() for source in each):
                return
            places = {name: known.get(_key(tick.sources, self.inputs[name])) for name, known in logs.items()}
            reached = {name: place for name, place in places.items() if place is not None}
            present = at is not None and all(same(at[source], tick.sources[source]) for source in at)
            moves = here or not present or any(not same(place, own[name]) for name, place in reached.items())
            if len(reached) == len(places) and moves:
                yield _Candidate(number, tick, reached)
            if present:
                return

    def _reached(self, name: str, start: Offsets) -> dict[str, Offsets]:
        """Return where a log is at ticks, by how far the sources below are read there: the last such place."""
        found: dict[str, Offsets] = {}
        for place, below in self._logs[name].places(start):
            if all(source in below for source in self.inputs[name]):
                found.setdefault(_key(below, self.inputs[name]), place)
        return found

    def _chosen(self, own: JobOffsets, limit: Limit, due: int | None) -> TimelineStep | None:
        """Return the step to one of the ticks ahead, None where there is none.

        Who keeps a log goes to the roundest of them, others to the last one.
        """
        candidates = list(self._candidates(own))
        while candidates:
            chosen = max(candidates, key=lambda each: roundness(each.number)) if self.keeps else candidates[0]
            newer = candidates[: candidates.index(chosen)]
            ends = self._at_tick(own, chosen) if self.joint else self._towards(own, chosen.tick, limit)
            if ends is None:
                candidates = newer  # the others are behind as well
                continue
            at = self._at(ends)
            if at is None or any(not same(at[source], chosen.tick.sources[source]) for source in at):
                return TimelineStep(ends, more=True)
            if self.keeps or self._changes(own, ends, due):
                return TimelineStep(ends, more=bool(newer), at=chosen.tick.at)
            return None
        return None

    def _towards(self, own: JobOffsets, tick: Tick, limit: Limit) -> JobOffsets | None:
        """Return how far sources go towards a tick; None where they are there, or beyond."""
        ends = {name: each.latest(own[name], limit, tick.sources[name]) for name, each in self._sources.items()}
        return None if all(same(ends[name], own[name]) for name in ends) else ends

    def _at_tick(self, own: JobOffsets, chosen: _Candidate) -> JobOffsets | None:
        """Return where all inputs are at a tick; None where a source is beyond it.

        A source that does not get there at once goes on alone: its rows are of no state in common with the logs then.
        """
        tick, ends = chosen.tick.sources, dict(chosen.places)
        for name, each in self._sources.items():
            ends[name] = each.latest(own[name], _NO_LIMIT, tick[name])
            if not same(self._below(name, ends[name]).get(name), tick[name]):
                return None if same(ends[name], own[name]) else {**own, name: ends[name]}
        return ends

    def _changes(self, own: JobOffsets, ends: JobOffsets, due: int | None) -> bool:
        """Tell whether there is anything to read up to there, or a row comes or goes by itself."""
        if CLOCK in ends and due is not None and due <= ends[CLOCK]["at"]:
            return True
        return any(
            not log.target_reached(own[name], log.changed(end))
            if (log := self._logs.get(name))
            else not same(end, own[name])
            for name, end in ends.items()
            if name != CLOCK
        )


def extended(
    readers: Mapping[str, Reader], timeline: Timeline, end: JobOffsets, until: JobOffsets
) -> dict[str, Offsets]:
    """Return how far a batch up to `end`, of which a row failed, may go on, by each reader, and the timeline."""
    jointly = timeline.extended(end) if timeline.joint else {}
    own = {name: each.extended(end[name], until.get(name)) for name, each in readers.items() if name not in jointly}
    return {**own, **jointly}


def _key(sources: JobOffsets, names: Sequence[str]) -> str:
    return json.dumps([sources[name] for name in names], sort_keys=True)
