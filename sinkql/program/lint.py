"""Find the errors and likely errors of a script without a catalog file, network or Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import discover
from sinkql.errors import MissingError, Notice, SinkqlError, Span, UnaskedError, line_and_column, too_deep
from sinkql.lowering.job import lower
from sinkql.parser import parse_each
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme
from sinkql.planner.edit.transaction import not_ended
from sinkql.planner.item.sink import expand
from sinkql.planner.item.statement import item_name, kind_of, name_span, own_name
from sinkql.planner.name import short_name
from sinkql.program.compiler import Compiler
from sinkql.script.redaction import Masked, mask
from sinkql.statement.in_memory import RowsNotice

Level = Literal["error", "warning"]

_CREATE_WORDS = frozenset(
    {"SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "SINK", "SCHEMA", "DATABASE", "IF", "NOT", "EXISTS"}
)
"""The words between CREATE and the name of the item."""
_SHORT_INTERVAL = timedelta(seconds=5)
_USABLE_KINDS = ("SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or likely error, with its place in the script."""

    level: Level
    error: SinkqlError


def lint(text: str, path: str | None = None) -> tuple[Finding, ...]:
    """Return the findings of a script in the order of the text.

    The errors are the same as in a run against an empty catalog, without errors of rows, files and servers. After an
    error, the next statement is checked. Errors that only result from an earlier error are omitted. Warnings: SQ2701 (a
    secret in plain text), SQ2702 (SELECT *), SQ2703 (many small commits), SQ2704 (unused item).
    """
    registry = discover()
    linter = Linter(mask(text, registry.keywords), path, Compiler(registry, {}))
    for statement in parse_each(text, registry.keywords):
        linter.check(statement)
    linter.finish()
    if not linter.failed:
        linter.note_unused()
    return linter.sorted_findings()


@dataclass(frozen=True, slots=True)
class CreationSite:
    """The place in a script that creates an item."""

    path: str | None
    text: str
    span: Span

    @property
    def place(self) -> str:
        line, column = line_and_column(self.text, self.span.start)
        return f"{self.path}:{line}:{column}"


