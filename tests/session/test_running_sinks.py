"""`Session.running` runs sinks within a `with` block; here a stub prints the output of `sinkql up`.

Real sinks run in tests/docs/test_embedding.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.sink.process import RunningSinks
from sinkql.session.sink.wait_for_target import TargetWait
from sinkql.storage.key_value import EmptyStore

_SAYS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
for line in {lines!r}:
    print(line, flush=True)
print({error!r}, file=sys.stderr, flush=True)
if {code} == 0:
    signal.sigwait([signal.SIGINT])
    print({last!r}, flush=True)
sys.exit({code})
"""
_A, _B = "materialize.public.a", "materialize.public.b"
_ERROR = {"message": "it is so", "hint": "Mend it.", "retryable": False}


def _said(event: str, sink: str = _A, **data: object) -> str:
    return json.dumps({"event": event, "sink": sink, **data})


def _error(code: str) -> dict[str, object]:
    return {"code": code, **_ERROR}


def _running(
    *lines: str,
    sinks: tuple[str, ...] = (_A,),
    code: int = 0,
    error: str = "",
    last: str = "",
    reaching: TargetWait | None = None,
) -> RunningSinks:
    script = _SAYS.format(lines=lines, code=code, error=error, last=last)
    asked = reaching or TargetWait((), EmptyStore())
    return RunningSinks(Path("catalog.db"), sinks, (sys.executable, "-c", script), reaching=lambda: asked)


def test_all_sinks_are_waited_for_and_commits_without_rows_do_not_count() -> None:
    lines = [_said("started"), _said("committed", rows=0), _said("committed", rows=2)]
    with _running(*lines, _said("committed", _B, rows=1), _said("committed", "other", rows=1), sinks=(_A, _B)) as sinks:
        sinks.wait_for_commit()
        with pytest.raises(TimeoutError, match=r"no commit within 0.01 s"):
            sinks.wait_for_commit(timeout=0.01)


class _Asked(TargetWait):
    """Targets whose requests have the names of their sinks."""

    def request(self, sink: str) -> str | None:
        return sink


def test_a_sink_that_has_all_is_waited_for_no_longer() -> None:
    lines = [_said("committed", rows=1), _said("reached", _B, requests=[_B])]
    with _running(*lines, sinks=(_A, _B), reaching=_Asked((), EmptyStore())) as sinks:
        sinks.wait_for_commit()
    with _running(*lines, sinks=(_A, _B)) as sinks, pytest.raises(TimeoutError):
        sinks.wait_for_commit(timeout=0.01)


def test_without_sinks_nothing_starts() -> None:
    with _running("not started", sinks=(), code=1) as sinks:
        sinks.wait_for_commit()


@pytest.mark.parametrize(
    ("lines", "code", "error", "raised"),
    [
        ([_said("stopped", why="failed", error=_error("SQ4201"))], 4, "", "SQ4201"),
        ([_said("stalled", error=_error("SQ3001"))], 0, "", "SQ3001"),
        ([], 5, json.dumps({"error": _error("SQ5201")}), "SQ5201"),
        ([], 1, "Traceback", "SQ4004"),
    ],
)
def test_the_error_of_a_failed_sink_is_raised(lines: list[str], code: int, error: str, raised: str) -> None:
    with pytest.raises(SinkqlError) as found, _running(*lines, code=code, error=error) as sinks:
        sinks.wait_for_commit()
    assert found.value.code == raised
    assert found.value.hint


def test_an_error_that_comes_while_sinks_stop_is_raised_at_the_end() -> None:
    last = _said("stopped", why="failed", error=_error("SQ4201"))
    with pytest.raises(SinkqlError, match="SQ4201"), _running(_said("committed", rows=1), last=last) as sinks:
        sinks.wait_for_commit()


def test_the_error_of_the_caller_comes_first() -> None:
    last = _said("stopped", why="failed", error=_error("SQ4201"))
    with pytest.raises(ZeroDivisionError), _running(_said("committed", rows=1), last=last) as sinks:
        _fail_after_a_commit(sinks)


def _fail_after_a_commit(sinks: RunningSinks) -> None:
    sinks.wait_for_commit()  # a signal during the start of Python might be lost
    raise ZeroDivisionError


def test_a_sink_that_another_stops_is_not_waited_for() -> None:
    running = _running(_said("stopped", why="dropped"))
    with pytest.raises(SinkqlError, match=r'SQ5212.*sink "a" ended before it committed: dropped'), running as sinks:
        sinks.wait_for_commit()


def test_a_sink_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with Session(tmp_path / "catalog.db") as session, pytest.raises(SinkqlError, match="SQ2001"):
        session.running("nothing")
