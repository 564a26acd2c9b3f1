"""Compile SQL text and facts to items and jobs as data, without a catalog file, network or Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import identity, means_the_same, redefine
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import Notice, SinkqlError, too_deep
from sinkql.explain import to_text
from sinkql.keywords import Keywords, OptionWords
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import check_index
from sinkql.lowering.spark.query import job_sql
from sinkql.parser import parse
from sinkql.planner import plan_change, plan_drop
from sinkql.planner.edit import transaction
from sinkql.planner.edit.alter import find_published, plan_alter
from sinkql.planner.edit.drop import check_targets
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.edit.rename import find_altered, find_commented, plan_rename
from sinkql.planner.item.setting import plan_setting
from sinkql.planner.item.sink import expand
from sinkql.planner.item.source import sampled
from sinkql.planner.item.statement import definition_diff, existing_item, implied, is_built_in, item_name, kind_of
from sinkql.planner.name import RELATION_KINDS, find, short_name
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import mask

FORMAT = 1
_EXPLAINED = ("VIEW", "MATERIALIZED VIEW", "SINK")


class RowsNotice(Notice):
    """The notice that compiling changes no rows."""


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
        for statement in parse(text, connectors.vocabulary):
            try:
                compiler.compile_statement(statement)
            except RecursionError:
                raise too_deep(statement.span) from None
        return compiler.program()
    except SinkqlError as error:
        masked = mask(text, connectors.vocabulary)
        raise masked.cover(error.within(path=path, text=masked.text)) from error.__cause__


class Compiler:
    """A compiler that receives statements one after the other and collects `notices`."""

    def __init__(self, registry: Registry, facts: Mapping[str, logical.Facts]) -> None:
        self.registry = registry
        self.catalog = MemoryCatalog(registry)
        self.facts = facts
        self.notices: list[Notice] = []
        self.before: MemoryCatalog | None = None
        self.modes: tuple[str, ...] = ()

    def compile_statement(self, statement: ast.Statement) -> None:
        """Compile a statement. A statement that only returns rows has no effect."""
        if self.before is not None:
            transaction.check_allowed(statement, self.modes)
        match statement:
            case ast.Drop():
                dropping = plan_drop(statement, self.catalog, self.catalog.dependents)
                check_targets(statement, dropping.names, self.catalog, self.registry)
                for name in dropping.names:
                    self.catalog.remove(name)
                self.notices.extend(dropping.notices)
            case ast.Alter(action=ast.Rename() | ast.Swap()):
                renaming = plan_rename(statement, self.catalog)
                redefine(self.catalog, renaming.changes)
                self.notices.extend(renaming.notices)
            case ast.Alter(action=ast.Publish()):
                self.notices.extend(find_published(statement, self.catalog)[1])
            case ast.Alter(action=ast.SetOwner() | ast.Skip()):
                self.notices.extend(find_altered(statement, self.catalog)[1])
            case ast.CommentOn():
                find_commented(statement, self.catalog)
            case ast.Alter():
                altering = plan_alter(statement, self.catalog, self.registry)
                redefine(self.catalog, altering.changes)
                self.notices.extend(altering.notices)
            case ast.AlterSystem() | ast.SetVariable():
                setting = plan_setting(statement)
                for name, value in setting.values:
                    self.catalog.set(name, value)
                self.notices.extend(setting.notices)
            case ast.Transaction():
                self.run_transaction(statement)
            case ast.CreateSinks():
                for sink in expand(statement, self.catalog):
                    self.create(sink)
            case ast.OptimizeSink():
                find(self.catalog, statement.name, "SINK")
            case ast.ReplayErrors():
                find(self.catalog, statement.name, "SOURCE")
            case ast.Subscribe():
                if isinstance(statement.relation, ast.Name):
                    find(self.catalog, statement.relation, *RELATION_KINDS)
            case ast.Insert() | ast.Update() | ast.Delete():
                plan_change(statement, self.catalog, datetime.now(UTC).replace(tzinfo=None))
                self.notices.append(
                    RowsNotice("SQ2434", "rows change only when the script is executed", statement.span)
                )
            case (
                ast.ValidateConnection()
                | ast.Show()
                | ast.ShowCreate()
                | ast.ShowVariable()
                | ast.Explain()
                | ast.Select()
            ):
                pass
            case (
                ast.CreateSecret()
                | ast.CreateConnection()
                | ast.CreateCluster()
                | ast.CreateSource()
                | ast.CreateView()
                | ast.CreateSink()
                | ast.CreateDatabase()
                | ast.CreateSchema()
                | ast.CreateTable()
                | ast.CreateTableFrom()
                | ast.CreateProgress()
                | ast.CreateIndex()
            ):
                self.create(statement)

    def run_transaction(self, statement: ast.Transaction) -> None:
        """Run BEGIN, COMMIT or ROLLBACK. `before` is the catalog before the open transaction."""
        before = self.before
        if statement.action == "BEGIN":
            self.notices.extend([] if before is None else [transaction.already(statement)])
            self.modes = statement.modes if before is None else self.modes
            self.before = before or self.catalog.copy()
        elif before is None:
            self.notices.append(transaction.none(statement))
        elif statement.action == "SET":
            self.modes = statement.modes
        else:
            self.catalog = before if statement.action == "ROLLBACK" else self.catalog
            self.before = self.catalog.copy() if statement.chain else None

    def create(self, statement: ast.Create) -> None:
        full_name = item_name(statement, self.catalog)
        present = self.catalog.entry(full_name)
        is_kept = statement.if_not_exists and is_built_in(statement, present)
        if present is not None and (is_kept or present.id.startswith("u")):
            different = self.difference(statement, present)
            replaces = isinstance(statement, ast.CreateView) and statement.or_replace
            if different and replaces and present.kind == kind_of(statement):
                self.replace(statement, present)
            else:
                rows = isinstance(present.statement, ast.CreateTable)
                notice = existing_item(statement, full_name, present.kind, different, self.catalog, rows=rows)
                self.notices.append(notice)
            return
        facts = self.facts.get(full_name) or self.facts.get(short_name(full_name)) or {}
        facts = facts or sampled(statement, Scope(self.catalog, self.catalog.registry))
        facts = {**facts, **self.identity(statement)}
        planned = self.catalog.add(statement, facts)
        if isinstance(statement, ast.CreateIndex) and isinstance(planned.item, logical.Index):
            check_index(planned.item, statement.relation.span, self.catalog)
        self.notices.extend(planned.notices)
        for implied_statement in implied(qualify(statement, self.catalog), planned.item):
            self.catalog.add(implied_statement, self.identity(implied_statement))

    def difference(self, statement: ast.Create, present: logical.Entry) -> str:
        """Return a diff of an item's definition and a statement; empty if they agree."""
        if present.id.startswith("s"):
            return ""
        if isinstance(statement, ast.CreateView):
            statement = replace(statement, or_replace=False)
        new, words = qualify(statement, self.catalog), self.catalog.words
        if to_sql(new) == to_sql(present.statement):
            return ""
        if isinstance(new, ast.CreateSecret):
            return "its value changes"
        redacted = to_sql(present.statement, redacted=words), to_sql(new, redacted=words)
        has_hidden_change = redacted != (to_sql(present.statement), to_sql(new))
        if not has_hidden_change and means_the_same(new, present.name, self.catalog):
            return ""
        return definition_diff(*redacted)

    def identity(self, statement: ast.Create) -> dict[str, str]:
        if not isinstance(statement, ast.CreateSource | ast.CreateTable | ast.CreateTableFrom):
            return {}
        return identity(qualify(statement, self.catalog), self.catalog.identities())

    def replace(self, statement: ast.Create, present: logical.Entry) -> None:
        others = self.catalog.copy()
        others.remove(present.name)
        self.notices.extend(others.add(statement, present.facts).notices)  # its errors point into the user's text
        redefine(self.catalog, {present.name: (qualify(statement, self.catalog), present.facts)})

    def program(self) -> Program:
        if self.before is not None:
            raise transaction.not_ended()
        items = tuple(
            CompiledItem(entry.name, entry.kind, to_sql(entry.statement, redacted=self.catalog.words))
            for entry in self.catalog.entries()
            if entry.id.startswith("u")
        )
        jobs = tuple(lower(name, self.catalog) for name in self.catalog.names("SINK"))
        words = self.catalog.words
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
