"""REPLAY ERRORS that was asked for → done by the process that runs the sink, between two batches."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sinkql.connector_api import requests
from sinkql.connector_api.on_error import keeps_letters
from sinkql.errors import FencedError, SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink.requests import acquired
from sinkql.storage.key_value import Notes


def replay_asked(loop: BatchLoop, notes: Notes, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Do what is asked for in the sink's notes, if anything is; `batch` is held while no batch may run.

    What may pass, and what ends the sink, is raised, and is asked for still; for anything else no sink ends: it is the
    answer.
    """
    reads = {read.source: read for read in loop.job.reads() if keeps_letters(read)}
    try:
        asked = requests.asked(notes, list(reads))
    except SinkqlError:
        return  # a catalog that cannot be read now is asked again
    for each in asked:
        if not acquired(batch, stops):
            return
        try:
            if loop.owing():
                loop.process(loop.marker.end, loop.marker.end)
            done = loop.replay(reads[each.source])
        except SinkqlError as error:
            if error.retryable or isinstance(error, FencedError):
                raise
            requests.answer(notes, each, 0, 0, error)
        else:
            requests.answer(notes, each, done.replayed, done.left)
        finally:
            batch.release()
