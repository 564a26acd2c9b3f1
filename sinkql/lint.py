"""A script → all that is wrong with it, and what may turn out to be; with no catalog file, no network and no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sinkql import ast, logical
from sinkql.connector.registry import discover
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.mask import Masked, mask
from sinkql.parser import parse_each
from sinkql.planner.name import short_name
from sinkql.planner.statement import item_name
from sinkql.program import Compiler

Level = Literal["error", "warning"]

_MISSING = ("SQ2001", "SQ2004", "SQ2202", "SQ2313")
_STAR = re.compile(r"(?i)\bselect\s+(?:distinct\s+)?\*|,\s*\*|\.\*")
_CREATED = re.compile(
    r"(?i)\s(?:SECRET|CONNECTION|CLUSTER|SOURCE|TABLE|VIEW|SINK|SCHEMA|DATABASE)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"]+)"
)
_SHORTEST = timedelta(seconds=5)
_UNUSED = ("SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one thing that is or may be wrong, as an error with its place in the script."""

    level: Level
    error: SinkqlError


def lint(text: str, path: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of a script in the order of the text.

    After a mistake it goes on with the next statement; what fails only because of an earlier mistake is left out.
    Warnings: SQ2701 (a secret in the clear), SQ2702 (SELECT *), SQ2703 (many small commits), SQ2704 (nothing uses it).
    """
    linter = _Linter(mask(text), path)
    for statement in parse_each(text):
        linter.take(statement)
    linter.unused()
    return tuple(sorted(linter.findings, key=lambda each: each.error.span.start if each.error.span else len(text)))


class _Linter:
    def __init__(self, masked: Masked, path: str | None) -> None:
        self.findings: list[Finding] = []
        self._masked = masked
        self._path = path
        self._compiler = Compiler(discover(), {})
        self._failed: set[str] = set()
        self._made: dict[str, Span] = {}

    def take(self, statement: ast.Statement | SinkqlError) -> None:
        if isinstance(statement, SinkqlError):
            self._failed.update(self._named(statement))
            self._add("error", statement)
            return
        for warning in _warnings(statement):
            self._add("warning", warning)
        told = len(self._compiler.notices)
        try:
            self._compiler.run(statement)
        except SinkqlError as error:
            self._fail(statement, error)
            return
        for notice in self._compiler.notices[told:]:
            self._add("warning", _as_error(notice, statement))
        if isinstance(statement, ast.Create):
            name = statement.name
            assert name is not None
            full_name = item_name(statement, self._compiler.catalog)
            self._made.setdefault(full_name, name.span)
            self._pace(statement, full_name)

    def _named(self, error: SinkqlError) -> tuple[str, ...]:
        """Return the name that a statement which does not parse seems to make."""
        if error.span is None:
            return ()
        start = self._masked.text.rfind(";", 0, error.span.start) + 1
        found = _CREATED.search(self._masked.text, start)
        return (found[1].rpartition(".")[2].strip('"').lower(),) if found is not None else ()

    def _pace(self, statement: ast.Create, full_name: str) -> None:
        """Warn of a sink that commits so often that its table becomes slow."""
        sink = self._compiler.catalog.item(full_name)
        if not isinstance(sink, logical.Sink) or sink.commit_interval >= _SHORTEST:
            return
        assert isinstance(statement, ast.CreateSink)
        span = next((each.span for each in statement.with_options if each.name == "COMMIT INTERVAL"), statement.span)
        message = f"a commit each {sink.commit_interval.total_seconds():g} s makes many small files"
        hint = "Use 5 seconds or more where that will do: a table of many small files is slow to read."
        self._add("warning", SinkqlError("SQ2703", message, span, hint=hint))

    def unused(self) -> None:
        """Warn of what nothing uses, if the script has sinks: without one it is a part of something else."""
        catalog = self._compiler.catalog
        if not catalog.names("SINK") or self._failed:
            return
        for name, span in self._made.items():
            entry = catalog.entry(name)
            if entry is not None and entry.kind in _UNUSED and not self._users(name):
                short = short_name(name, catalog)
                message = f'nothing uses {entry.kind.lower()} "{short}"'
                self._add("warning", SinkqlError("SQ2704", message, span, hint="Leave it out, or write a sink of it."))

    def _users(self, name: str) -> bool:
        catalog = self._compiler.catalog
        if catalog.dependents(name):
            return True
        items = (catalog.item(each) for kind in ("SINK", "SOURCE", "MATERIALIZED VIEW") for each in catalog.names(kind))
        return any(isinstance(item, logical.Sink) and item.cluster == name for item in items)

    def _fail(self, statement: ast.Statement, error: SinkqlError) -> None:
        """Note a mistake, unless what it misses failed itself."""
        if isinstance(statement, ast.Create) and statement.name is not None:
            name = statement.name
            self._failed.add(name.value if isinstance(name, ast.Ident) else name.parts[-1].value)
        if error.code not in _MISSING or not any(f'"{name}"' in error.message for name in self._failed):
            self._add("error", error)

    def _add(self, level: Level, error: SinkqlError) -> None:
        covered = self._masked.cover(error.within(path=self._path, text=self._masked.text))
        self.findings.append(Finding(level, covered))


def _as_error(notice: Notice, statement: ast.Statement) -> SinkqlError:
    return SinkqlError(notice.code, notice.message, notice.span or statement.span, hint=notice.hint)


def _warnings(statement: ast.Statement) -> Iterator[SinkqlError]:
    """Yield what may turn out to be a mistake, by the statement alone."""
    match statement:
        case ast.CreateSecret(value=value) if not isinstance(value, ast.Call):
            hint = "Write AS env_var('NAME') or AS file('path'), or run sinkql secret set."
            yield SinkqlError("SQ2701", "the value of a secret is in the script", value.span, hint=hint)
        case ast.CreateView(materialized=True, query=query):
            star = _star(query)
            if star is not None:
                hint = "Name the columns: a source that gets another one changes the view."
                yield SinkqlError("SQ2702", "SELECT * in a materialized view", star, hint=hint)
        case _:
            return


def _star(query: ast.Query) -> Span | None:
    """Return where the outermost SELECT says `*`."""
    try:
        tree = sqlglot.parse_one(query.text, read="materialize")
    except SqlglotError:
        return None  # the planner says what is wrong
    if not isinstance(tree, exp.Query) or not any(isinstance(each, exp.Star) for each in tree.selects):
        return None
    found = _STAR.search(query.text)
    end = query.span.start + (found.end() if found is not None else 1)
    return Span(end - 1, end)
