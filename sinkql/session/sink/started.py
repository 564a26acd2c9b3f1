"""Sinks that a process of their own runs, for as long as a `with` lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sinkql.catalog.address import Address
from sinkql.errors import SinkqlError, from_data
from sinkql.planner.name import short_name
from sinkql.session.sink.process import COMMAND, SinkProcess, told_error
from sinkql.session.sink.reaching import Reaching

_LOOK_SECONDS = 0.3


class RunningSinks:
    """Sinks that start with a `with` or `async with` block, and stop after their batches at its end.

    The end raises the error of a sink that failed or needs a user to act. An error of the block comes first. You may
    call methods from any thread.
    """

    def __init__(
        self,
        catalog: Address,
        sinks: tuple[str, ...],
        command: tuple[str, ...] = COMMAND,
        *,
        reaching: Callable[[], Reaching],
    ) -> None:
        self.sinks = sinks
        self._reaching = reaching
        self._process = SinkProcess(catalog, self._take, self._ended, sinks, command)
        self._commits = dict.fromkeys(sinks, 0)
        self._waited = dict.fromkeys(sinks, 0)
        self._stalled: dict[str, SinkqlError] = {}
        self._failed: SinkqlError | None = None
        self._gone: dict[str, str] = {}
        self._reached: set[str | None] = set()
        self._changed = threading.Condition()

    def __enter__(self) -> RunningSinks:
        if self.sinks:
            self._process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        try:
            self._process.stop()
            self._process.wait()
        except BaseException:
            self._process.kill()
            raise
        self._process.listened()
        if kind is None:
            self._raise()

    async def __aenter__(self) -> RunningSinks:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        import asyncio  # which is there where this is called

        await asyncio.to_thread(self.__exit__, *raised)

    def wait_for_commit(self, timeout: float | None = None) -> None:
        """Wait until each sink has committed rows after the start or after the previous wait.

        If a sink has no new rows, wait until its table has everything that its sources have now. A load generator
        without UP TO has no such end. Raise the error of a sink that failed or needs a user to act, or SQ5212 if
        a sink was stopped or dropped. After `timeout` seconds, raise TimeoutError with the error of a sink that
        retries.
        """
        until = None if timeout is None else time.monotonic() + timeout
        reaching = self._reaching()
        try:
            while not self._committed(reaching):
                self._raise_ended()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    error = next(iter(self._stalled.values()), None)
                    raise TimeoutError(f"no commit within {timeout:g} s") from error
                reaching.look()
                with self._changed:
                    self._changed.wait(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
        finally:
            reaching.end()

    def _committed(self, reaching: Reaching) -> bool:
        """Tell whether no sink is waited for any more; the commits that there are have been seen then."""
        with self._changed:
            if not all(
                self._commits[sink] > self._waited[sink] or reaching.request(sink) in self._reached
                for sink in self.sinks
            ):
                return False
            self._waited = dict(self._commits)
            return True

    def _raise_ended(self) -> None:
        with self._changed:
            self._raise()
            self._raise_gone()

    def _raise(self) -> None:
        waiting = (error for error in self._stalled.values() if not error.retryable)
        error = self._failed or next(waiting, None)
        if error is not None:
            raise error

    def _raise_gone(self) -> None:
        for sink, why in self._gone.items():
            if self._commits[sink] == self._waited[sink]:
                message = f'sink "{short_name(sink)}" ended before it committed: {why}'
                raise SinkqlError("SQ5212", message, hint="Start the sink again, and wait then.")

    # --- what the process says, on a thread of its own ----------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        sink = event.get("sink") or event.get("view")
        if sink not in self._commits:
            return
        with self._changed:
            match event["event"]:
                case "started":
                    self._gone.pop(sink, None)
                case "committed":
                    self._commits[sink] += event["rows"] > 0
                    self._stalled.pop(sink, None)
                case "reached":
                    self._reached.update(event["requests"])
                case "stalled":
                    self._stalled[sink] = from_data(event["error"])
                case "stopped" if "error" in event:
                    self._failed = self._failed or from_data(event["error"])
                case "stopped":
                    self._gone[sink] = event["why"]
                case _:
                    return
            self._changed.notify_all()

    def _ended(self, code: int, errors: Sequence[str]) -> None:
        with self._changed:
            if code != 0 and not self._process.ending and self._failed is None:
                told = told_error(errors)
                message, detail = f"the process that runs the sinks ended with {code}", "\n".join(errors) or None
                hint = "Start the sinks again; they continue where they stopped."
                ended = SinkqlError("SQ4004", message, detail=detail, hint=hint)
                self._failed = from_data(told) if told is not None else ended
            self._gone = dict.fromkeys(self.sinks, "its process ended") | self._gone
            self._changed.notify_all()
