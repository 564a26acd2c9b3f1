"""The events of a schedule, and its answers: what happened to sinks and workers, and what its threads must do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from sinkql.runtime.batch.engine import Place


@dataclass(slots=True, eq=False)
class SinkTurn:
    """Where a sink is in the schedule, which alone changes it.

    * `needs_spark`: all its batches are Spark's.
    * `place`: where its next batch runs: where the last one ran, or in Spark after a hand-over.
    * `has_batch`: the end of its next batch is known, as in a retry: nothing must look for new input.
    * `turn`: changes whenever the sink is queued, so that the answer to an old look is recognized.
    """

    needs_spark: bool = field(default=False, kw_only=True)
    place: Place = field(default="in process", init=False)
    state: Literal["waiting", "looking", "ready", "running", "removed"] = field(default="removed", init=False)
    has_batch: bool = field(default=False, init=False)
    turn: int = field(default=-1, init=False)


@dataclass(slots=True, eq=False)
class WorkerTurn:
    """A worker and its state: "starting" until its round begins, "waiting" for a ready sink within the round.

    `since` is when the state began, except "waiting"; while it runs, when its batch began. `until` is the end of the
    round, `batches` the number of batches in it.
    """

    place: Place
    state: Literal["idle", "starting", "running", "waiting", "retired"] = "idle"
    since: float = 0.0
    until: float = 0.0
    batches: int = 0


SinkT = TypeVar("SinkT", bound=SinkTurn)
WorkerT = TypeVar("WorkerT", bound=WorkerTurn)

# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SinkAdded(Generic[SinkT]):
    """A sink joins the schedule; its batch is due after `due_in` seconds."""

    sink: SinkT
    due_in: float


@dataclass(frozen=True, slots=True)
class SinkPaced(Generic[SinkT]):
    """A sink's pacing has changed: its next batch is due after `due_in` seconds, unless a batch waits for a retry.

    From the next batch on, all of its batches are Spark's if `needs_spark`.
    """

    sink: SinkT
    due_in: float
    needs_spark: bool = False


@dataclass(frozen=True, slots=True)
class SinkRemoved(Generic[SinkT]):
    """A sink leaves the schedule; a running batch goes on to its end."""

    sink: SinkT


@dataclass(frozen=True, slots=True)
class InputFound(Generic[SinkT]):
    """A look found new input."""

    sink: SinkT
    turn: int


@dataclass(frozen=True, slots=True)
class NoInput(Generic[SinkT]):
    """A look found nothing new; the next one is due after `due_in` seconds."""

    sink: SinkT
    turn: int
    due_in: float


@dataclass(frozen=True, slots=True)
class LookFailed(Generic[SinkT]):
    """A look raised an error."""

    sink: SinkT
    turn: int
    error: Exception


@dataclass(frozen=True, slots=True)
class BatchCommitted(Generic[SinkT]):
    """A batch is committed; the next one is due after `due_in` seconds, and first tried at `place`."""

    sink: SinkT
    place: Place
    due_in: float


@dataclass(frozen=True, slots=True)
class BatchDelayed(Generic[SinkT]):
    """A batch failed, or cannot run yet, and is tried again after `seconds`."""

    sink: SinkT
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchHandedOver(Generic[SinkT]):
    """A batch that began in this process needs Spark; nothing of it is committed."""

    sink: SinkT


@dataclass(frozen=True, slots=True)
class BatchFailed(Generic[SinkT]):
    """A batch raised an error that ends the schedule of its sink."""

    sink: SinkT
    error: Exception


@dataclass(frozen=True, slots=True)
class WorkerOpened(Generic[WorkerT]):
    """A worker exists, and waits for its first round."""

    worker: WorkerT


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """No worker could be opened."""

    place: Place
    error: Exception


@dataclass(frozen=True, slots=True)
class WorkerFailed(Generic[WorkerT]):
    """A worker can no longer run rounds."""

    worker: WorkerT
    error: Exception


@dataclass(frozen=True, slots=True)
class RoundBegan(Generic[WorkerT]):
    """A worker's round has begun."""

    worker: WorkerT


@dataclass(frozen=True, slots=True)
class BatchWanted(Generic[WorkerT]):
    """A worker in a round wants a batch. The answer is `Run`, `EndRound`, or nothing: it waits, and asks again.

    `worn` if another worker should replace it.
    """

    worker: WorkerT
    worn: bool = False


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Some time has passed."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The schedule ends: no other batch begins."""


Event = (
    SinkAdded[SinkT]
    | SinkPaced[SinkT]
    | SinkRemoved[SinkT]
    | InputFound[SinkT]
    | NoInput[SinkT]
    | LookFailed[SinkT]
    | BatchCommitted[SinkT]
    | BatchDelayed[SinkT]
    | BatchHandedOver[SinkT]
    | BatchFailed[SinkT]
    | WorkerOpened[WorkerT]
    | OpenFailed
    | WorkerFailed[WorkerT]
    | RoundBegan[WorkerT]
    | BatchWanted[WorkerT]
    | TimePassed
    | Closed
)

# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look(Generic[SinkT]):
    """Look for new input of a sink, without delaying others."""

    sink: SinkT
    turn: int


@dataclass(frozen=True, slots=True)
class Open:
    """Open a worker, without delaying others: Spark may have to start."""

    place: Place


@dataclass(frozen=True, slots=True)
class StartRound(Generic[WorkerT]):
    """Start a round of an idle worker."""

    worker: WorkerT


@dataclass(frozen=True, slots=True)
class Run(Generic[SinkT, WorkerT]):
    """Run the sink's batch in the worker."""

    worker: WorkerT
    sink: SinkT


@dataclass(frozen=True, slots=True)
class EndRound(Generic[WorkerT]):
    """End the worker's round."""

    worker: WorkerT


@dataclass(frozen=True, slots=True)
class Retire(Generic[WorkerT]):
    """Stop a worker once its round has ended."""

    worker: WorkerT


@dataclass(frozen=True, slots=True)
class Fail(Generic[SinkT]):
    """Tell a sink that it has left the schedule because of an error."""

    sink: SinkT
    error: Exception


@dataclass(frozen=True, slots=True)
class RestSpark:
    """Stop Spark until a batch needs it again."""


Action = (
    Look[SinkT]
    | Open
    | StartRound[WorkerT]
    | Run[SinkT, WorkerT]
    | EndRound[WorkerT]
    | Retire[WorkerT]
    | Fail[SinkT]
    | RestSpark
)
