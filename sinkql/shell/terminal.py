"""Run the shell on a terminal, a file or a pipe, until its end."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sinkql import __version__
from sinkql.errors import SinkqlError
from sinkql.script.split import spoken_command
from sinkql.session import Session
from sinkql.shell.background import Background, Notices
from sinkql.shell.command.command_list import BY_NAME
from sinkql.shell.screen.keyboard import held_keys, typed_ahead
from sinkql.shell.screen.screen import Screen
from sinkql.shell.setting import RowFormat, Settings
from sinkql.shell.shell import Leave, Shell

if TYPE_CHECKING:
    from sinkql.shell.editor.prompt import Prompt

_HISTORY = "history"
_LEFT = "Canceled."


def run_shell(
    session: Session,
    texts: Sequence[tuple[str, str | None]],
    *,
    format: RowFormat = "table",  # noqa: A002 the option's name
    keep_going: bool = False,
) -> int:
    """Run texts, each with its path; without texts, ask at the terminal. Return the exit code."""
    interactive = not texts
    settings = Settings(format=format)
    screen = Screen(settings, interactive)
    notices = Notices(screen.line)
    background = Background(session.catalog.database.address, notices.tell)
    shell = Shell(session, screen, settings, background, BY_NAME, keep_going=keep_going)
    for notice in session.notices:
        screen.notice(notice)
    if interactive:
        with held_keys(), _ending(background):
            return _ask(shell, notices, typed_ahead())
    try:
        for text, path in texts:
            shell.run(text, path)
        session.end_script()
    except Leave:
        pass
    except SinkqlError as error:
        screen.error(error)
        return error.exit_code
    return shell.exit_code


@contextmanager
def _ending(background: Background) -> Iterator[None]:
    """End the process of the sinks with the shell, also when the terminal closes."""

    def leave(number: int, frame: FrameType | None) -> None:
        background.stop()
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ask(shell: Shell, notices: Notices, typed: str) -> int:
    from sinkql.shell.editor.completer import SqlCompleter  # loads prompt_toolkit, which only a terminal needs
    from sinkql.shell.editor.prompt import Prompt

    prompt = Prompt(
        shell.session.catalog.database.folder / _HISTORY,
        SqlCompleter(shell.session, shell.settings, shell.actions),
        shell.session.catalog.registry.keywords,
        status=shell.background.summary,
        transaction=lambda: shell.session.transaction,
    )
    shell.screen.line(f"SinkQL {__version__}. \\? lists commands, \\h statements; Ctrl-D leaves.")
    prompt.take_typed(typed)
    _tell_idle(shell)
    while True:
        try:
            return _turns(shell, prompt, notices)
        except KeyboardInterrupt:
            shell.edited = None  # a key press between two statements does not leave the shell


def _tell_idle(shell: Shell) -> None:
    """Print the sinks that should run, but do not."""
    columns, rows = shell.session.status()
    sinks = [dict(zip(columns, row, strict=True)) for row in rows]
    idle = [
        str(row["name"]) for row in sinks if row["desired"] == "running" and row["status"] in ("created", "stopped")
    ]
    if idle:
        verb, them = ("is", "it") if len(idle) == 1 else ("are", "them")
        shell.screen.line(f"{', '.join(idle)} {verb} not running. \\start starts {them}.")


def _turns(shell: Shell, prompt: Prompt, notices: Notices) -> int:
    """Ask and run until the user leaves; Ctrl-C discards the typed text, or cancels the running statement."""
    while True:
        try:
            with notices.asking():
                text = prompt.ask(default=shell.edited or "")
        except EOFError:
            return _leave(shell, detach=False)
        shell.edited = None
        try:
            shell.run(spoken_command(text) or text)
        except Leave as leave:
            return _leave(shell, detach=leave.detach)
        except KeyboardInterrupt:
            shell.screen.line(_LEFT)
        except Exception as error:  # an unexpected error does not end the shell
            if _interrupted(error):
                shell.screen.line(_LEFT)
            else:
                shell.screen.error(error if isinstance(error, SinkqlError) else _unforeseen(error))


def _interrupted(error: BaseException) -> bool:
    """Return whether an error comes from Ctrl-C: clients report the interruption as a failure."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _unforeseen(error: Exception) -> SinkqlError:
    """Return an error for a bug of SinkQL, without its message, which may contain a secret."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return SinkqlError(
        "SQ4038",
        f"unexpected error: {type(error).__name__}",
        detail=f"at {Path(frame.filename).name}:{frame.lineno}",
        hint="The statement may have been done in part; check with \\d.",
    )


def _leave(shell: Shell, *, detach: bool) -> int:
    background = shell.background
    if background.pid is None:
        return 0
    if detach:
        shell.screen.line(f"The sinks keep running (pid {background.pid}); sinkql stop NAME stops one.")
        return 0
    shell.screen.line("Finishing the running batches (Ctrl-C stops immediately) …")
    background.stop()
    try:
        background.wait()
    except KeyboardInterrupt:
        background.kill()
        return 130
    return 0
