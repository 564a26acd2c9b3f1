"""The timeline of a catalog: ticks at which all jobs that share sources have read the same input.

A tick has a position in each source. A job is at a tick if its sources, and those below the view logs that it reads,
are read exactly up to the tick's positions. A job that reads only sources may end a batch between two ticks, for
example if there is much to read. A job that reads view logs goes from tick to tick, because its inputs must all be of
one state of the sources below.

Tick n has the number n (`sinkql.storage.numbered_log`) in the catalog or in a folder. A job that finds no tick ahead
creates the next one before it reads on. If two jobs create the same number, only one succeeds, and both use
that tick. So no lease is needed, and a process that slept cannot replace an existing tick.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from sinkql import codec, physical
from sinkql.connector_api.stream import JobOffsets, Limit, Offsets, Reader, ViewLogReader, is_same
from sinkql.machine import clock
from sinkql.runtime.batch.clock import CLOCK
from sinkql.storage.numbered_log import EntryLog, FolderNumberedLog, NumberedLog

_TICKS_KEPT = 256
"""The number of ticks that are stored. A job that is further behind goes directly to one of them."""
_SWEEP_EVERY = 32


class Tick(msgspec.Struct, frozen=True):
    """The position of each source, by `Reader.comparable_position`. `at` is the time of creation in ms; it only grows.

    `whole` has the time at which a source had only the input of this tick or an earlier one.
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
        """Return the newest tick and its number; None without a tick."""
        return self._entries.newest()

    def advance(self, sources: Mapping[str, Offsets], whole: Mapping[str, int]) -> bool:
        """Create the next tick with these positions; other sources keep their position.

        Return whether there is a new tick, which another job may have created; False if the newest has the positions.
        """
        number, last = self.newest() or (0, Tick(0, {}))
        is_same = all(last.sources.get(source) == at for source, at in sources.items())
        if is_same and whole.items() <= last.whole.items():
            return False
        now = max(clock.time_ms(), last.at + 1)
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
class TimelineInputs:
    """The inputs of a job that are read at ticks: sources and view logs. Finds where each can be read up to.

    `sources_below` has the inputs, and for each the sources below it: for a source, the source itself. The `readers`
    are the readers of the whole job.
    """

    sources_below: Mapping[str, tuple[str, ...]]
    readers: Mapping[str, Reader]
    sources: dict[str, Reader] = field(init=False)
    """The inputs that are sources."""
    logs: dict[str, ViewLogReader] = field(init=False)
    """The view logs that the job reads, at ticks or not."""

    def __post_init__(self) -> None:
        self.logs = {name: log for name, reader in self.readers.items() if (log := reader.view_log) is not None}
        self.sources = {name: self.readers[name] for name in self.sources_below if name not in self.logs}

    @property
    def is_joint(self) -> bool:
        """Return whether an input is a view log, so that the job goes from tick to tick with all inputs."""
        return any(name in self.logs for name in self.sources_below)

    def source_names(self) -> set[str]:
        """Return the names of all sources below the inputs."""
        return {source for sources in self.sources_below.values() for source in sources}

    def select(self, offsets: JobOffsets) -> JobOffsets:
        """Return the offsets of the inputs alone."""
        return {name: offsets[name] for name in self.sources_below}

    # --- positions below offsets -------------------------------------------------------------------------------------

    def positions(self, offsets: JobOffsets) -> JobOffsets:
        """Return the positions of the sources below all that the job reads.

        A source that was read up to different positions is left out.
        """
        positions: dict[str, Offsets] = {}
        ambiguous = set()
        for name in self.readers:
            for source, at in self.positions_at(name, offsets[name]).items():
                if not is_same(positions.setdefault(source, at), at):
                    ambiguous.add(source)
        return {source: at for source, at in positions.items() if source not in ambiguous}

    def positions_at(self, name: str, at: Offsets) -> JobOffsets:
        """Return the known positions of the sources below a reader."""
        if name in self.logs:
            return self.logs[name].positions_below(at) or {}
        position = self.readers[name].comparable_position(at)
        return {} if position is None else {name: position}

    def common_positions(self, offsets: JobOffsets) -> JobOffsets | None:
        """Return the positions of the sources below the inputs; None if the inputs are of different states."""
        positions: dict[str, Offsets] = {}
        for name, sources in self.sources_below.items():
            below = self.positions_at(name, offsets[name])
            for source in sources:
                if source not in below or not is_same(positions.setdefault(source, below[source]), below[source]):
                    return None
        return positions

    def present_positions(self, begin: JobOffsets) -> JobOffsets | None:
        """Return the positions of the sources at the ends of all inputs; None if view logs are of different states.

        Also None if positions below a log are unknown.
        """
        positions: dict[str, Offsets] = {}
        for name, log in self.logs.items():
            if name not in self.sources_below:
                continue
            _, below = next(log.list_positions(begin[name]), (None, None))
            if below is None:
                return None
            for source, at in below.items():
                if not is_same(positions.setdefault(source, at), at):
                    return None
        for name, reader in self.sources.items():
            position = reader.comparable_position(reader.latest(begin[name], _NO_LIMIT))
            if name not in positions and position is not None:
                positions[name] = position
        names = self.source_names()
        return {source: positions[source] for source in names} if names <= positions.keys() else None

    def log_offsets(self, name: str, start: Offsets) -> dict[str, Offsets]:
        """Return the offsets of a view log after `start`, by the positions below it; of equal ones the last."""
        offsets: dict[str, Offsets] = {}
        for at, below in self.logs[name].list_positions(start):
            if all(source in below for source in self.sources_below[name]):
                offsets.setdefault(_key(below, self.sources_below[name]), at)
        return offsets

    # --- ends of a batch ---------------------------------------------------------------------------------------------

    def latest_ends(
        self, begin: JobOffsets, limit: Limit, until: JobOffsets, due: int | None
    ) -> tuple[JobOffsets, bool]:
        """Return where the sources could end now, and whether the limit cut them."""
        wider = Limit(limit.rows + limit.rows // 16 + 1, limit.bytes + limit.bytes // 16 + 1)
        available = {name: source.latest(begin[name], wider, until.get(name)) for name, source in self.sources.items()}
        moved = {name: at for name, at in available.items() if not is_same(at, begin[name])}
        ends = {**begin, **{name: self.sources[name].latest(begin[name], limit, at) for name, at in moved.items()}}
        cut = any(not is_same(ends[name], at) for name, at in available.items())
        if CLOCK in moved and not until and len(moved) == 1 and (due is None or due > moved[CLOCK]["at"]):
            ends[CLOCK] = begin[CLOCK]
        return {name: ends[name] for name in available}, cut

    def snapshot_ends(self, begin: JobOffsets, limit: Limit, until: JobOffsets) -> JobOffsets:
        """Return where the initial snapshots of sources end, which are read before the view logs."""
        snapshotting = {
            name: source for name, source in self.sources.items() if source.comparable_position(begin[name]) is None
        }
        return {name: source.latest(begin[name], limit, until.get(name)) for name, source in snapshotting.items()}

    def ends_towards(self, begin: JobOffsets, tick: Tick, limit: Limit) -> JobOffsets | None:
        """Return the ends of sources on the way to a tick; None if they have reached or passed it."""
        ends = {name: source.latest(begin[name], limit, tick.sources[name]) for name, source in self.sources.items()}
        return None if all(is_same(ends[name], begin[name]) for name in ends) else ends

    def ends_at_tick(self, begin: JobOffsets, chosen: _Candidate) -> JobOffsets | None:
        """Return the offsets of all inputs at a tick; None if a source has passed it.

        A source that cannot reach the tick in one step advances alone: the inputs are then of different states.
        """
        positions, ends = chosen.tick.sources, dict(chosen.log_offsets)
        for name, source in self.sources.items():
            ends[name] = source.latest(begin[name], _NO_LIMIT, positions[name])
            if not is_same(self.positions_at(name, ends[name]).get(name), positions[name]):
                return None if is_same(ends[name], begin[name]) else {**begin, name: ends[name]}
        return ends

    def has_changes(self, begin: JobOffsets, ends: JobOffsets, due: int | None) -> bool:
        """Return whether there is input between two offsets, or a temporal change."""
        if CLOCK in ends and due is not None and due <= ends[CLOCK]["at"]:
            return True
        return any(
            not self.readers[name].target_reached(begin[name], log.last_change(end))
            if (log := self.logs.get(name))
            else not is_same(end, begin[name])
            for name, end in ends.items()
            if name != CLOCK
        )


@dataclass(slots=True)
class Timeline:
    """Decides where a job's batches end, by the ticks and the job's inputs.

    A run with `--once` began at `since_ms`. If the job `keeps_log` of a view, it also goes to ticks without a changed
    row, because a reader of the log may wait for them.
    """

    ticks: Ticks
    inputs: TimelineInputs
    keeps_log: bool
    since_ms: int = 0

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
        log = ticks or FolderNumberedLog(folder.parent.parent / "ticks")
        return cls(Ticks(log), TimelineInputs(job.timeline, readers), job.view, since_ms)

    @property
    def is_joint(self) -> bool:
        """Return whether the job reads view logs and so goes from tick to tick with all inputs."""
        return self.inputs.is_joint

    # --- where a job stands ------------------------------------------------------------------------------------------

    def below(self, offsets: JobOffsets) -> JobOffsets | None:
        """Return the positions of the sources below all inputs; None if the job neither reads nor keeps a view log."""
        return self.inputs.positions(offsets) if self.keeps_log or self.inputs.logs else None

    def tick(self, below: JobOffsets | None) -> int | None:
        """Return the number of the first tick with the positions `below`; None if no tick has them."""
        first: int | None = None
        sources: Collection[str] = ()
        for number, tick in self.ticks.newest_first() if below else ():
            sources = sources or tick.sources.keys() & (below or {}).keys()
            is_at = bool(sources) and all(
                is_same((below or {})[source], tick.sources.get(source)) for source in sources
            )
            if first is not None and not is_at:
                break
            first = number if is_at else first
        return first

    def agrees(self, offsets: JobOffsets) -> bool:
        """Return whether all inputs are of one state of the sources below."""
        return not self.is_joint or self.inputs.common_positions(self.inputs.select(offsets)) is not None

    # --- where a batch ends ------------------------------------------------------------------------------------------

    def ahead(
        self, start: JobOffsets, limit: Limit, targets: JobOffsets | None = None, *, due: int | None = None
    ) -> TimelineStep:
        """Return where a batch from `start` ends; create a tick if there is more to read and no tick ahead.

        `due` is the time of the next temporal change; without one, the clock advances only with data.
        """
        begin, until = self.inputs.select(start), targets or {}
        if not begin:
            return TimelineStep({})
        if self.is_joint and (snapshot_ends := self.inputs.snapshot_ends(begin, limit, until)):
            return TimelineStep({**begin, **snapshot_ends})
        cut = False
        for _ in range(_TRIES):
            step = self._step_to_tick(begin, limit, due)
            if step is not None or not self.inputs.sources:
                return replace(step, more=step.more or cut) if step is not None else TimelineStep(begin)
            unread = self._unread_positions(begin)
            if self.is_joint and unread:  # the view logs must reach the newest tick first
                return TimelineStep(begin)
            ends, cut = self.inputs.latest_ends(begin, limit, until, due)
            positions = {
                name: at
                for name, end in ends.items()
                if (at := self.inputs.sources[name].comparable_position(end)) is not None
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
            for name, source in self.inputs.sources.items()
            if (at := last.sources.get(name)) is not None
            and not is_same(source.latest(begin[name], _NO_LIMIT, at), begin[name])
        }

    def _complete_sources(self, ends: JobOffsets, until: JobOffsets) -> dict[str, int]:
        """Return the sources that have reached the targets of the run, with the time at which it began."""
        reached = [
            name for name in ends if name in until and self.inputs.readers[name].target_reached(ends[name], until[name])
        ]
        return dict.fromkeys(reached, max(self.since_ms, 1))

    def targets(self, begin: JobOffsets) -> JobOffsets | None:
        """Return the targets of a run with `--once`; None if the view logs share no tick yet.

        The end of a source that another job of the run has recorded holds for all.
        """
        targets = {
            name: reader.target(begin[name])
            for name, reader in self.inputs.readers.items()
            if name not in self.inputs.sources_below
        }
        if self.is_joint:
            self._create_common_tick(self.inputs.select(begin))
            candidate = next(self._candidates(self.inputs.select(begin), include_present=True), None)
            if candidate is None:
                return None
            logs = {
                name: at if self.keeps_log else self.inputs.logs[name].last_change(at)
                for name, at in candidate.log_offsets.items()
            }
            return {**targets, **logs, **{name: candidate.tick.sources[name] for name in self.inputs.sources}}
        _, newest = self.ticks.newest() or (0, Tick(0, {}))
        for name, reader in self.inputs.sources.items():
            is_recorded = newest.whole.get(name, 0) >= max(self.since_ms, 1)
            targets[name] = newest.sources[name] if is_recorded else reader.target(begin[name])
        if CLOCK in targets and self.since_ms:  # all jobs of a run have the same time
            targets[CLOCK] = {"at": max(begin[CLOCK]["at"], self.since_ms)}
        return targets

    def meets(self, begin: JobOffsets) -> bool:
        """Return whether the view logs share a tick."""
        offsets = self.inputs.select(begin)
        self._create_common_tick(offsets)
        return next(self._candidates(offsets, include_present=True), None) is not None

    def _create_common_tick(self, begin: JobOffsets) -> None:
        """Create a tick at the ends of the view logs if they are of one state: their jobs may have used no tick."""
        positions = self.inputs.present_positions(begin)
        if positions is not None and not self._has_tick(positions):
            self.ticks.advance(positions, {})

    def _has_tick(self, positions: JobOffsets) -> bool:
        """Return whether a tick has these positions; the newest may be ahead of all view logs."""
        ticks = (tick.sources for _, tick in self.ticks.newest_first())
        return any(all(is_same(sources.get(name), at) for name, at in positions.items()) for sources in ticks)

    def extended(self, end: JobOffsets) -> JobOffsets:
        """Return where a batch after a row error may end if it goes from tick to tick; `end` if it cannot move."""
        begin = self.inputs.select(end)
        candidate = next(self._candidates(begin), None)
        ends = self.inputs.ends_at_tick(begin, candidate) if candidate is not None else None
        return ends if ends is not None and self.inputs.common_positions(ends) is not None else begin

    def _candidates(self, begin: JobOffsets, *, include_present: bool = False) -> Iterator[_Candidate]:
        """Yield the ticks ahead that all view logs have reached, newest first."""
        below, names = self.inputs.sources_below, self.inputs.source_names()
        logs = {name: self.inputs.log_offsets(name, begin[name]) for name in below if name in self.inputs.logs}
        positions = self.inputs.common_positions(begin)
        for number, tick in self.ticks.newest_first():
            if not names <= tick.sources.keys():
                return
            log_offsets = {name: by_key.get(_key(tick.sources, below[name])) for name, by_key in logs.items()}
            reached = {name: at for name, at in log_offsets.items() if at is not None}
            is_present = positions is not None and all(
                is_same(at, tick.sources[source]) for source, at in positions.items()
            )
            is_ahead = not is_present or any(not is_same(at, begin[name]) for name, at in reached.items())
            if len(reached) == len(log_offsets) and (include_present or is_ahead):
                yield _Candidate(number, tick, reached)
            if is_present:
                return

    def _step_to_tick(self, begin: JobOffsets, limit: Limit, due: int | None) -> TimelineStep | None:
        """Return the step to a tick ahead; None without a tick ahead.

        A job that keeps a view log goes to the roundest tick ahead, other jobs to the newest.
        """
        candidates = list(self._candidates(begin))
        while candidates:
            chosen = max(candidates, key=lambda tick: roundness(tick.number)) if self.keeps_log else candidates[0]
            newer = candidates[: candidates.index(chosen)]
            ends = (
                self.inputs.ends_at_tick(begin, chosen)
                if self.is_joint
                else self.inputs.ends_towards(begin, chosen.tick, limit)
            )
            if ends is None:
                candidates = newer  # the older ones are behind the sources as well
                continue
            positions = self.inputs.common_positions(ends)
            if positions is None or any(not is_same(at, chosen.tick.sources[name]) for name, at in positions.items()):
                return TimelineStep(ends, more=True)
            if self.keeps_log or self.inputs.has_changes(begin, ends, due):
                return TimelineStep(ends, more=bool(newer), at=chosen.tick.at)
            return None
        return None


def extend_end(
    readers: Mapping[str, Reader], timeline: Timeline, end: JobOffsets, until: JobOffsets
) -> dict[str, Offsets]:
    """Return where a batch that ended at `end` and had a row error may end instead; `until` are the run's targets."""
    joint_ends = timeline.extended(end) if timeline.is_joint else {}
    ends = {
        name: reader.extend(end[name], until.get(name)) for name, reader in readers.items() if name not in joint_ends
    }
    return {**ends, **joint_ends}


def _key(sources: JobOffsets, names: Sequence[str]) -> str:
    return json.dumps([sources[name] for name in names], sort_keys=True)
