"""A script → all that is wrong with it, and what may turn out to be; with no catalog file, no network and no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.sqlite.database import Memory
from sinkql.catalog.system import LAYOUT
from sinkql.catalog.system.general import select_or_plan
from sinkql.catalog.system.item import SystemCatalog
from sinkql.catalog.system.query import select
from sinkql.catalog.system.show import LISTINGS, check_variable, checked_query, conditions_of
from sinkql.catalog.system.system_names import System, over_system
from sinkql.connector_api.registry import discover
from sinkql.errors import MissingError, Notice, SinkqlError, Span, UnaskedError, line_and_column, too_deep
from sinkql.lowering.explain import explained
from sinkql.lowering.job import lower
from sinkql.parser import parse_each
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme
from sinkql.planner.edit.transaction import not_ended
from sinkql.planner.item.connection import validation
from sinkql.planner.item.sink import expand
from sinkql.planner.item.statement import item_name, kind_of, own_name
from sinkql.planner.name import find_shown, short_name
from sinkql.planner.query.plan import plan_one_shot
from sinkql.planner.scope import Scope
from sinkql.planner.syntax.file_query import NamedFile, may_name_files, named_files
from sinkql.program.compiler import Compiler, RowsNotice
from sinkql.script.redaction import Masked, mask

Level = Literal["error", "warning"]

_CREATED = frozenset(
    {"SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "SINK", "SCHEMA", "DATABASE", "IF", "NOT", "EXISTS"}
)
"""The words of which the last one stands before the name that a CREATE gives."""
_SHORTEST = timedelta(seconds=5)
_UNUSED = ("SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, or what is probably one, with its place in the script."""

    level: Level
    error: SinkqlError


