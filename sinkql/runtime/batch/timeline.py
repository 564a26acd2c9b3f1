"""The timeline of a catalog: ticks at which all jobs that share sources have read the same input.

A tick has a position in each source. A job is at a tick if its sources, and those below the view logs that it reads,
are read exactly up to the tick's positions. A job that reads only sources may end a batch between two ticks, for
example if there is much to read. A job that reads view logs goes from tick to tick, because its inputs must all be of
one state of the sources below.

Tick n has the number n (`sinkql.storage.numbered_log`) in the catalog or in a folder. A job that finds no tick ahead
creates the next one before it reads on. If two jobs create the same number, one succeeds and the other uses
that tick. So no lease is needed, and a process that slept cannot replace an existing tick.
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
from sinkql.storage.numbered_log import EntryLog, FolderNumberedLog, NumberedLog

_TICKS_KEPT = 256
"""The number of ticks that are stored. A job that is further behind goes directly to one of them."""
_SWEEP_EVERY = 32


class Tick(msgspec.Struct, frozen=True):
    """The position of each source, by `Reader.comparable_position`. `at` is the time of creation in ms; it only grows.

    `whole` has the time at which a source had no more input than this tick or an earlier one.
    """

    at: int
    sources: dict[str, Offsets]
    whole: dict[str, int] = {}


_TICKS = codec.decoder(Tick)  # created on import: threads that create decoders concurrently crash the process


@dataclass(frozen=True, slots=True)
class Ticks:
    """The stored ticks, by number."""

    files: NumberedLog
    _entries: EntryLog[Tick] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entries", EntryLog(self.files, msgspec.json.encode, _decode, _TICKS_KEPT, "tick"))

    def newest_first(self) -> Iterator[tuple[int, Tick]]:
        """Yield the ticks and their numbers, newest first."""
        return self._entries.newest_first()

    def newest(self) -> tuple[int, Tick] | None:
        """Return the newest tick and its number; None if there is none."""
        return self._entries.newest()

    def advance(self, sources: Mapping[str, Offsets], whole: Mapping[str, int]) -> bool:
        """Create the next tick with these positions; other sources keep their position.

        Return whether there is a new tick, which another job may have created; False if the newest has the positions.
        """
        number, last = self.newest() or (0, Tick(0, {}))
        is_same = all(last.sources.get(source) == at for source, at in sources.items())
        if is_same and whole.items() <= last.whole.items():
            return False
        now = max(time.time_ns() // 1_000_000, last.at + 1)
        tick = Tick(now, {**last.sources, **sources}, {**last.whole, **whole})
        if self._entries.add(number + 1, tick) and (number + 1) % _SWEEP_EVERY == 0:
            self._entries.begin_at(number + 2 - _TICKS_KEPT)
        return True


def _decode(_: int, data: bytes) -> Tick:
    return _TICKS.decode(data)


def roundness(number: int) -> int:
    """Return the greatest power of two that divides a number.

    A job that cannot go to each tick goes to the roundest that it can reach: so jobs of different speed meet.
    """
    return number & -number


_NO_LIMIT = Limit(1 << 62, 1 << 62)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """The ends of the inputs that are read at ticks; `more` if there is another tick or a limit cut the step.

    `at` is the time of the tick's creation; None if the step ends at no tick.
    """

    ends: JobOffsets
    more: bool = False
    at: int | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A tick that all view logs have reached, and the offsets at which each reached it."""

    number: int
    tick: Tick
    log_offsets: Mapping[str, Offsets]


