"""The shell's messages about the process that runs the sinks; a fake process prints the events of `sinkql up`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sinkql.shell.background import Background, Notices
from support.patience import PATIENCE_S

_SAYS = """
import sys
for line in {lines!r}:
    print(line, flush=True)
print({error!r}, file=sys.stderr, flush=True)
if {wait}:
    try:
        import signal
        signal.pause()
    except KeyboardInterrupt:
        pass
sys.exit({code})
"""
_STARTED = ('{"event": "spark starting", "cluster": "quickstart"}', '{"event": "spark started", "cluster": "c"}')
_STALLED = '{"event": "stalled", "sink": "materialize.public.s", "error": {"code": "SQ4201", "message": "no answer",'
_STALLED += ' "hint": "Check URL."}}'
_EMPTY = '{"event": "committed", "sink": "materialize.public.s", "rows": 0}'
_COMMITTED = '{"event": "committed", "sink": "materialize.public.s", "rows": 1200}'


def _background(told: list[str], *lines: str, code: int = 0, error: str = "", wait: bool = False) -> Background:
    script = _SAYS.format(lines=lines, code=code, error=error, wait=wait)
    return Background(Path("catalog.db"), told.append, command=(sys.executable, "-c", script))


def _run(background: Background) -> None:
    background.start()
    background.wait()
    background.listened()


def test_a_first_commit_is_told_once() -> None:
    told: list[str] = []
    background = _background(told, *_STARTED, _EMPTY, _COMMITTED, _COMMITTED, "no JSON")
    _run(background)
    assert told == ["starting Spark for cluster quickstart …", "sink s committed its first 1,200 rows"]
    assert background.jobs["materialize.public.s"].rows == 2400


def test_an_error_is_told_with_its_hint_and_again_only_after_a_commit() -> None:
    told: list[str] = []
    _run(_background(told, _COMMITTED, _STALLED, _STALLED, _COMMITTED, _STALLED))
    stalled = "sink s is stalled: SQ4201: no answer\nhint: Check URL."
    assert told[1:] == [stalled, "sink s commits again", stalled]


def test_the_end_of_a_sink_is_told_but_not_while_the_shell_ends_it() -> None:
    ended = '{"event": "stopped", "sink": "materialize.public.s", "why": "stopped"}'
    told: list[str] = []
    background = _background(told, ended)
    _run(background)
    assert told == ["sink s ended: stopped"]
    background.jobs.clear()
    waiting = _background(told, _STARTED[0], wait=True)
    waiting.start()
    assert waiting.pid is not None
    waiting.stop()
    waiting.wait()
    waiting.listened()
    assert waiting.pid is None


def test_a_process_that_fails_is_told_with_its_error() -> None:
    told: list[str] = []
    _run(_background(told, code=4, error='{"error": {"code": "SQ4002", "message": "no Java", "hint": "Install it."}}'))
    assert told == [
        "the process that runs the sinks ended: SQ4002: no Java\nhint: Install it.\n"
        "hint: Run \\start to start them again."
    ]


def test_a_terminal_that_is_gone_keeps_no_event_from_being_taken(capsys: pytest.CaptureFixture[str]) -> None:
    def gone(line: str) -> None:
        raise OSError(line)

    background = _background([], _COMMITTED, _COMMITTED)
    background.tell = gone
    _run(background)
    assert background.jobs["materialize.public.s"].commits == 2
    assert capsys.readouterr().err.endswith("OSError: sink s committed its first 1,200 rows\n")


def test_the_line_below_the_prompt_counts_sinks_by_state() -> None:
    background = _background([], wait=True)  # it prints no event
    background.start()
    assert background.summary().startswith("starting: ")
    background.activity = None
    background.take({"event": "committed", "sink": "a", "rows": 5})
    background.take({"event": "stalled", "sink": "b", "error": {"code": "SQ1", "message": "m"}})
    for view in ("v", "w"):
        background.take({"event": "committed", "view": view, "rows": 7})
    assert background.summary() == "1 sink running, 1 sink stalled, 2 views running; 5 rows committed"
    background.kill()
    assert background.summary() == ""


def test_lines_wait_while_nothing_is_asked() -> None:
    shown: list[str] = []
    notices = Notices(shown.append)
    notices.tell("first")
    assert shown == []
    with notices.asking():
        assert shown == ["first"]
        notices.tell("second")
        assert shown == ["first", "second"]
    notices.tell("third")
    assert shown == ["first", "second"]


@pytest.mark.parametrize("signal_name", ["TERM", "HUP"])
def test_nothing_is_left_when_the_terminal_goes_away(signal_name: str) -> None:
    script = (
        "import os, signal, sys\n"
        "from sinkql.shell.terminal import _ending\n"
        "class Stub:\n"
        "    def stop(self): os.write(1, b'asked to stop\\n')\n"  # a signal may interrupt a print
        "with _ending(Stub()):\n"
        "    os.write(1, b'ready\\n')\n"
        "    signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    number = signal.Signals[f"SIG{signal_name}"]
    os.kill(process.pid, number)
    assert process.stdout.read() == "asked to stop\n"
    assert process.wait(PATIENCE_S) == 128 + number
