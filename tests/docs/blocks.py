"""Run the blocks of a page in order, in one project, and compare their output with the page.

All blocks of a page run in one folder, and its SQL in one session; `run` says how each kind of block runs. Comments on
the lines before a block change that:
* `<!-- offline -->`: SQL for a service that no test can start; it is parsed, and planned as far as no server is needed.
* `<!-- error: SQ2342 -->`: SQL that fails with this code; a block after `<!-- output -->` shows the error.
* `<!-- file: pipeline.sql -->`: the block is the content of this file, and does not run.
* `<!-- on: postgres -->`, `<!-- on: mariadb -->`: SQL that runs on this server, and not in SinkQL.
* `<!-- spark -->`: SQL or Python that needs Spark. The page's test is then slow.
* `<!-- run -->`, `<!-- run: background -->`: shell commands that run; in the background until the page ends. The
  commands of a block with an output run too. Of other commands, only the names of commands and options are checked.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sinkql
from docs.page_text import ROOT, Block, Line, Page
from docs.servers import Servers
from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session
from sinkql.shell.background import Background
from sinkql.shell.command.command_list import BY_NAME
from sinkql.shell.screen.screen import Screen
from sinkql.shell.setting import Settings
from sinkql.shell.shell import Shell
from support import forked
from support.patience import PATIENCE_S

MARKS = frozenset({"offline", "error", "output", "file", "on", "spark", "run", "setup"})
"""The comments with a meaning; a comment with another first word is an ordinary comment."""
_REMOTE = ("SQ4", "SQ2801", "SQ2481")
"""Prefixes of codes that planning without a server may fail with: the environment, unknown tables and columns."""


_ENDING_S = 60
"""Seconds that a background command may take to end before it is killed."""


class NeedsSparkError(Exception):
    """A statement that only Spark can run, on a page that does not say so."""


def needs_spark(page: Page) -> bool:
    """Return whether the test of a page is slow, because it starts Spark or commands."""
    return any(
        block.mark("spark") is not None
        or block.mark("run") is not None
        or (block.language == "sh" and block.output is not None)
        for block in page.blocks
    )


def runs(block: Block) -> bool:
    """Return whether a block runs or is written to a file."""
    if block.mark("file") is not None:
        return True
    if block.language == "sh":
        return block.mark("run") is not None or block.output is not None
    return block.language in ("sql", "python") or block.mark("on") is not None


def commands(page: Page) -> list[Line]:
    """Return the SinkQL commands of a page, in its shell blocks and in its text."""
    found = [
        Line(match[1].strip(), number)
        for number, line in enumerate(page.text.split("\n"), 1)
        for match in re.finditer(r"`(sinkql [a-z-][^`]*)`", line)
    ]
    for block in page.blocks:
        if block.language == "sh":
            for number, line in enumerate(block.text.split("\n"), block.line):
                match = re.search(r"(?:^|[(|;&] *)(?:\w+=\S+ +)*(sinkql [^#|>)&;]+)", line)
                if match is not None:
                    found.append(Line(match[1].removesuffix("\\").strip(), number))
    return found


@dataclass
class Runner:
    """Runs the blocks of a page in the working folder, with the servers of its setups."""

    page: Page
    servers: Servers = field(default_factory=Servers)
    _planned: str = ""
    _python: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self) -> None:
        """Run all blocks; raise AssertionError with the page's line if a block does not do what the page says."""
        with ExitStack() as stack:
            session = stack.enter_context(Session())
            if not needs_spark(self.page):
                stack.enter_context(_without_spark())
            self._prepare(session)
            for block in self.page.blocks:
                if not runs(block):
                    continue
                try:
                    printed = self._run(block, session, stack)
                except AssertionError as error:
                    raise AssertionError(f"{self.page.place(block.line)}: {error}") from None
                except Exception as error:
                    raise AssertionError(f"{self.page.place(block.line)}: the block fails.\n{_told(error)}") from error
                if block.output is not None:
                    self._compare(block.output, printed)

    def _prepare(self, session: Session) -> None:
        text = self.servers.here(self.page.setups.get("sinkql", ""))
        try:
            for statement in parse(text, session.catalog.registry.keywords):
                _answer(session, statement, text)
                self._planned += f"{text[statement.span.start : statement.span.end].strip().rstrip(';')};\n"
        except SinkqlError as error:
            raise AssertionError(f"{self.page.path}: <!-- setup: sinkql --> fails.\n{_told(error)}") from error

    def _run(self, block: Block, session: Session, stack: ExitStack) -> tuple[str, ...]:
        """Run a block, and return the texts that count as its output."""
        text = self.servers.here(block.text)
        name = block.mark("file")
        if name is not None:
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return ()
        server = block.mark("on")
        if server is not None:
            assert server in self.servers.sql, f"write <!-- setup: {server} --> below the title"
            self.servers.sql[server](text)
            return ()
        match block.language:
            case "sql":
                return self._sql(block, text, session)
            case "python":
                return (self._exec(text),)
            case _:
                return self._sh(block, text, stack)

    def _sql(self, block: Block, text: str, session: Session) -> tuple[str, ...]:
        if block.mark("offline") is not None:
            self._plan(text)
            return ()
        code = block.mark("error")
        printed: list[str] = []
        try:
            for statement in parse(text, session.catalog.registry.keywords):
                printed.append(_answer(session, statement, text))
                self._planned += f"{text[statement.span.start : statement.span.end].strip().rstrip(';')};\n"
        except SinkqlError as error:
            shown = error.within(path=None, text=text).shown() if error.text is None else error.shown()
            if error.code != code:
                told = "" if code is None else f" with {error.code}, and not with {code}"
                raise AssertionError(f"the block fails{told}.\n{self.servers.there(_told(error))}") from error
            return shown, "".join(printed) + shown
        assert code is None, f"the block runs, and does not fail with {code}"
        return "".join(printed), *printed[-1:]

    def _plan(self, text: str) -> None:
        """Parse a block, and plan it after all blocks before it, or alone; only a server may be missing."""
        parse(text)
        errors = []
        for before in (self._planned, ""):
            try:
                sinkql.compile(before + text)
            except SinkqlError as error:
                errors.append(error)
            else:
                self._planned = before + text
                return
        if not any(error.code.startswith(_REMOTE) for error in errors):
            raise errors[0]

    def _exec(self, text: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, self.page.path, "exec"), self._python)
        return printed.getvalue()

    def _sh(self, block: Block, text: str, stack: ExitStack) -> tuple[str, ...]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
        environment["PATH"] = f"{_programs()}:{environment['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", text]
        if block.mark("run") == "background":
            stack.enter_context(_background(command, environment))
            return ()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        shown = done.stdout + done.stderr
        fails = block.mark("error") is not None
        assert (done.returncode != 0) == fails, f"the commands end with {done.returncode}.\n{self.servers.there(shown)}"
        if fails:
            assert f"[{block.mark('error')}]" in shown, f"no {block.mark('error')} in what the commands print:\n{shown}"
        return shown, done.stdout, done.stderr

    def _compare(self, expected: Block, printed: tuple[str, ...]) -> None:
        outputs = [self.servers.there(each) for each in printed]
        if not any(prints(each, expected.text) for each in outputs):
            place = self.page.place(expected.line)
            shown = outputs[0] if outputs else ""
            raise AssertionError(
                f"{place}: the block prints something else:\n{shown}\nThe page shows:\n{expected.text}"
            )


