"""All golden scripts through lint and through a session: each statement fails in both or in neither, with one error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from golden.casefile import read
from golden.planning import with_odd_types
from golden.test_golden import FILES
from sinkql.connector_api.planning import SourceKind
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.program.lint import lint
from sinkql.script.redaction import mask
from sinkql.session import Session
from support.keywords import WORDS

pytestmark = [pytest.mark.long, pytest.mark.share(3)]

_EXECUTED = ("exec", "plan", "session")
_NO_ANSWER = ("SQ4223", "SQ4270")
_OF_ROWS = (*_NO_ANSWER, "SQ2481", "SQ2801", "SQ2405", "SQ2420", "SQ2421", "SQ2422", "SQ3201", "SQ3522")
"""Errors that depend on rows, tables or other systems; lint cannot report them."""


class _SparkNeededError(Exception):
    """Raised by a statement that is correct and needs Spark."""


class _PlainSession(Session):
    @property
    def spark(self) -> object:  # type: ignore[override]  # always raises
        raise _SparkNeededError


@dataclass(frozen=True)
class _Ran:
    """A statement that ran, the place of its text in the script, and its error."""

    start: int
    end: int
    error: SinkqlError | None


def _without_outside(registry: Registry) -> Registry:
    """Return a registry whose connections are always valid and whose tables do not exist."""
    connections = {
        name: replace(kind, validate=None if kind.validate is None else lambda connection, access: None)
        for name, kind in registry.connections.items()
    }
    sinks = {name: replace(kind, facts=None) for name, kind in registry.sinks.items()}
    sources = {
        name: replace(kind, facts=_answered(kind.facts), sample=_unasked(kind))
        for name, kind in registry.sources.items()
    }
    return replace(registry, connections=connections, sinks=sinks, sources=sources)


def _unasked(kind: SourceKind) -> Callable[..., Any] | None:
    """Return a function that samples a source without asking a server for tables or a registry for columns."""
    sample = kind.sample
    if sample is None or (kind.table is None and not kind.messages):
        return sample
    return lambda statement, planning, access: sample(statement, planning, None)


def _answered(facts: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function that finds a source's facts, or no facts if another machine does not answer."""

    def ask(*arguments: Any) -> Any:
        try:
            return facts(*arguments) if facts is not None else {}
        except SinkqlError as error:
            if error.code not in _NO_ANSWER:
                raise
            return {}

    return ask if facts is not None else None


def _scripts(path: Path) -> Iterator[str]:
    for case in read(path.read_text("utf-8"))[0]:
        if case.command.split()[0] in _EXECUTED:
            yield case.input


def _run(path: Path, folder: Path, registry: Registry) -> tuple[str, list[_Ran]]:
    """Run a file's statements, each case up to its first error; return them as one script, with how each ended."""
    text, ran = "", []
    with _PlainSession(folder / "catalog.db", registry=registry) as session:
        for script in _scripts(path):
            try:
                statements = parse(script, WORDS)
            except SinkqlError:
                continue
            for statement in statements:
                written = script[statement.span.start : statement.span.end] + ";\n"
                error = None
                (again,) = parse(" " * len(text) + written, WORDS)
                try:
                    session.run_statement(again)
                except SinkqlError as raised:
                    error = raised
                except _SparkNeededError:
                    pass
                ran.append(_Ran(len(text), len(text) + len(written), error))
                text += written
                if error is not None:
                    break
            if session.transaction is not None:
                session.execute("ROLLBACK")
                ran.append(_Ran(len(text), len(text) + 10, None))
                text += "ROLLBACK;\n"
    return text, ran


@pytest.mark.parametrize("path", [path for path in FILES if list(_scripts(path))], ids=lambda path: path.stem)
def test_a_statement_that_fails_in_a_session_fails_in_lint(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sinkql.connectors.kafka.admin._RECONNECT_S", 0.0)  # no broker comes back
    registry = _without_outside(with_odd_types(discover()))
    monkeypatch.setattr("sinkql.program.lint.discover", lambda: registry)
    monkeypatch.setattr("sinkql.session.item.create.validate_state", lambda *asked: None)
    text, ran = _run(path, tmp_path, registry)
    found = {each.error.span.start: each.error for each in lint(text) if each.level == "error" and each.error.span}
    masked = mask(text, WORDS)
    wrong = []
    for each in ran:
        here = next((error for place, error in sorted(found.items()) if each.start <= place < each.end), None)
        there = masked.cover(each.error) if each.error is not None else None
        if _told(here) != _told(there) and not (here is None and there is not None and there.code in _OF_ROWS):
            wrong.append(f"{text[each.start : each.end]}  session: {_told(there)}\n  lint: {_told(here)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_script_that_does_not_parse_is_told_as_a_session_tells_it(path: Path) -> None:
    wrong = []
    for case in read(path.read_text("utf-8"))[0]:
        try:
            parse(case.input, WORDS)
        except SinkqlError as error:
            told = _told(mask(case.input, WORDS).cover(error))
            if told not in [_told(each.error) for each in lint(case.input)]:
                wrong.append(f"{case.input}: {told}")
    assert not wrong, "\n".join(wrong)


def _told(error: SinkqlError | None) -> tuple[str, str, str | None] | None:
    return (error.code, error.message, error.hint) if error is not None else None