def lint(text: str, path: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of a script in the order of the text.

    Errors are those of running it against an empty catalog, as far as neither rows nor files nor another system tell.
    After a mistake it continues with the next statement; what fails only because of an earlier mistake is left out.
    Warnings: SQ2701 (a secret in the clear), SQ2702 (SELECT *), SQ2703 (many small commits), SQ2704 (nothing uses it).
    """
    registry = discover()
    linter = Linter(mask(text, registry.vocabulary), path, Compiler(registry, {}))
    for statement in parse_each(text, registry.vocabulary):
        linter.take(statement)
    linter.end()
    if not linter.failed:
        linter.note_unused()
    return linter.in_order()


@dataclass(frozen=True, slots=True)
class Made:
    """Where an item is created."""

    path: str | None
    text: str
    span: Span

    @property
    def place(self) -> str:
        line, column = line_and_column(self.text, self.span.start)
        return f"{self.path}:{line}:{column}"


class Linter:
    """Take the statements of a script in, one after the other; `findings` grow with them.

    The compiler may know items of other scripts, `known` where these are created; `failed` are names that other scripts
    fail to make, and with `tables_unknown` they have a source whose tables only its server tells. `missing` is called
    with what a statement misses, and may raise what `take` then does, as if it had not been called.
    """

    def __init__(
        self,
        masked: Masked,
        path: str | None,
        compiler: Compiler,
        *,
        known: Mapping[str, Made] | None = None,
        failed: Iterable[str] = (),
        tables_unknown: bool = False,
        missing: Callable[[MissingError], None] = lambda error: None,
    ) -> None:
        self.findings: list[Finding] = []
        self.failed = set(failed)
        self.tables_unknown = tables_unknown
        self.made: dict[str, Made] = {}
        self._masked = masked
        self._path = path
        self._compiler = compiler
        self._known = known or {}
        self._missing = missing

    def in_order(self) -> tuple[Finding, ...]:
        """Return the findings in the order of the text."""
        end = len(self._masked.text)
        return tuple(sorted(self.findings, key=lambda each: each.error.span.start if each.error.span else end))

    def take(self, statement: ast.Statement | SinkqlError) -> None:
        if isinstance(statement, SinkqlError):
            named = self.named(statement)
            self.failed |= {named} if named is not None else set()
            self._add("error", statement)
            return
        told, twice = len(self._compiler.notices), self._made_before(statement)
        try:
            self._compiler.run(statement)
            self._check(statement)
        except SinkqlError as error:
            if isinstance(error, MissingError):
                self._missing(error)
            error.span = error.span or statement.span
            if twice is not None:
                error.detail = "\n".join(each for each in (f"it is created at {twice.place}", error.detail) if each)
            self._warn(statement)
            self._fail(statement, error)
            return
        except RecursionError:
            self._warn(statement)
            self._fail(statement, too_deep(statement.span))
            return
        self._warn(statement)
        if twice is None:
            for notice in self._compiler.notices[told:]:
                if not isinstance(notice, RowsNotice):  # which goes without saying here
                    self._add("warning", _as_error(notice, statement))
        elif isinstance(statement, ast.Create) and not statement.if_not_exists:
            self._add("warning", _twice(statement, twice))
        if isinstance(statement, ast.Create) and statement.name is not None:  # else an index
            full_name = item_name(statement, self._compiler.catalog)
            if full_name not in self._known:
                self.made.setdefault(full_name, Made(self._path, self._masked.text, statement.name.span))
            self._pace(statement, full_name)

    def _warn(self, statement: ast.Statement) -> None:
        for warning in _warnings(statement):
            self._add("warning", warning)

    def _made_before(self, statement: ast.Statement) -> Made | None:
        """Return where another script creates the item that a statement creates, if it is there."""
        if not isinstance(statement, ast.Create) or statement.name is None:
            return None
        with suppress(SinkqlError):  # which running the statement raises too
            full_name = item_name(statement, self._compiler.catalog)
            return self._known.get(full_name) if self._compiler.catalog.has(full_name) else None
        return None

    def _check(self, statement: ast.Statement) -> None:
        """Raise what running a statement would, where taking it in needs no plan of it."""
        plans, registry = self._compiler.catalog, self._compiler.registry
        match statement:
            case ast.CreateSink():
                lower(item_name(statement, plans), plans)
            case ast.CreateSinks():
                for each in expand(statement, plans):
                    lower(item_name(each, plans), plans)
            case ast.Select(query=query):
                files = named_files(query, registry.scans) if may_name_files(query, registry.scans) else ()
                if files:
                    _check_connections(files, Scope(plans, registry))
                    return
                self._check_query(query)
            case ast.Explain():
                explained(statement, plans, registry, {})
            case ast.ShowCreate():
                find_shown(plans, statement)
            case ast.ValidateConnection():
                validation(statement, plans, registry)
            case ast.Show():
                self._show(statement)
            case ast.ShowVariable():
                check_variable(statement)
            case _:
                return

    def _check_query(self, query: ast.Query) -> None:
        plans, now = self._compiler.catalog, datetime.now(UTC).replace(tzinfo=None)
        match over_system(query, plans):
            case System.NONE:
                plan_one_shot(query, plans, now)
            case System.BESIDE:
                plan_one_shot(query, SystemCatalog(plans), now)
            case System.ALONE:
                select_or_plan(query, self._empty, plans, lambda: plan_one_shot(query, SystemCatalog(plans), now))

    def _show(self, statement: ast.Show) -> None:
        """Run the listing over nothing: its words, columns and functions are looked at all the same."""
        listing = LISTINGS[statement.kind]
        plans = self._compiler.catalog
        query = checked_query(statement, listing, list(conditions_of(statement, listing, plans)), plans)
        if statement.where is not None:
            select(query, self._empty, within=statement.where.span)

    @cached_property
    def _empty(self) -> Memory:
        return Memory.empty(LAYOUT)

    def end(self) -> None:
        """Say what only the whole script tells."""
        if self._compiler.before is not None:
            self._add("error", not_ended())

    def named(self, error: SinkqlError) -> str | None:
        """Return the name that a statement which does not parse seems to create."""
        if error.span is None:
            return None
        statement: list[Lexeme] = []
        with suppress(SinkqlError):  # what can be read of it is enough
            for lexeme in lexer.scan(self._masked.text):
                if lexeme.kind == ";" and lexeme.start < error.span.start:
                    statement.clear()
                elif lexeme.kind == ";":
                    break
                else:
                    statement.append(lexeme)
        return _created(statement)

    def _pace(self, statement: ast.Create, full_name: str) -> None:
        """Warn of a sink that commits so often that its table becomes slow."""
        sink = self._compiler.catalog.item(full_name)
        if not isinstance(sink, logical.Sink) or sink.commit_interval >= _SHORTEST:
            return
        assert isinstance(statement, ast.CreateSink)
        span = next((each.span for each in statement.with_options if each.name == "COMMIT INTERVAL"), statement.span)
        message = f"a commit every {sink.commit_interval.total_seconds():g} s makes many small files"
        hint = "Use 5 seconds or more if you can: a table of many small files is slow to read."
        self._add("warning", SinkqlError("SQ2703", message, span, hint=hint))

    def note_unused(self, catalog: MemoryCatalog | None = None) -> None:
        """Warn of what nothing uses, if the catalog has sinks: without one it is a part of something else."""
        catalog = catalog or self._compiler.catalog
        if not catalog.names("SINK"):
            return
        for name, made in self.made.items():
            span, entry = made.span, catalog.entry(name)
            if entry is not None and entry.kind in _UNUSED and not _used(name, catalog):
                short = short_name(name, catalog)
                message = f'nothing uses {entry.kind.lower()} "{short}"'
                self._add(
                    "warning", SinkqlError("SQ2704", message, span, hint="Remove it, or create a sink that reads it.")
                )

    def _fail(self, statement: ast.Statement, error: SinkqlError) -> None:
        """Note a mistake, unless what it misses failed itself, or only another system can tell."""
        if isinstance(statement, ast.Create) and statement.name is not None:
            name = statement.name
            self.failed.add(name.value if isinstance(name, ast.Ident) else name.parts[-1].value)
        if isinstance(statement, ast.CreateSource) and statement.subsources is not None:
            tables = statement.subsources.references
            self.failed |= {(each.name or each.upstream).parts[-1].value for each in tables}
            self.tables_unknown |= not tables
        if not isinstance(error, UnaskedError) and not self._unknown(error):
            self._add("error", error)

    def _unknown(self, error: SinkqlError) -> bool:
        """Tell whether what an error misses failed itself, or may be one of the tables that a server has."""
        if not isinstance(error, MissingError):
            return False
        return error.name in self.failed or (self.tables_unknown and error.message.startswith("relation "))

    def _add(self, level: Level, error: SinkqlError) -> None:
        covered = self._masked.cover(error.within(path=self._path, text=self._masked.text))
        self.findings.append(Finding(level, covered))


def _used(name: str, catalog: MemoryCatalog) -> bool:
    if catalog.dependents(name):
        return True
    items = (catalog.item(each) for kind in ("SINK", "SOURCE", "MATERIALIZED VIEW") for each in catalog.names(kind))
    return any(isinstance(item, logical.Sink) and item.cluster == name for item in items)


def _twice(statement: ast.Create, made: Made) -> SinkqlError:
    assert statement.name is not None
    kind, name = kind_of(statement).lower(), own_name(statement)
    return SinkqlError(
        "SQ2770",
        f'{kind} "{short_name(name)}" is created at {made.place} too',
        statement.name.span,
        hint="Leave one of them out.",
    )


def _as_error(notice: Notice, statement: ast.Statement) -> SinkqlError:
    return SinkqlError(notice.code, notice.message, notice.span or statement.span, hint=notice.hint)


def _check_connections(files: Iterable[NamedFile], scope: Scope) -> None:
    for file in files:
        if file.connection is not None and file.function is not None:
            scope.connection(file.connection, scope.registry.scans[file.function].connection)


def _warnings(statement: ast.Statement) -> Iterator[SinkqlError]:
    """Yield what may turn out to be a mistake, by the statement alone."""
    match statement:
        case ast.CreateSecret(value=value) if not isinstance(value, ast.Call):
            hint = "Write AS env_var('NAME') or AS file('path'), or run sinkql secret set NAME."
            yield SinkqlError("SQ2701", "the value of a secret is in the script", value.span, hint=hint)
        case ast.CreateView(materialized=True, query=query):
            star = _star(query)
            if star is not None:
                hint = "List the columns: otherwise a new column of the source changes the view."
                yield SinkqlError("SQ2702", "SELECT * in a materialized view", star, hint=hint)
        case _:
            return


def _created(lexemes: Sequence[Lexeme]) -> str | None:
    """Return the last part of the name that follows the first words of a CREATE."""
    places = range(1, len(lexemes))
    at = next((i for i in places if lexemes[i - 1].keyword in _CREATED and lexemes[i].keyword not in _CREATED), None)
    if at is None:
        return None
    while at + 2 < len(lexemes) and lexemes[at + 1].kind == ".":
        at += 2
    return lexemes[at].value


def _star(query: ast.Query) -> Span | None:
    """Return where the outermost SELECT says `*`."""
    try:
        tree = sqlglot.parse_one(query.text, read="materialize")
    except SqlglotError:
        return None  # the planner says what is wrong
    if not isinstance(tree, exp.Query) or not any(each.is_star for each in tree.selects):
        return None
    for before, lexeme in pairwise(lexer.scan(query.text)):
        if lexeme.kind == "*" and (before.kind in (",", ".") or before.keyword in ("SELECT", "DISTINCT", "ALL")):
            return lexeme.span.shifted(query.span.start)
    return query.span
