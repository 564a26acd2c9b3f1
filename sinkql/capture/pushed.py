"""Rows that are pushed, and kept on one machine until the log has them → whether that machine alone can go on.

A log ends with a `close` where its last capture put all of them there, and with a `gap` where a user has given up what
it did not: then any machine goes on. Otherwise its last `open` says what may keep the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sinkql.capture.log import LogWriter
from sinkql.capture.messages import ReaderPosition
from sinkql.capture.retention import lost_log
from sinkql.connector_api.cdc import Event, Position, PushStream, Stream


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
        error = lost_log(min(beyond))
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
