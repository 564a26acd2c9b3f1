"""Sinks and the clock → batches that are due, in a few lanes, each of which runs one after the other.

A sink that runs has a *seat*. A heap has the seats by the time at which they are due; what is due is looked at in a
thread of its own, so that a slow source delays no other; where something is new, the seat is ready, and a *lane* takes
it. A lane that is called begins a *round*: it runs what is ready, and stays while something is due within the round, so
that what a call costs is paid once a round and not once a batch. Before a round of several batches is over another lane
is called, or this one again as it ends, so that what is due then does not wait for Spark. A batch that failed and is to
be tried again waits in the heap, and in no lane. One that takes long, as its table's catalog does not answer, has a
lane that is not counted.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sinkql.connector_api.stream import JobOffsets
from sinkql.runtime.batch.pacing import Pacer, PacingOrders

ROUND_SECONDS = 10.0
_TEND_SECONDS = 1.0
_SPARE_SECONDS = 60.0
_AGAIN_SECONDS = 0.25
"""When a run that is to commit what there is looks again, where a source does not show it yet."""
_LEAST_SECONDS = 0.005
_AHEAD_SECONDS = 1.0
"""How long before a round of several batches is over, or more is due after it, another one is called."""

_SLOW_SECONDS = 10.0
_MOST_SLOW = 8
"""A batch that takes longer leaves the others as many lanes as before, as long as there are no more such."""

_AWAKE = "called", "staying"
"""What a lane does that takes what is ready."""

Process = Callable[[JobOffsets, JobOffsets, bool], float | JobOffsets]
"""Commit the batch from the first offsets to the second; True if a limit cut it.

