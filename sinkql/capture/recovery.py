"""A generation, and how far its sinks are → where it goes on so that each of them gets all chunks.

Chunks are counted within a *run*: keys of a server sort as only the server knows, so sinks are compared by the numbers
of chunks of one run, and never by keys. Another run begins where a log was lost, or where a sink says late how far it
is: after the fewest chunks that its sinks have of one run, or after none where they have chunks of several.

Rows that are pushed, and kept on one machine until the log has them → whether that machine alone can go on.

A log ends with a `close` where its last capture put all of them there, and with a `gap` where a user has given up what
it did not: then any machine goes on. Otherwise its last `open` says what may keep the rest.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from msgspec import structs

from sinkql.capture.log import LogWriter, SnapshotGeneration
from sinkql.capture.messages import ReaderPosition
from sinkql.connector_api.cdc import SKIP, Event, Position, PushStream, Stream
from sinkql.errors import LostChangesError


def takes(run: str, chunks: int, generation: SnapshotGeneration) -> bool:
    """Tell whether no chunk is missing between those that a sink has of a run and the last one of a generation."""
    if generation.run == run:
        return generation.chunks <= chunks + 1
    first = generation.chunks == generation.base + 1
    return first and (not generation.base or (generation.after == run and generation.base <= chunks))


def resumed(
    log: LogWriter, number: int, known: SnapshotGeneration | None, sinks: Sequence[ReaderPosition]
) -> SnapshotGeneration | None:
    """Return a generation with another run, for sinks that lack chunks of it; None where it is right for them as it is.

    `known` is what the log has of it.
    """
    if known is not None and all(_follows(log, known, each) for each in sinks):
        return None
    least = min(sinks, key=lambda each: each.chunks)
    same = all(each.run == least.run for each in sinks)
    return SnapshotGeneration(
        number,
        least.table,
        known.begin if known is not None else -1,
        least.last if same else None,
        least.chunks if same else 0,
        high=max(log.to, known.high if known is not None else ""),
        base=least.chunks if same else 0,
        run=uuid.uuid4().hex,
        after=least.run if same else "",
        columns=known.columns if known is not None else (),
        rows=least.rows if same else 0,
        of_rows=known.of_rows if known is not None else -1,
    )


def _follows(log: LogWriter, known: SnapshotGeneration, at: ReaderPosition) -> bool:
    """Tell whether a sink has got, and will get, all chunks of a generation from the log."""
    if at.run == known.run:
        return True
    chunks = (each for each in log.entries if each.generation is not None and each.generation.run == known.run)
    first = next((each for each in chunks if each.kind == "chunk"), None)
    if first is None or first.generation is None:
        to_come = structs.replace(known, chunks=known.chunks + 1)
        return not known.done and takes(at.run, at.chunks, to_come)
    if not takes(at.run, at.chunks, first.generation):
        return False
    return at.entry < first.entry if at.log == log.id else at.to <= first.start


def require_local_log(log: LogWriter, stream: Stream, start: Position) -> str:
    """Have what follows the log kept here; return what keeps it, empty where nothing is pushed.

    Raises what the stream says where something else may keep rows that the log does not have.
    """
    if not isinstance(stream, PushStream):
        return ""
    if log.entries:
        whole = log.entries[-1].kind in ("close", "gap")
        opened = next((each.keeper for each in reversed(log.entries) if each.kind == "open"), "")
        stream.follow(start, None if whole else opened)
    return stream.keeper()


def end(stream: Stream) -> Position:
    """Return up to where rows were pushed by now, empty where none are."""
    return stream.end() if isinstance(stream, PushStream) else ""


def before(log: LogWriter, stream: Stream) -> Position:
    """Return up to where rows had been pushed when the log began, empty where that is not known, or none are."""
    opened = next((each for each in reversed(log.entries) if each.kind == "open"), None)
    return opened.pushed if opened is not None else end(stream)


def check(pushed: Position, others: Sequence[ReaderPosition]) -> None:
    """Raise SQ3436 where a sink has read more of a lost log than had been pushed when this one began.

    Of such a sink nobody knew then: what was pushed since has positions that it is beyond.
    """
    beyond = [each.to for each in others if each.to > pushed]
    if pushed and beyond:
        error = lost_log_error(min(beyond))
        error.pushed = pushed
        raise error


def drain(log: LogWriter, stream: Stream, take: Callable[[Event], None], publish: Callable[[], None]) -> None:
    """Accept nothing more, put all that was accepted into the log, and say there that it has it."""
    if not isinstance(stream, PushStream):
        return
    stream.shut()
    while events := stream.receive(0.0):
        for event in events:
            take(event)
    publish()
    if log.to == stream.end():
        log.add("close", to=log.to, at=time.time())


def lost_log_error(at: Position) -> LostChangesError:
    """Return the error for a log that is lost while sinks are at a position, which alone had what follows that."""
    return LostChangesError(
        "SQ3436",
        "the log of the source is lost, and the server no longer has what it had",
        detail=f"sinks are at position {at} and later ones",
        hint=SKIP,
    )