@dataclass(slots=True)
class Timeline:
    """Decides where a job's batches end. `inputs` are read at ticks, and have the sources below each.

    A run with `--once` began at `since_ms`. A job that `keeps_log` a view log also goes to ticks at which no row
    changed, because a reader of the log may wait for such a tick.
    """

    ticks: Ticks
    inputs: Mapping[str, tuple[str, ...]]
    readers: Mapping[str, Reader]
    keeps_log: bool
    since_ms: int = 0
    _sources: dict[str, Reader] = field(init=False)
    _logs: dict[str, ViewLogReader] = field(init=False)

    def __post_init__(self) -> None:
        self._logs = {name: reader for name, reader in self.readers.items() if isinstance(reader, ViewLogReader)}
        self._sources = {name: self.readers[name] for name in self.inputs if name not in self._logs}

    @classmethod
    def from_job(
        cls,
        job: physical.Job,
        readers: Mapping[str, Reader],
        folder: Path,
        ticks: NumberedLog | None = None,
        *,
        since_ms: int = 0,
    ) -> Timeline:
        """Return the timeline of a job with a state folder; without `ticks` they are in a folder beside it."""
        return cls(
            Ticks(ticks or FolderNumberedLog(folder.parent.parent / "ticks")), job.timeline, readers, job.view, since_ms
        )

    @property
    def is_joint(self) -> bool:
        """Return whether the job reads view logs and so goes from tick to tick with all inputs."""
        return any(name in self._logs for name in self.inputs)

    # --- where a job stands ------------------------------------------------------------------------------------------

    def below(self, offsets: JobOffsets) -> JobOffsets | None:
        """Return the positions of the sources below all inputs; None if the job neither reads nor keeps a view log.

        A source that inputs have read up to different positions is left out.
        """
        if not self.keeps_log and not self._logs:
            return None
        positions: dict[str, Offsets] = {}
        ambiguous = set()
        for source, at in self._positions(offsets):
            if not same(positions.setdefault(source, at), at):
                ambiguous.add(source)
        return {source: at for source, at in positions.items() if source not in ambiguous}

    def _positions(self, offsets: JobOffsets) -> Iterator[tuple[str, Offsets]]:
        for name, reader in self.readers.items():
            if name in self._logs:
                yield from (self._logs[name].below(offsets[name]) or {}).items()
            elif (at := reader.comparable_position(offsets[name])) is not None:
                yield name, at

    def tick(self, below: JobOffsets | None) -> int | None:
        """Return the number of the first tick with the positions `below`; None if there is none."""
        first: int | None = None
        sources: Collection[str] = ()
        for number, tick in self.ticks.newest_first() if below else ():
            sources = sources or tick.sources.keys() & (below or {}).keys()
            is_at = bool(sources) and all(same((below or {})[source], tick.sources.get(source)) for source in sources)
            if first is not None and not is_at:
                break
            first = number if is_at else first
        return first

    def agrees(self, offsets: JobOffsets) -> bool:
        """Return whether all inputs are of one state of the sources below."""
        return not self.is_joint or self._common_positions(self._inputs_of(offsets)) is not None

    def _inputs_of(self, offsets: JobOffsets) -> JobOffsets:
        return {name: offsets[name] for name in self.inputs}

    def _common_positions(self, offsets: JobOffsets) -> JobOffsets | None:
        """Return the positions of the sources below the inputs; None if the inputs are of different states."""
        positions: dict[str, Offsets] = {}
        for name, sources in self.inputs.items():
            below = self._below(name, offsets[name])
            for source in sources:
                if source not in below or not same(positions.setdefault(source, below[source]), below[source]):
                    return None
        return positions

    def _below(self, name: str, at: Offsets) -> JobOffsets:
        """Return the known positions of the sources below an input."""
        if name in self._logs:
            return self._logs[name].below(at) or {}
        common = self.readers[name].comparable_position(at)
        return {} if common is None else {name: common}

    # --- where a batch ends ------------------------------------------------------------------------------------------

    def ahead(
        self, start: JobOffsets, limit: Limit, targets: JobOffsets | None = None, *, due: int | None = None
    ) -> TimelineStep:
        """Return where a batch from `start` ends; create a tick if there is more to read and no tick ahead.

        `due` is the time of the next temporal change; without one, the clock advances only with data.
        """
        begin, until = self._inputs_of(start), targets or {}
        if not begin:
            return TimelineStep({})
        if self.is_joint and (snapshot_ends := self._snapshot_ends(begin, limit, until)):
            return TimelineStep({**begin, **snapshot_ends})
        cut = False
        for _ in range(_TRIES):
            step = self._step_to_tick(begin, limit, due)
            if step is not None or not self._sources:
                return replace(step, more=step.more or cut) if step is not None else TimelineStep(begin)
            unread = self._unread_positions(begin)
            if self.is_joint and unread:  # the view logs must reach the newest tick first
                return TimelineStep(begin)
            ends, cut = self._latest_ends(begin, limit, until, due)
            positions = {
                name: at
                for name, end in ends.items()
                if (at := self._sources[name].comparable_position(end)) is not None
            }
            if len(positions) < len(ends):  # the chunks of an initial snapshot are of different points in time
                return TimelineStep({**begin, **ends})
            if not self.ticks.advance({**positions, **unread}, self._complete_sources(ends, until)):
                break
        return TimelineStep(begin)

    def _unread_positions(self, begin: JobOffsets) -> JobOffsets:
        """Return the positions of the newest tick in the sources that were read less far."""
        _, last = self.ticks.newest() or (0, Tick(0, {}))
        return {
            name: at
            for name, source in self._sources.items()
            if (at := last.sources.get(name)) is not None
            and not same(source.latest(begin[name], _NO_LIMIT, at), begin[name])
        }

    def _latest_ends(
        self, begin: JobOffsets, limit: Limit, until: JobOffsets, due: int | None
    ) -> tuple[JobOffsets, bool]:
        """Return where the sources could end now, and whether the limit cut them."""
        wider = Limit(limit.rows + limit.rows // 16 + 1, limit.bytes + limit.bytes // 16 + 1)
        available = {name: source.latest(begin[name], wider, until.get(name)) for name, source in self._sources.items()}
        moved = {name: at for name, at in available.items() if not same(at, begin[name])}
        ends = {**begin, **{name: self._sources[name].latest(begin[name], limit, at) for name, at in moved.items()}}
        cut = any(not same(ends[name], at) for name, at in available.items())
        if CLOCK in moved and not until and len(moved) == 1 and (due is None or due > moved[CLOCK]["at"]):
            ends[CLOCK] = begin[CLOCK]
        return {name: ends[name] for name in available}, cut

    def _snapshot_ends(self, begin: JobOffsets, limit: Limit, until: JobOffsets) -> JobOffsets:
        """Return where the initial snapshots of sources end, which are read before the view logs."""
        snapshotting = {
            name: source for name, source in self._sources.items() if source.comparable_position(begin[name]) is None
        }
        return {name: source.latest(begin[name], limit, until.get(name)) for name, source in snapshotting.items()}

    def _complete_sources(self, ends: JobOffsets, until: JobOffsets) -> dict[str, int]:
        """Return the sources that have reached the targets of the run, with the time at which it began."""
        reached = [
            name for name in ends if name in until and self.readers[name].target_reached(ends[name], until[name])
        ]
        return dict.fromkeys(reached, max(self.since_ms, 1))

    def targets(self, begin: JobOffsets) -> JobOffsets | None:
        """Return the targets of a run with `--once`; None if the view logs share no tick yet.

        The end of a source that another job of the run has recorded holds for all.
        """
        targets = {name: reader.target(begin[name]) for name, reader in self.readers.items() if name not in self.inputs}
        if self.is_joint:
            self._create_common_tick(self._inputs_of(begin))
            candidate = next(self._candidates(self._inputs_of(begin), include_present=True), None)
            if candidate is None:
                return None
            logs = {
                name: at if self.keeps_log else self._logs[name].changed(at)
                for name, at in candidate.log_offsets.items()
            }
            return {**targets, **logs, **{name: candidate.tick.sources[name] for name in self._sources}}
        _, newest = self.ticks.newest() or (0, Tick(0, {}))
        for name, reader in self._sources.items():
            is_recorded = newest.whole.get(name, 0) >= max(self.since_ms, 1)
            targets[name] = newest.sources[name] if is_recorded else reader.target(begin[name])
        if CLOCK in targets and self.since_ms:  # all jobs of a run have the same time
            targets[CLOCK] = {"at": max(begin[CLOCK]["at"], self.since_ms)}
        return targets

    def meets(self, begin: JobOffsets) -> bool:
        """Return whether the view logs share a tick."""
        offsets = self._inputs_of(begin)
        self._create_common_tick(offsets)
        return next(self._candidates(offsets, include_present=True), None) is not None

    def _create_common_tick(self, begin: JobOffsets) -> None:
        """Create a tick at the ends of the view logs if they are of one state: their jobs may have used no tick."""
        positions: dict[str, Offsets] = {}
        for name, log in self._logs.items():
            if name not in self.inputs:
                continue
            _, below = next(log.places(begin[name]), (None, None))
            if below is None:  # the positions below the log are unknown
                return
            for source, at in below.items():
                if not same(positions.setdefault(source, at), at):
                    return
        for name, reader in self._sources.items():
            position = reader.comparable_position(reader.latest(begin[name], _NO_LIMIT))
            if name not in positions and position is not None:
                positions[name] = position
        sources = {source for below in self.inputs.values() for source in below}
        if sources <= positions.keys() and not self._has_tick({source: positions[source] for source in sources}):
            self.ticks.advance({source: positions[source] for source in sources}, {})

    def _has_tick(self, positions: JobOffsets) -> bool:
        """Return whether a tick has these positions; the newest may be ahead of all view logs."""
        ticks = (tick.sources for _, tick in self.ticks.newest_first())
        return any(all(same(sources.get(name), at) for name, at in positions.items()) for sources in ticks)

    def extended(self, end: JobOffsets) -> JobOffsets:
        """Return where a batch after a row error may end if it goes from tick to tick; `end` if it cannot move."""
        begin = self._inputs_of(end)
        candidate = next(self._candidates(begin), None)
        ends = self._ends_at_tick(begin, candidate) if candidate is not None else None
        return ends if ends is not None and self._common_positions(ends) is not None else begin

    def _candidates(self, begin: JobOffsets, *, include_present: bool = False) -> Iterator[_Candidate]:
        """Yield the ticks ahead that all view logs have reached, newest first."""
        logs = {name: self._offsets_at_ticks(name, begin[name]) for name in self.inputs if name in self._logs}
        positions = self._common_positions(begin)
        for number, tick in self.ticks.newest_first():
            if not all(source in tick.sources for below in self.inputs.values() for source in below):
                return
            log_offsets = {name: by_key.get(_key(tick.sources, self.inputs[name])) for name, by_key in logs.items()}
            reached = {name: at for name, at in log_offsets.items() if at is not None}
            is_present = positions is not None and all(
                same(at, tick.sources[source]) for source, at in positions.items()
            )
            is_ahead = not is_present or any(not same(at, begin[name]) for name, at in reached.items())
            if len(reached) == len(log_offsets) and (include_present or is_ahead):
                yield _Candidate(number, tick, reached)
            if is_present:
                return

    def _offsets_at_ticks(self, name: str, start: Offsets) -> dict[str, Offsets]:
        """Return the offsets of a view log after `start`, by the positions below it; of equal ones the last."""
        offsets: dict[str, Offsets] = {}
        for at, below in self._logs[name].places(start):
            if all(source in below for source in self.inputs[name]):
                offsets.setdefault(_key(below, self.inputs[name]), at)
        return offsets

    def _step_to_tick(self, begin: JobOffsets, limit: Limit, due: int | None) -> TimelineStep | None:
        """Return the step to a tick ahead; None if there is none.

        A job that keeps a view log goes to the roundest tick ahead, other jobs to the newest.
        """
        candidates = list(self._candidates(begin))
        while candidates:
            chosen = max(candidates, key=lambda tick: roundness(tick.number)) if self.keeps_log else candidates[0]
            newer = candidates[: candidates.index(chosen)]
            ends = self._ends_at_tick(begin, chosen) if self.is_joint else self._ends_towards(begin, chosen.tick, limit)
            if ends is None:
                candidates = newer  # the older ones are behind the sources as well
                continue
            positions = self._common_positions(ends)
            if positions is None or any(not same(at, chosen.tick.sources[name]) for name, at in positions.items()):
                return TimelineStep(ends, more=True)
            if self.keeps_log or self._has_changes(begin, ends, due):
                return TimelineStep(ends, more=bool(newer), at=chosen.tick.at)
            return None
        return None

    def _ends_towards(self, begin: JobOffsets, tick: Tick, limit: Limit) -> JobOffsets | None:
        """Return the ends of sources on the way to a tick; None if they have reached or passed it."""
        ends = {name: source.latest(begin[name], limit, tick.sources[name]) for name, source in self._sources.items()}
        return None if all(same(ends[name], begin[name]) for name in ends) else ends

    def _ends_at_tick(self, begin: JobOffsets, chosen: _Candidate) -> JobOffsets | None:
        """Return the offsets of all inputs at a tick; None if a source has passed it.

        A source that cannot reach the tick in one step advances alone: the inputs are then of different states.
        """
        tick, ends = chosen.tick.sources, dict(chosen.log_offsets)
        for name, source in self._sources.items():
            ends[name] = source.latest(begin[name], _NO_LIMIT, tick[name])
            if not same(self._below(name, ends[name]).get(name), tick[name]):
                return None if same(ends[name], begin[name]) else {**begin, name: ends[name]}
        return ends

    def _has_changes(self, begin: JobOffsets, ends: JobOffsets, due: int | None) -> bool:
        """Return whether there is input between two offsets, or a temporal change."""
        if CLOCK in ends and due is not None and due <= ends[CLOCK]["at"]:
            return True
        return any(
            not log.target_reached(begin[name], log.changed(end))
            if (log := self._logs.get(name))
            else not same(end, begin[name])
            for name, end in ends.items()
            if name != CLOCK
        )


def extend_end(
    readers: Mapping[str, Reader], timeline: Timeline, end: JobOffsets, until: JobOffsets
) -> dict[str, Offsets]:
    """Return where a batch that ended at `end` and had a row error may end instead; `until` are the run's targets."""
    joint_ends = timeline.extended(end) if timeline.is_joint else {}
    ends = {
        name: reader.extended(end[name], until.get(name)) for name, reader in readers.items() if name not in joint_ends
    }
    return {**ends, **joint_ends}


def _key(sources: JobOffsets, names: Sequence[str]) -> str:
    return json.dumps([sources[name] for name in names], sort_keys=True)