Returns where the table is then, which may be beyond the second, or in how many seconds the same batch is to be tried
again. What it raises ends the seat.
"""


class Worker(Protocol):
    """Run rounds, one at a time, each in answer to a call."""

    @property
    def worn(self) -> bool:
        """Tell whether another one should take its place."""

    def call(self) -> None:
        """Have a round begin soon; called where none runs."""

    def failure(self) -> Exception | None:
        """Return why it runs no more rounds; None if it does."""

    def stop(self) -> None:
        """End it; called where no round runs, or one that is about to end."""


Open = Callable[[Callable[[], None]], Worker]
"""Return a new lane, whose rounds are calls of the function."""


@dataclass(slots=True, eq=False)
class ScheduledSink:
    """A sink that runs: how it is paced, and where it is. `error` is set, and `wake` told, when it cannot go on.

    It `stalls` from a batch that failed until that one is committed.
    """

    pacer: Pacer
    orders: PacingOrders
    process: Process
    wake: threading.Event
    error: Exception | None = field(default=None, init=False)
    stalls: bool = field(default=False, init=False)
    _at: JobOffsets = field(init=False)
    _end: JobOffsets | None = field(default=None, init=False)
    _state: Literal["waiting", "looking", "ready", "running", "gone"] = field(default="gone", init=False)
    _turn: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._at = self.orders.begin


@dataclass(slots=True, eq=False)
class _Place:
    """A lane, and what it does: `called` until its round begins, `staying` while it waits in it."""

    lane: Worker = field(init=False)
    state: Literal["idle", "called", "running", "staying"] = "idle"
    since: float = field(default_factory=time.monotonic)
    """When it became what it is, but for `staying`; of one that runs, when the batch began."""
    batches: int = 0
    """How many the round had so far."""


class BatchScheduler:
    """Have the batches of all seats run in lanes: as many as are needed at once, at `most` so many.

    Not counted are those of slow batches. The lanes end with `close`.
    """

    def __init__(self, open_lane: Open, most: int, *, round_seconds: float = ROUND_SECONDS) -> None:
        self._open_lane = open_lane
        self._most = most
        self._round_seconds = round_seconds
        self._changed = threading.Condition()
        self._opening = threading.Lock()
        self._turns = itertools.count()
        self._seats: set[ScheduledSink] = set()
        self._heap: list[tuple[float, int, ScheduledSink]] = []
        self._ready: deque[ScheduledSink] = deque()
        self._places: list[_Place] = []
        self._wants_lane = self._relief = False
        self._closed = False
        self._tended_at = time.monotonic()
        self._tended = self._tending_asked = 0
        self._thread: threading.Thread | None = None

    def add(self, seat: ScheduledSink) -> None:
        """Let a sink's batches run from now on; return once there is a lane. Raises what opening it raises."""
        self._have_tended()
        with self._opening:
            if not self._places:
                self._open()
        with self._changed:
            self._seats.add(seat)
            self._wait(seat)
            if self._thread is None:
                self._thread = threading.Thread(target=self._conduct, name="conductor", daemon=True)
                self._thread.start()

    def _have_tended(self) -> None:
        """Have the conductor's thread look after the lanes, and wait for it.

        Each thread that asks Spark something has a connection, and a thread of Java's, as long as it lives.
        """
        with self._changed:
            if self._thread is None:
                return  # there are no lanes yet
            self._tending_asked = asked = self._tending_asked + 1
            self._changed.notify_all()
            while self._tended < asked and not self._closed:
                self._changed.wait()

    def reschedule(self, seat: ScheduledSink, orders: PacingOrders) -> None:
        """Let a seat keep other orders from now on."""
        with self._changed:
            seat.orders = orders
            if seat._state == "waiting" and seat._end is None:
                self._wait(seat)

    def idle_seconds(self, seat: ScheduledSink) -> float:
        """Return for how many seconds the lane of a seat whose batch is done is not needed: by it, or by others."""
        with self._changed:
            if len(self._ready) > sum(place.state != "running" for place in self._places):
                return 0.0
        return 0.0 if seat.pacer.cut else seat.pacer.left_ms(seat.orders, _now_ms()) / 1000

    def remove(self, seat: ScheduledSink) -> None:
        """Let no batch of the seat begin any more, and wait for the one that runs."""
        with self._changed:
            self._seats.discard(seat)
            if seat in self._ready:
                self._ready.remove(seat)
            while seat._state == "running":
                self._changed.wait()
            seat._state = "gone"

    def close(self) -> None:
        """End the lanes after their running batches; what is still seated runs no more."""
        with self._changed:
            self._closed = True
            places, self._places = self._places, []
            self._changed.notify_all()
        for place in places:
            place.lane.stop()

    # --- the heap: called with the lock held ---------------------------------------------------------------------

    def _wait(self, seat: ScheduledSink, *, least: float = 0.0) -> None:
        """Look at a seat when its next batch is due, but not for `least` seconds."""
        now_ms = _now_ms()
        left = 0.0 if seat.pacer.due(seat.orders, now_ms) else seat.pacer.left_ms(seat.orders, now_ms) / 1000
        self._push(seat, max(left, least))

    def _push(self, seat: ScheduledSink, seconds: float) -> None:
        seat._state, seat._turn = "waiting", next(self._turns)
        heapq.heappush(self._heap, (time.monotonic() + seconds, seat._turn, seat))
        self._changed.notify_all()

    def _due_at(self) -> float | None:
        """Return when the next seat is due."""
        while self._heap and (self._heap[0][2]._state != "waiting" or self._heap[0][2]._turn != self._heap[0][1]):
            heapq.heappop(self._heap)  # it left, or is due at another time by now
        return self._heap[0][0] if self._heap else None

    def _offer(self, seat: ScheduledSink) -> None:
        seat._state = "ready"
        self._ready.append(seat)
        self._call()

    def _call(self, *, relief: bool = False) -> None:
        """Call as many lanes as have to take what is ready, or one for what is due soon as `relief` of another."""
        self._relief |= relief
        wanted = max(len(self._ready), self._relief) - sum(place.state in _AWAKE for place in self._places)
        for place in list(self._places):
            if wanted > 0 and place.state == "idle":
                try:
                    place.lane.call()
                except OSError as error:
                    self._lose(place, error)
                    return
                place.state = "called"
                wanted -= 1
        self._relief = self._relief and not any(place.state in _AWAKE for place in self._places)
        self._wants_lane = wanted > 0
        self._changed.notify_all()

    def _follows(self, place: _Place, now: float) -> bool:
        """Tell whether what is due soon would have to wait for another round, after one of several batches."""
        soon = self._soon(now)
        return place.batches > 1 and soon is not None and soon <= now + _AHEAD_SECONDS

    def _fail(self, seat: ScheduledSink, error: Exception) -> None:
        self._seats.discard(seat)
        seat._state, seat.error = "gone", error
        seat.wake.set()
        self._changed.notify_all()

    def _lose(self, place: _Place, error: Exception) -> None:
        """Go on without a lane that failed: all sinks that run no batch are told, and may come back."""
        self._let_go(place)
        self._tell(error)

    def _let_go(self, place: _Place) -> None:
        """Go on without a lane, which ends once its round has."""
        self._places.remove(place)
        with suppress(RuntimeError):  # where no thread can be started it ends with Spark
            threading.Thread(target=_end, args=(place.lane,), name="ending", daemon=True).start()

    def _tell(self, error: Exception) -> None:
        self._ready.clear()
        self._wants_lane = self._relief = False
        for seat in [each for each in self._seats if each._state != "running"]:
            self._fail(seat, error)

    # --- the conductor's thread ------------------------------------------------------------------------------------

    def _conduct(self) -> None:
        while not self._closed:
            try:
                self._step()
            except Exception as error:  # as where no thread can be started: no sink waits for ever without a word
                with self._changed:
                    self._tended = self._tending_asked
                    self._tell(error)

    def _step(self) -> None:
        """Look at what is due, and see to the lanes; wait where nothing is to be done."""
        with self._changed:
            if self._closed:
                return
            now, asked = time.monotonic(), self._tending_asked
            tend_at = self._tended_at + _TEND_SECONDS if asked == self._tended else now
            while (due_at := self._due_at()) is not None and due_at <= now:
                self._look(heapq.heappop(self._heap)[2])
            wants_lane = self._lacks_lane(now)
            if not wants_lane and now < tend_at:
                self._changed.wait(max(_LEAST_SECONDS, min(tend_at, due_at or tend_at) - now))
                return
        with self._opening:
            if wants_lane:
                self._open_more()
                return
            self._tended_at = time.monotonic()
            self._tend()
        with self._changed:
            self._tended = asked
            self._changed.notify_all()

    def _lacks_lane(self, now: float) -> bool:
        return self._wants_lane and len(self._places) - self._slow(now) < self._most

    def _slow(self, now: float) -> int:
        """Return how many lanes are not counted, as their batches take long."""
        slow = [place for place in self._places if place.state == "running" and now >= place.since + _SLOW_SECONDS]
        return min(len(slow), _MOST_SLOW)

    def _look(self, seat: ScheduledSink) -> None:
        """Find out in a thread whether something is new for a seat that is due."""
        if seat._end is not None:
            self._offer(seat)
            return
        if not seat.pacer.due(seat.orders, _now_ms()):  # the clock was set back
            self._wait(seat, least=_LEAST_SECONDS)
            return
        seat._state = "looking"
        threading.Thread(target=self._looking, args=(seat, seat._turn), name="looking", daemon=True).start()

    def _looking(self, seat: ScheduledSink, turn: int) -> None:
        try:
            found: JobOffsets | Exception = seat.pacer.next_end(seat._at, seat.orders, _now_ms())
        except Exception as error:
            found = error
        with self._changed:
            if seat._state != "looking" or seat._turn != turn:
                return
            if isinstance(found, Exception):
                self._fail(seat, found)
            elif found == seat._at:
                self._wait(seat, least=_AGAIN_SECONDS if seat.orders.targets is not None else _LEAST_SECONDS)
            else:
                seat._end = found
                self._offer(seat)

    # --- lanes: opened and ended with `_opening` held ---------------------------------------------------------------

    def _open(self) -> None:
        place = _Place()
        place.lane = self._open_lane(lambda: self._round(place))
        with self._changed:
            closed = self._closed
            if not closed:
                self._places.append(place)
                self._call()
        if closed:
            place.lane.stop()

    def _open_more(self) -> None:
        with self._changed:
            if not self._lacks_lane(time.monotonic()):  # a sink that came opened one meanwhile
                return
        try:
            self._open()
        except Exception as error:
            with self._changed:
                self._wants_lane = self._relief = False
                while self._ready:
                    self._fail(self._ready.popleft(), error)

    def _tend(self) -> None:
        """Go on without lanes that failed, and that have had nothing to do for long, but one."""
        failures = [(place, place.lane.failure()) for place in list(self._places)]
        with self._changed:
            for place, error in failures:
                if place not in self._places:
                    continue
                if error is not None:
                    self._lose(place, error)
                elif place.state == "idle" and self._spare(place):
                    self._let_go(place)

    def _spare(self, place: _Place) -> bool:
        return len(self._places) > 1 and time.monotonic() > place.since + _SPARE_SECONDS

    # --- a lane's round --------------------------------------------------------------------------------------------

    def _round(self, place: _Place) -> None:
        until, place.batches = time.monotonic() + self._round_seconds, 0
        while (seat := self._next(place, until)) is not None:
            self._serve(seat)

    def _next(self, place: _Place, until: float) -> ScheduledSink | None:
        """Return the next seat whose batch is to run; None where the round is over."""
        with self._changed:
            while not self._closed and place in self._places and (now := time.monotonic()) < until:
                if self._ready:
                    seat = self._ready.popleft()
                    seat._state = place.state = "running"
                    place.since = now
                    place.batches += 1
                    if place.batches > 1 and now >= until - _AHEAD_SECONDS:
                        self._call(relief=True)
                    return seat
                soon = self._soon(now)
                if soon is None or soon > until:
                    break
                place.state = "staying"
                self._changed.wait(until - now)
            place.state, place.since = "idle", time.monotonic()
            if place in self._places:
                if place.lane.worn:  # where there is always something to run, it would never be found idle
                    self._let_go(place)
                self._call(relief=self._follows(place, place.since))  # maybe this one again
            return None

    def _soon(self, now: float) -> float | None:
        """Return when a seat may be ready: one whose batch runs, as soon as that is done."""
        return now if any(seat._state in ("looking", "running") for seat in self._seats) else self._due_at()

    def _serve(self, seat: ScheduledSink) -> None:
        assert seat._end is not None
        try:
            done = seat.process(seat._at, seat._end, seat.pacer.cut)
        except Exception as error:
            with self._changed:
                self._fail(seat, error)
            return
        with self._changed:
            seat.stalls = not isinstance(done, Mapping)
            if seat not in self._seats:
                seat._state = "gone"
                self._changed.notify_all()
            elif not isinstance(done, Mapping):
                self._push(seat, done)
            else:
                seat._at, seat._end = done, None
                self._wait(seat)


def _end(lane: Worker) -> None:
    with suppress(Exception):  # one that does not end does nothing either
        lane.stop()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
