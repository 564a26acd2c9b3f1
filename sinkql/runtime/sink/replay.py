"""REPLAY ERRORS that was asked for → done by the process that runs the sink, between two batches."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sinkql.connector_api import requests
from sinkql.connector_api.on_error import has_dead_letter_table
from sinkql.errors import FencedError, SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink.requests import acquire_between_batches
from sinkql.storage.key_value import KeyValueStore


def run_replay_request(loop: BatchLoop, notes: KeyValueStore, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Do what is asked for in the sink's notes, if anything is; `batch` is held while no batch may run.

    What may pass, and what ends the sink, is raised, and is asked for still; for anything else no sink ends: it is the
    answer.
    """
    reads = {read.source: read for read in loop.job.reads() if has_dead_letter_table(read)}
    try:
        asked = requests.pending_replay(notes, list(reads))
    except SinkqlError:
        return  # a catalog that cannot be read now is asked again
    for each in asked:
        if not acquire_between_batches(batch, stops):
            return
        try:
            if loop.has_unread_output():
                loop.process(loop.marker.end, loop.marker.end)
            done = loop.replay(reads[each.source])
        except SinkqlError as error:
            if error.retryable or isinstance(error, FencedError):
                raise
            requests.finish_replay(notes, each, 0, 0, error)
        else:
            requests.finish_replay(notes, each, done.replayed, done.left)
        finally:
            batch.release()
