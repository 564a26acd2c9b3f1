"""Compile SQL text and facts to items and jobs as data, without a catalog file, network or Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import Notice, SinkqlError, too_deep
from sinkql.explain import to_text
from sinkql.keywords import Keywords, OptionWords
from sinkql.lowering.job import lower
from sinkql.lowering.spark.query import job_sql
from sinkql.parser import parse
from sinkql.planner.edit import transaction
from sinkql.planner.item.source import sampled
from sinkql.planner.name import short_name
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import mask
from sinkql.statement.in_memory import InMemoryItems

FORMAT = 1
_EXPLAINED = ("VIEW", "MATERIALIZED VIEW", "SINK")


class CompiledItem(msgspec.Struct, frozen=True):
    """An item with its full name, kind (as in DROP) and canonical CREATE statement without secrets."""

    name: str
    kind: str
    sql: str


class _File(msgspec.Struct, frozen=True):
    sinkql: int
    items: tuple[CompiledItem, ...]
    jobs: tuple[msgspec.Raw, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled script: its items, and the jobs of its sinks.

    `notices` and `catalog`, which has the plans, are not part of the JSON form.
    """

    items: tuple[CompiledItem, ...]
    jobs: tuple[physical.Job, ...]
    notices: tuple[Notice, ...] = field(default=(), compare=False)
    catalog: MemoryCatalog | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> str:
        """Return the program as indented JSON, which `from_json` reads."""
        file = _File(FORMAT, self.items, tuple(msgspec.Raw(physical.encode(job)) for job in self.jobs))
        return msgspec.json.format(msgspec.json.encode(file), indent=2).decode()

    def explain(self, stage: str = "physical") -> list[tuple[str, str]]:
        """Return names and texts of a stage: for jobs in a physical stage, else for views and sinks."""
        if stage == "physical":
            return [(job.sink, to_text(job)) for job in self.jobs]
        if stage == "spark-sql":
            return [(job.sink, job_sql(job)) for job in self.jobs]
        if self.catalog is None:
            raise SinkqlError("SQ4012", f"a compiled program has no {stage} plans", hint="Explain the SQL itself.")
        entries = [entry for entry in self.catalog.entries() if entry.kind in _EXPLAINED]
        if stage == "raw":
            return [(entry.name, to_text(entry.statement)) for entry in entries]
        items = [(entry.name, self.catalog.item(entry.name)) for entry in entries]
        return [(name, to_text(item)) for name, item in items if item is not None]

    @classmethod
    def from_json(cls, text: str | bytes) -> Program:
        """Read a program. Raise SQ4011 if the text is not a compiled program."""
        try:
            file = codec.decoder(_File).decode(text)
            if file.sinkql != FORMAT:
                raise SinkqlError(
                    "SQ4011", f"the program has format {file.sinkql}, not {FORMAT}", hint="Compile the SQL again."
                )
            jobs = tuple(physical.decode(bytes(job)) for job in file.jobs)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SinkqlError(
                "SQ4011",
                "the file is not a compiled program",
                detail=str(error),
                hint="Make one with sinkql compile.",
            ) from error
        for job in jobs:
            changed_word = physical.meant_otherwise(job)
            if changed_word is not None:
                message = f'the program was compiled for another meaning of "{changed_word}"'
                raise SinkqlError("SQ4011", message, hint="Compile the SQL again.")
        return cls(file.items, jobs)


def compile_text(
    text: str,
    *,
    path: str | None = None,
    facts: Mapping[str, logical.Facts] | None = None,
    registry: Registry | None = None,
) -> Program:
    """Compile a text. `facts` has the facts of items by name; `path` names the text in errors."""
    connectors = registry if registry is not None else discover()
    try:
        compiler = Compiler(connectors, facts or {})
        for statement in parse(text, connectors.keywords):
            try:
                compiler.compile_statement(statement)
            except RecursionError:
                raise too_deep(statement.span) from None
        return compiler.program()
    except SinkqlError as error:
        masked = mask(text, connectors.keywords)
        raise masked.cover(error.within(path=path, text=masked.text)) from error.__cause__


class Compiler:
    """A compiler that receives statements in order and collects `notices`.

    `before` has the items from before an open transaction.
    """

    def __init__(self, registry: Registry, facts: Mapping[str, logical.Facts]) -> None:
        self.notices: list[Notice] = []
        self.before: MemoryCatalog | None = None
        self._items = InMemoryItems(MemoryCatalog(registry), self._facts_of)
        self._facts = facts
        self._modes: tuple[str, ...] = ()

    @property
    def catalog(self) -> MemoryCatalog:
        """Return the compiled items."""
        return self._items.plans

    @catalog.setter
    def catalog(self, catalog: MemoryCatalog) -> None:
        self._items.plans = catalog

    def compile_statement(self, statement: ast.Statement) -> None:
        """Compile a statement. A statement that only returns rows is checked, and has no effect."""
        if isinstance(statement, ast.Transaction):
            self._run_transaction(statement)
            return
        if self.before is not None:
            transaction.check_allowed(statement, self._modes)
        self.notices.extend(self._items.run(statement))

    def _run_transaction(self, statement: ast.Transaction) -> None:
        skipped = transaction.without_effect(statement, in_progress=self.before is not None)
        if skipped is not None:
            self.notices.append(skipped)
        elif statement.action == "BEGIN":
            self._modes, self.before = statement.modes, self.catalog.copy()
        elif statement.action == "SET":
            self._modes = statement.modes
        else:
            if statement.action == "ROLLBACK" and self.before is not None:
                self.catalog = self.before
            self.before = self.catalog.copy() if statement.chain else None

    def _facts_of(self, statement: ast.Create, name: str) -> logical.Facts:
        facts = self._facts.get(name) or self._facts.get(short_name(name)) or {}
        return facts or sampled(statement, Scope(self.catalog, self.catalog.registry))

    def program(self) -> Program:
        """Return the compiled items and jobs. Raise SQ2655 if a transaction is open."""
        if self.before is not None:
            raise transaction.not_ended()
        words = self.catalog.words
        items = tuple(
            CompiledItem(entry.name, entry.kind, to_sql(entry.statement, redacted=words))
            for entry in self.catalog.entries()
            if entry.id.startswith("u")
        )
        jobs = tuple(lower(name, self.catalog) for name in self.catalog.names("SINK"))
        for entry in self.catalog.entries():
            self.notices.extend(_plain_secrets(entry, words))
        return Program(items, jobs, tuple(self.notices), self.catalog)


def _plain_secrets(entry: logical.Entry, words: Keywords) -> Iterator[Notice]:
    """Yield a notice for each secret that is a literal, because jobs contain it as well."""
    statement = entry.statement
    if not isinstance(statement, ast.CreateConnection):
        return
    option_words = words.options("CONNECTION", statement.kind) or OptionWords()
    for option in statement.options:
        if option.name in option_words.secrets - option_words.paired and isinstance(option.value, ast.Text | ast.Word):
            yield Notice(
                "SQ4126",
                f'connection "{short_name(entry.name)}" has {option.name} as plain text, and so do its jobs',
                option.span,
                hint=f"Use {option.name} = SECRET name, or protect the jobs like the script.",
            )
