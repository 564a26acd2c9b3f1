"""Requests of programs that wait for a sink are answered once its table has all data of its sources."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime.test_batch import open_loop
from sinkql import physical
from sinkql.connector_api.requests import is_wait_done, request_wait, wait_store
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink.requests import WaitReplies, WaitRequests
from sinkql.storage.key_value import KeyValueStore
from support.running import contexts, counter, drain, job, output


def _begun(each: physical.Job, folder: Path) -> tuple[BatchLoop, Context, KeyValueStore]:
    loop, context = open_loop(each, folder), contexts(folder, each)
    loop.start(epoch=1)
    return loop, context, wait_store(context.open_notes, context.folder.parent.parent)


def _given(answers: WaitReplies, loop: BatchLoop, context: Context, batch: threading.Lock | None = None) -> list[str]:
    requests = WaitRequests(every_seconds=0).pending(context)
    return list(answers.reply(requests, loop, context, batch or threading.Lock()))


def test_a_request_is_answered_once_the_table_has_all(tmp_path: Path) -> None:
    loop, context, notes = _begun(job(counter(up_to=5), tmp_path), tmp_path)
    answers, name = WaitReplies(), request_wait(notes, context.sink_id)
    assert _given(answers, loop, context) == []
    assert not is_wait_done(notes, name)
    loop.targets = loop.present_end()
    drain(loop)
    assert _given(answers, loop, context) == [name]
    assert is_wait_done(notes, name)
    late = request_wait(notes, context.sink_id)  # without new data, the reply is immediate
    assert _given(answers, loop, context) == [late]


def test_rows_that_a_view_leaves_out_hold_nobody_up(tmp_path: Path) -> None:
    none = physical.Map(counter(up_to=5), where=output("c", "`counter` > 9", "boolean"))
    loop, context, notes = _begun(job(none, tmp_path), tmp_path)
    name = request_wait(notes, context.sink_id)
    loop.targets = loop.present_end()
    drain(loop)
    assert _given(WaitReplies(), loop, context) == [name]


def test_a_batch_that_runs_and_another_sink_answer_nothing(tmp_path: Path) -> None:
    loop, context, notes = _begun(job(counter(up_to=5), tmp_path), tmp_path)
    loop.targets = loop.present_end()
    drain(loop)
    request_wait(notes, "another")
    assert _given(WaitReplies(), loop, context) == []
    name, batch = request_wait(notes, context.sink_id), threading.Lock()
    with batch:
        assert _given(WaitReplies(), loop, context, batch) == []
    assert _given(WaitReplies(), loop, context, batch) == [name]


def test_a_source_without_an_end_is_never_read_up_to_it(tmp_path: Path) -> None:
    loop, context, notes = _begun(job(counter(), tmp_path), tmp_path)
    name = request_wait(notes, context.sink_id)
    with pytest.raises(SinkqlError, match="SQ2405"):
        loop.present_end()
    assert _given(WaitReplies(), loop, context) == []
    assert not is_wait_done(notes, name)