class Linter:
    """A linter that receives the statements of a script in order and collects `findings`.

    The compiler may have items of other scripts, whose sites are `earlier_sites`. `failed` has the names of items that
    other scripts fail to create. `tables_unknown` means that they have a source whose tables only its server knows.
    `missing` is called with the error of a missing item. If it raises, `check` raises the same error without effects.
    """

    def __init__(
        self,
        masked: Masked,
        path: str | None,
        compiler: Compiler,
        *,
        earlier_sites: Mapping[str, CreationSite] | None = None,
        failed: Iterable[str] = (),
        tables_unknown: bool = False,
        missing: Callable[[MissingError], None] = lambda error: None,
    ) -> None:
        self.findings: list[Finding] = []
        self.failed = set(failed)
        self.tables_unknown = tables_unknown
        self.sites: dict[str, CreationSite] = {}
        self._masked = masked
        self._path = path
        self._compiler = compiler
        self._earlier_sites = earlier_sites or {}
        self._missing = missing

    def sorted_findings(self) -> tuple[Finding, ...]:
        """Return the findings in the order of the text."""
        end = len(self._masked.text)
        return tuple(sorted(self.findings, key=lambda finding: finding.error.span.start if finding.error.span else end))

    def check(self, statement: ast.Statement | SinkqlError) -> None:
        if isinstance(statement, SinkqlError):
            name = self.created_name(statement)
            self.failed |= {name} if name is not None else set()
            self._add("error", statement)
            return
        notice_count, earlier = len(self._compiler.notices), self._earlier_site(statement)
        try:
            self._compiler.compile_statement(statement)
            self._check_jobs(statement)
        except SinkqlError as error:
            if isinstance(error, MissingError):
                self._missing(error)
            error.span = error.span or statement.span
            if earlier is not None:
                error.detail = "\n".join(
                    detail for detail in (f"it is created at {earlier.place}", error.detail) if detail
                )
            self._warn(statement)
            self._fail(statement, error)
            return
        except RecursionError:
            self._warn(statement)
            self._fail(statement, too_deep(statement.span))
            return
        self._warn(statement)
        if earlier is None:
            for notice in self._compiler.notices[notice_count:]:
                if not isinstance(notice, RowsNotice):  # a linter never changes rows
                    self._add("warning", _as_error(notice, statement))
        elif isinstance(statement, ast.Create) and not statement.if_not_exists:
            self._add("warning", _duplicate_warning(statement, earlier))
        if isinstance(statement, ast.Create) and statement.name is not None:  # an index may have no name
            full_name = item_name(statement, self._compiler.catalog)
            if full_name not in self._earlier_sites:
                self.sites.setdefault(full_name, CreationSite(self._path, self._masked.text, statement.name.span))
            self._warn_commit_interval(statement, full_name)

    def _warn(self, statement: ast.Statement) -> None:
        for warning in _warnings(statement):
            self._add("warning", warning)

    def _earlier_site(self, statement: ast.Statement) -> CreationSite | None:
        """Return where another script creates the item of a statement, None if no script does."""
        if not isinstance(statement, ast.Create) or statement.name is None:
            return None
        with suppress(SinkqlError):  # compiling the statement raises it as well
            full_name = item_name(statement, self._compiler.catalog)
            return self._earlier_sites.get(full_name) if self._compiler.catalog.has(full_name) else None
        return None

    def _check_jobs(self, statement: ast.Statement) -> None:
        """Raise the errors of the jobs of new sinks."""
        plans = self._compiler.catalog
        sinks = expand(statement, plans) if isinstance(statement, ast.CreateSinks) else (statement,)
        for sink in sinks:
            if isinstance(sink, ast.CreateSink):
                lower(item_name(sink, plans), plans)

    def finish(self) -> None:
        """Add the findings that concern the whole script."""
        if self._compiler.before is not None:
            self._add("error", not_ended())

    def created_name(self, error: SinkqlError) -> str | None:
        """Return the name that a statement with a syntax error seems to create."""
        if error.span is None:
            return None
        statement: list[Lexeme] = []
        with suppress(SinkqlError):  # the readable part is enough
            for lexeme in lexer.scan(self._masked.text):
                if lexeme.kind == ";" and lexeme.start < error.span.start:
                    statement.clear()
                elif lexeme.kind == ";":
                    break
                else:
                    statement.append(lexeme)
        return _name_after_create(statement)

    def _warn_commit_interval(self, statement: ast.Create, full_name: str) -> None:
        """Warn about a sink whose frequent commits make its table slow."""
        sink = self._compiler.catalog.item(full_name)
        if not isinstance(sink, logical.Sink) or not isinstance(statement, ast.CreateSink):
            return
        if sink.commit_interval >= _SHORT_INTERVAL:
            return
        span = next(
            (option.span for option in statement.with_options if option.name == "COMMIT INTERVAL"), statement.span
        )
        message = f"a commit every {sink.commit_interval.total_seconds():g} s makes many small files"
        hint = "Use 5 seconds or more if possible, because a table of many small files is slow to read."
        self._add("warning", SinkqlError("SQ2703", message, span, hint=hint))

    def note_unused(self, catalog: MemoryCatalog | None = None) -> None:
        """Warn about unused items if the catalog has sinks. A script without sinks may be part of a larger one."""
        catalog = catalog or self._compiler.catalog
        if not catalog.names("SINK"):
            return
        for name, site in self.sites.items():
            span, entry = site.span, catalog.entry(name)
            if entry is not None and entry.kind in _USABLE_KINDS and not _is_used(name, catalog):
                short = short_name(name, catalog)
                message = f'nothing uses {entry.kind.lower()} "{short}"'
                self._add(
                    "warning", SinkqlError("SQ2704", message, span, hint="Remove it, or create a sink that reads it.")
                )

    def _fail(self, statement: ast.Statement, error: SinkqlError) -> None:
        """Add an error, unless it results from an earlier error or only an external system can confirm it."""
        if isinstance(statement, ast.Create) and statement.name is not None:
            name = statement.name
            self.failed.add(name.value if isinstance(name, ast.Ident) else name.parts[-1].value)
        if isinstance(statement, ast.CreateSource) and statement.subsources is not None:
            tables = statement.subsources.references
            self.failed |= {(table.name or table.upstream).parts[-1].value for table in tables}
            self.tables_unknown |= not tables
        if not isinstance(error, UnaskedError) and not self._is_unknown(error):
            self._add("error", error)

    def _is_unknown(self, error: SinkqlError) -> bool:
        """Return whether the missing item of an error failed before, or may be a table of a server."""
        if not isinstance(error, MissingError):
            return False
        return error.name in self.failed or (self.tables_unknown and error.message.startswith("relation "))

    def _add(self, level: Level, error: SinkqlError) -> None:
        covered = self._masked.cover(error.within(path=self._path, text=self._masked.text))
        self.findings.append(Finding(level, covered))


