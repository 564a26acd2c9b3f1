"""A generation, and how far its sinks are → where it goes on so that each of them gets all chunks.

Chunks are counted within a *run*: keys of a server sort as only the server knows, so sinks are compared by the numbers
of chunks of one run, and never by keys. Another run begins where a log was lost, or where a sink says late how far it
is: after the fewest chunks that its sinks have of one run, or after none where they have chunks of several.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec import structs

from sinkql.capture.log import LogWriter, SnapshotGeneration
from sinkql.capture.messages import ReaderPosition


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