def prints(printed: str, expected: str) -> bool:
    """Return whether an output is as expected; `…` stands for any text in a line, and alone in a line for any lines."""
    lines = []
    for line in _trimmed(expected):
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append("[^\n]*?".join(re.escape(part) for part in line.split("…")) + r"\n")
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _trimmed(printed))) is not None


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def _answer(session: Session, statement: ast.Statement, text: str) -> str:
    """Run a statement as `sinkql shell` does, and return its output.

    On a page without `<!-- spark -->`, a statement that needs Spark is only planned.
    """
    settings = Settings(expanded="off")
    screen = Screen(settings, interactive=False)
    background = Background(session.catalog.database.address, lambda _: None)
    shell = Shell(session, screen, settings, background, BY_NAME)
    given = text[statement.span.start : statement.span.end]
    planned = _planned(statement)
    if isinstance(statement, ast.Subscribe):  # it never ends
        session.execute(f"EXPLAIN PHYSICAL PLAN FOR {given}")
        return ""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
        try:
            shell.statement(given, sinkql.errors.Span(0, len(given)))
        except NeedsSparkError:
            assert planned is not None, f"only Spark runs this: write <!-- spark --> before the block.\n{given}"
            session.execute(planned)
            return f"(only Spark runs this: write <!-- spark --> before the block, and what it prints)\n{planned}\n"
    return printed.getvalue()


def _planned(statement: ast.Statement) -> str | None:
    """Return a statement that only plans this statement, if running it would start Spark; else None."""
    match statement:
        case ast.Select(query=query):
            return f"EXPLAIN RAW PLAN FOR {query.text}"
        case ast.Insert(query=ast.Query(text=text)):
            return f"EXPLAIN RAW PLAN FOR {text}"
        case _:
            return None


@contextmanager
def _without_spark() -> Iterator[None]:
    """Make a query that needs Spark fail before Spark starts."""

    def refuse(_: Session) -> None:
        raise NeedsSparkError

    with patch.object(Session, "spark", property(refuse)):
        yield


@contextmanager
def _background(command: list[str], environment: Mapping[str, str]) -> Iterator[None]:
    with open("background.log", "ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _programs() -> Path:
    """Return the folder `.programs` in the working folder, with the commands that pages use."""
    folder = Path(".programs").resolve()
    if not folder.is_dir():
        folder.mkdir()
        sinkql = forked.command() if forked.can_fork(os.environ) else (sys.executable, "-m", "sinkql")
        python = (sys.executable,)
        programs = {"sinkql": sinkql, "pytest": (*python, "-m", "pytest"), "python": python, "python3": python}
        for name, command in programs.items():
            (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            (folder / name).chmod(0o755)
    return folder


def _told(error: Exception) -> str:
    if isinstance(error, SinkqlError) and error.code in ("SQ2001", "SQ2202"):
        return f"{error.shown()}\nWhat is there before the first block: <!-- setup: … -->, see tests/docs/servers.py."
    return error.shown() if isinstance(error, SinkqlError) else "".join(traceback.format_exception(error))