def _is_used(name: str, catalog: MemoryCatalog) -> bool:
    if catalog.dependents(name):
        return True
    items = (catalog.item(user) for kind in ("SINK", "SOURCE", "MATERIALIZED VIEW") for user in catalog.names(kind))
    return any(isinstance(item, logical.Sink) and item.cluster == name for item in items)


def _duplicate_warning(statement: ast.Create, site: CreationSite) -> SinkqlError:
    kind, name = kind_of(statement).lower(), own_name(statement)
    return SinkqlError(
        "SQ2770",
        f'{kind} "{short_name(name)}" is also created at {site.place}',
        name_span(statement),
        hint="Remove one of them.",
    )


def _as_error(notice: Notice, statement: ast.Statement) -> SinkqlError:
    return SinkqlError(notice.code, notice.message, notice.span or statement.span, hint=notice.hint)


def _warnings(statement: ast.Statement) -> Iterator[SinkqlError]:
    """Yield the likely errors that a single statement shows."""
    match statement:
        case ast.CreateSecret(value=value) if not isinstance(value, ast.Call):
            hint = "Use AS env_var('NAME') or AS file('path'), or run sinkql secret set NAME."
            yield SinkqlError("SQ2701", "the value of a secret is in the script", value.span, hint=hint)
        case ast.CreateView(materialized=True, query=query):
            star = _star(query)
            if star is not None:
                hint = "List the columns. Otherwise a new column of the source changes the view."
                yield SinkqlError("SQ2702", "SELECT * in a materialized view", star, hint=hint)
        case _:
            return


def _name_after_create(lexemes: Sequence[Lexeme]) -> str | None:
    """Return the last part of the name in a CREATE statement."""
    places = range(1, len(lexemes))
    index = next(
        (i for i in places if lexemes[i - 1].keyword in _CREATE_WORDS and lexemes[i].keyword not in _CREATE_WORDS), None
    )
    if index is None:
        return None
    while index + 2 < len(lexemes) and lexemes[index + 1].kind == ".":
        index += 2
    return lexemes[index].value


def _star(query: ast.Query) -> Span | None:
    """Return the span of `*` in the outermost SELECT."""
    try:
        tree = sqlglot.parse_one(query.text, read="materialize")
    except SqlglotError:
        return None  # the planner reports the error
    if not isinstance(tree, exp.Query) or not any(select.is_star for select in tree.selects):
        return None
    for before, lexeme in pairwise(lexer.scan(query.text)):
        if lexeme.kind == "*" and (before.kind in (",", ".") or before.keyword in ("SELECT", "DISTINCT", "ALL")):
            return lexeme.span.shifted(query.span.start)
    return query.span
