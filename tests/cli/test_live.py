"""The progress of running sinks, with and without a terminal."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live

from sinkql.cli.output import Output
from sinkql.cli.progress import LiveProgress, duration
from sinkql.connector_api.stream import FirstSnapshot
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import (
    SinkCommitted,
    SinkSnapshotting,
    SinkStage,
    SinkStalled,
    SinkStarted,
    SinkStarting,
    SinkStopped,
    SparkStarted,
    SparkStarting,
)
from support.patience import PATIENCE_S

_SINK = "materialize.public.s"
_LINE = "PyIceberg: " + "x" * 200


def _committed(rows: int, failed: int = 0, dead_letters: int = 0) -> SinkCommitted:
    nothing, soon = timedelta(), timedelta(seconds=3)
    return SinkCommitted(_SINK, rows, rows, failed, 0, 1, float(rows), nothing, soon, dead_letters=dead_letters)


def _stalled(seconds: int) -> SinkStalled:
    error = SinkqlError("SQ4201", "the catalog does not answer", detail="long", hint="Check URL.")
    return SinkStalled(_SINK, error, timedelta(seconds=seconds))


def _shown(face: LiveProgress, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(face._render())
    return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO


def test_an_error_is_told_whole_once_until_a_commit(capsys: pytest.CaptureFixture[str]) -> None:
    face = LiveProgress(Output("text"), lambda sink: [])
    for event in (_stalled(1), _stalled(2), _committed(1), _stalled(1)):
        face(event)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "stalled" in line or "detail" in line] == [
        "sink s is stalled",
        "detail: long",
        "sink s is stalled as before (SQ4201), next try in 2 s",
        "sink s is stalled",
        "detail: long",
    ]
    assert [line[9:] for line in lines if "committed" in line] == ["sink s committed 1 row (1 rows/s)"]


def test_a_line_to_copy_stays_one_line_on_a_narrow_terminal() -> None:
    screen = StringIO()
    face = LiveProgress(Output("text"), lambda sink: [_LINE])
    face._live = Live(console=Console(file=screen, width=80), auto_refresh=False)
    face(_committed(5))
    assert _LINE in screen.getvalue().splitlines()


def test_skipped_rows_have_a_column_once_there_are_any() -> None:
    face = LiveProgress(Output("text"), lambda sink: [])
    face(SinkStarted(_SINK, 1, {}))
    assert "skipped" not in _shown(face)
    face(_committed(5, failed=7))
    header, row = _shown(face).splitlines()
    assert header.split()[:5] == ["sink", "state", "rows", "rows/s", "skipped"]
    assert row.split()[:5] == ["s", "running", "5", "5", "7"]


@pytest.mark.parametrize(
    ("failed", "dead_letters", "told"),
    [
        (0, 0, "rows/s)"),
        (7, 7, "rows/s), 7 dead letters"),
        (1, 0, "rows/s), 1 record skipped"),
        (1003, 1, "rows/s), 1 dead letter, 1,002 records skipped"),
    ],
)
def test_a_commit_tells_dead_letters_from_skipped_records(
    capsys: pytest.CaptureFixture[str], failed: int, dead_letters: int, told: str
) -> None:
    LiveProgress(Output("text"), lambda sink: [])(_committed(5, failed, dead_letters))
    assert capsys.readouterr().out.rstrip().endswith(told)


def test_a_sink_that_is_overdue_waits_for_input() -> None:
    face = LiveProgress(Output("text"), lambda sink: [])
    face(_committed(5))
    assert "in 3 s" in _shown(face)
    face.sinks[_SINK].next_at = 0.0
    assert "on input" in _shown(face)


def test_what_a_start_does_is_shown_with_its_seconds_and_running_once_it_runs() -> None:
    face, shown = LiveProgress(Output("text"), lambda sink: []), []
    for event in (
        SparkStarting("quickstart"),
        SinkStarting(_SINK, "quickstart"),
        SinkStage(_SINK, "opening the table"),
        SinkStage(_SINK, "waiting for Spark"),
        SparkStarted("quickstart", 5.0),
        SinkStage(_SINK, "starting the query"),
        SinkStarted(_SINK, 1, {}),
        SinkStage(_SINK, "first batch"),
        _committed(5),
    ):
        face(event)
        shown.append(re.sub(r"\d+ s\b", "N s", " ".join(_shown(face, 200).split("next commit")[-1].split())))
    assert [line.partition(" 0 0")[0] for line in shown] == [
        "starting Spark for cluster quickstart: N s",
        "s starting",
        "s opening the table: N s",
        "s waiting for Spark: N s",
        "s waiting for Spark: N s",
        "s starting the query: N s",
        "s running",
        "s first batch: N s",
        "s running 5 5 N s N s ago in N s",
    ]


def test_a_first_snapshot_is_a_bar_with_the_time_left_until_it_is_whole() -> None:
    face, shown = LiveProgress(Output("text"), lambda sink: []), []
    for event in (
        SinkStarted(_SINK, 1, {}),
        SinkSnapshotting(_SINK, FirstSnapshot()),
        SinkSnapshotting(_SINK, FirstSnapshot(300, 1000, 3, 10, seconds_left=75.0)),
        SinkSnapshotting(_SINK, FirstSnapshot(1000, 1000, 10, 10, seconds_left=0.0)),
        SinkSnapshotting(_SINK, FirstSnapshot(1000, 1000, 10, 10, done=True)),
    ):
        face(event)
        shown.append(face.sinks[_SINK].shown_state(0.0))
        assert shown[-1] in _shown(face, 200)
    assert shown == [
        "running",
        "snapshot: 0 rows read",
        "snapshot: ███░░░░░░░ 30%, 1 min 15 s left",
        "snapshot: ██████████ 100%",
        "running",
    ]


def test_lines_tell_now_and_then_how_far_a_first_snapshot_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    face = LiveProgress(Output("text"), lambda sink: [])
    clock = iter((0.0, 1.0, 12.0, 13.0))
    monkeypatch.setattr("sinkql.machine.clock.monotonic", lambda: next(clock))
    for rows in (100, 200, 300):
        face(SinkSnapshotting(_SINK, FirstSnapshot(rows, 1000, rows // 100, 10, seconds_left=90.0)))
    face(SinkSnapshotting(_SINK, FirstSnapshot(1000, 1000, 10, 10, done=True)))
    assert [line[9:] for line in capsys.readouterr().out.splitlines()] == [
        "sink s reads its first snapshot: chunk 1 of about 10, row 100 of about 1,000 (10%), about 1 min 30 s left",
        "sink s reads its first snapshot: chunk 3 of about 10, row 300 of about 1,000 (30%), about 1 min 30 s left",
        "sink s has its first snapshot: 1,000 rows in 10 chunks",
    ]


def test_programs_get_each_step_of_a_first_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    face = LiveProgress(Output("json"), lambda sink: [])
    for rows in (100, 200):
        face(SinkSnapshotting(_SINK, FirstSnapshot(rows, 1000, rows // 100, 10, seconds_left=90.0)))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "event": "snapshotting", "sink": _SINK, "rows": 100, "of_rows": 1000, "chunks": 1, "of_chunks": 10,
        "done": False, "seconds_left": 90.0,
    }  # fmt: skip
    assert second["rows"] == 200


def test_what_a_view_does_is_not_told_of_a_sink(capsys: pytest.CaptureFixture[str]) -> None:
    face = LiveProgress(Output("json"), lambda sink: [])
    for event in (SinkStarting(_SINK, "c", view=True), SinkStarted(_SINK, 1, {}), SinkStopped(_SINK, "dropped")):
        face(event)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["event"], each["view"], "sink" in each) for each in told] == [
        ("starting", _SINK, False), ("started", _SINK, False), ("stopped", _SINK, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min 59 s"), (3600, "1 h"), (90061, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


_UNREAD = """
import signal, sys
from sinkql.cli.output import Output
from sinkql.cli.progress import LiveProgress
from sinkql.runtime.batch.events import SparkStarting
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
with LiveProgress(Output("json"), lambda sink: []) as face:
    face(SparkStarting("c"))
    sys.stdout.flush()
    signal.sigwait({signal.SIGHUP})
    face(SparkStarting("c"))
    sys.stdout = None
    sys.exit(7)
"""


def test_a_run_whose_output_nobody_reads_any_more_is_told_to_stop() -> None:
    process = subprocess.Popen([sys.executable, "-c", _UNREAD], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b'{"event": "spark starting", "cluster": "c"}\n'
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 7


class _Full(StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_on_a_full_disk_ends_no_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Full())
    with LiveProgress(Output("json"), lambda sink: []) as face:
        face(SinkStarted(_SINK, 1, {}))
    assert face.sinks[_SINK].state == "running"
