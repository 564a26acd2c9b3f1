"""Plan the catalog that scripts describe, in any order of their statements, and the steps for comments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import get_args

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.secret.value import secret_input
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.registry import Registry
from sinkql.errors import MissingError, Notice, SinkqlError
from sinkql.keywords import Keywords
from sinkql.parser import parse
from sinkql.planner.edit.rename import find_commented
from sinkql.planner.item.setting import plan_setting
from sinkql.planner.item.sink import expand
from sinkql.planner.item.source import sampled
from sinkql.planner.item.statement import item_name, kind_of, own_name
from sinkql.planner.name import as_name, qualified_name, short_name, split_name
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import Masked, mask
from sinkql.session.deploy.step import Step
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.statement.in_memory import InMemoryItems
from sinkql.statement.operation import CreateItem
from sinkql.statement.plan import plan_create


class DescribedAccess(CatalogAccess):
    """The access of connectors after the deployment: its connections, and the values of its secrets."""

    def __init__(self, catalog: Catalog, described: ScriptCatalog) -> None:
        super().__init__(catalog, described.catalog)
        self._described = described

    def secret(self, full_name: str) -> str:
        statement = self._described.statements.get(full_name)
        if not isinstance(statement, ast.CreateSecret) or full_name in self._described.unchanged:
            return super().secret(full_name)  # the catalog stores the statement without the value
        cipher = self._catalog.cipher
        sealed = cipher.seal("planned", secret_input(statement.value))
        return cipher.open("planned", short_name(full_name), sealed).reveal()


Place = tuple[str, str | None]
"""The target of a comment: an item's full name, and a column name or None for the item."""


def place_of(catalog: MemoryCatalog, entry: logical.Entry, column: int) -> Place | None:
    """Return the target of a comment on an item (`column` 0) or a column counted from 1; None if it is missing."""
    if column == 0:
        return entry.name, None
    item = catalog.item(entry.name)
    columns = item.shape.columns if isinstance(item, logical.Source | logical.View) else ()
    return (entry.name, columns[column - 1].name) if column <= len(columns) else None


def stored_comments(catalog: Catalog, names: Mapping[str, str]) -> dict[Place, str]:
    """Return the comments of a catalog. `names` maps the full names of renamed items to the new ones."""
    entries = {entry.id: entry for entry in catalog.entries().values()}
    comments: dict[Place, str] = {}
    for (item_id, column), comment in catalog.comments().items():
        entry = entries.get(item_id)
        place = place_of(catalog.plans, entry, column) if entry is not None else None
        if place is not None:
            comments[names.get(place[0], place[0]), place[1]] = comment
    return comments


def comment_steps(
    stored: Mapping[Place, str], wanted: Mapping[Place, ast.CommentOn], steps: Iterable[Step]
) -> Iterator[Step]:
    """Yield a step for each comment of the scripts that the catalog lacks. Comments that no script has stay."""
    new_items = {step.name for step in steps if step.action in ("create", "replace")}
    for place, statement in wanted.items():
        present = stored.get(place) if place[0] not in new_items else None
        text = statement.text.value if statement.text is not None else None
        if present == text:
            continue
        lines = [f"{mark} {comment!r}" for mark, comment in (("-", present), ("+", text)) if comment is not None]
        name = _shown_name(place)
        full_name = as_name(name, statement.name.span)
        yield Step(
            "alter", "COMMENT", name, "it changes" if present is not None else "it is new", changes=tuple(lines),
            comment=replace(statement, name=full_name),
        )  # fmt: skip


def _shown_name(place: Place) -> str:
    full_name, column = place
    return full_name if column is None else f"{full_name}.{qualified_name(column)}"


_STAGES: tuple[tuple[type, ...], ...] = (
    (ast.CreateDatabase,),
    (ast.CreateSchema,),
    tuple(kind for kind in get_args(ast.Create) if kind not in (ast.CreateDatabase, ast.CreateSchema)),
    (ast.CreateSinks,),
    (ast.CommentOn,),
)
"""The order of planning. Schemas come first, because they resolve names without a schema."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its path as errors show it, and its text."""

    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScriptNotice:
    """A notice that names its item, with the path and redacted text of the script that its span refers to."""

    notice: Notice
    path: str
    text: str = field(repr=False)


@dataclass(slots=True)
class ScriptCatalog:
    """The catalog that scripts describe. `statements` has the original statements by full name.

    `implied` has the full names of items that another statement creates. `unchanged` has the full names of unchanged
    items that no script names. `reach` returns the access with which new sources are sampled.
    """

    catalog: MemoryCatalog
    statements: dict[str, ast.Create] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    comments: dict[Place, ast.CommentOn] = field(default_factory=dict)
    implied: set[str] = field(default_factory=set)
    notices: list[ScriptNotice] = field(default_factory=list)
    unchanged: set[str] = field(default_factory=set)
    reach: Callable[[ScriptCatalog], OutsideAccess] | None = None


def read_scripts(
    texts: Sequence[Script],
    registry: Registry,
    *,
    present: Iterable[logical.Entry],
    settings: Mapping[str, str],
    keep: bool,
    reach: Callable[[ScriptCatalog], OutsideAccess] | None = None,
) -> ScriptCatalog:
    """Return the catalog that scripts describe. Existing items keep their facts.

    With `keep`, items that no script names stay and can be used. Secrets always stay, because scripts do not contain
    their values. `settings` are the catalog's settings, which scripts may change. `reach` returns the access with which
    new sources are sampled. Raise the errors of planning, and SQ2635 for a statement that describes nothing.
    """
    described = ScriptCatalog(MemoryCatalog(registry), reach=reach)
    entries = {entry.name: entry for entry in present if entry.id.startswith("u")}
    statements = [pending for text in texts for pending in _read_script(text, described)]
    for name, value in {**settings, **described.settings}.items():
        described.catalog.set(name, value)
    staying = [entry for entry in entries.values() if keep or entry.kind == "SECRET"]
    unnamed = {entry.name: _pending_entry(entry, registry.keywords, needed=keep) for entry in staying}
    for kinds in _STAGES:
        current = [pending for pending in statements if isinstance(pending.statement, kinds)]
        named = set(_names(current, described)) if unnamed else set()
        remaining = {
            name: pending
            for name, pending in unnamed.items()
            if isinstance(pending.statement, kinds) and name not in named
        }
        described.unchanged.update(remaining)
        _plan_statements([*current, *remaining.values()], described, entries)
    return described


def _names(pending: Iterable[_Pending], described: ScriptCatalog) -> Iterator[str]:
    """Yield the full names of the items. Planning raises the errors of invalid names later."""
    for entry in pending:
        if isinstance(entry.statement, ast.CommentOn | ast.CreateSinks):
            continue
        try:
            yield entry.name(described)
        except SinkqlError:
            continue


def _plan_statements(waiting: list[_Pending], described: ScriptCatalog, entries: Mapping[str, logical.Entry]) -> None:
    """Plan statements into the described catalog, in an order that works."""
    while waiting:
        postponed = [entry for entry in waiting if not entry.try_plan(described, entries)]
        if len(postponed) == len(waiting):
            failed = next((entry for entry in postponed if entry.needed), None)
            if failed is None:
                break  # secrets of a schema that the deployment drops
            raise failed.missing_error(entries.keys() - described.unchanged)
        waiting = postponed


@dataclass(slots=True)
class _Pending:
    """A statement to plan under the settings of its place in the script, with its last error."""

    statement: ast.Create | ast.CreateSinks | ast.CommentOn
    path: str
    masked: Masked
    settings: Mapping[str, str]
    needed: bool = True
    failure: SinkqlError | None = None

    def name(self, described: ScriptCatalog) -> str:
        """Return the full name of the item. Raise the errors of name resolution with the script."""
        assert not isinstance(self.statement, ast.CommentOn | ast.CreateSinks)
        try:
            with _settings(described.catalog, self.settings):
                return item_name(self.statement, described.catalog)
        except SinkqlError as error:
            self.failure = error
            raise self.error() from error.__cause__

    def try_plan(self, described: ScriptCatalog, entries: Mapping[str, logical.Entry]) -> bool:
        """Plan the statement into the described catalog. Return False if it may need a later statement."""
        try:
            with _settings(described.catalog, self.settings):
                if isinstance(self.statement, ast.CommentOn):
                    _add_comment(self.statement, described)
                elif isinstance(self.statement, ast.CreateSinks):
                    for item in expand(self.statement, described.catalog):
                        self._add_notices(_replace_sink(item, described, entries), item, described)
                else:
                    self._add_notices(_plan_item(self.statement, described, entries), self.statement, described)
        except SinkqlError as error:
            self.failure = error
            if isinstance(error, MissingError):  # a later statement or file may define it
                return False
            raise self.error() from error.__cause__
        return True

    def _add_notices(self, notices: Iterable[Notice], statement: ast.Create, described: ScriptCatalog) -> None:
        """Add the notices of an item, with its name and span."""
        name = short_name(item_name(statement, described.catalog), described.catalog)
        for item in notices:
            about = "" if f'"{name}"' in item.message else f'{kind_of(statement).lower()} "{name}": '
            notice = replace(item, message=f"{about}{item.message}", span=item.span or self.statement.span)
            described.notices.append(ScriptNotice(notice, self.path, self.masked.text))

    def missing_error(self, left_out: Iterable[str]) -> SinkqlError:
        """Return the error if no later statement helps. Add a hint if the item is in the catalog but in no script."""
        failure = self.failure
        if isinstance(failure, MissingError) and any(split_name(item)[-1] == failure.name for item in left_out):
            failure.hint = "The catalog has it, but no file does. Pass the files of all items, or add --keep."
        return self.error()

    def error(self) -> SinkqlError:
        """Return the last error with the script."""
        assert self.failure is not None
        return self.masked.cover(self.failure.within(path=self.path, text=self.masked.text))


def _plan_item(
    statement: ast.Create, described: ScriptCatalog, entries: Mapping[str, logical.Entry]
) -> tuple[Notice, ...]:
    """Plan an item into the described catalog and return its notices."""
    name = item_name(statement, described.catalog)
    if name in described.implied:
        described.implied.remove(name)
        return ()
    items = InMemoryItems(described.catalog, lambda new, new_name: _facts(new, new_name, described, entries))
    operation = plan_create(statement, items) if statement.if_not_exists else CreateItem(statement, name)
    if not isinstance(operation, CreateItem):
        return items.apply(operation)
    planned, implied_statements = items.create(operation)
    described.statements[name] = statement
    for implied_statement in implied_statements:
        described.statements[own_name(implied_statement)] = implied_statement
        described.implied.add(own_name(implied_statement))
    return planned.notices


def _replace_sink(
    statement: ast.CreateSink, described: ScriptCatalog, entries: Mapping[str, logical.Entry]
) -> tuple[Notice, ...]:
    """Plan one sink of CREATE SINKS. It replaces a kept sink of the same name."""
    name = item_name(statement, described.catalog)
    if name in described.unchanged and described.catalog.has(name):
        described.catalog.remove(name)
        described.unchanged.discard(name)
    return _plan_item(statement, described, entries)


def _facts(
    statement: ast.Create, name: str, described: ScriptCatalog, entries: Mapping[str, logical.Entry]
) -> logical.Facts:
    """Return the facts of an existing item. For a new item, return the facts of a sample."""
    before = entries.get(name)
    if before is not None and before.kind == kind_of(statement):
        return before.facts
    access = described.reach(described) if described.reach is not None else None
    return sampled(statement, Scope(described.catalog, described.catalog.registry), access)


def _add_comment(statement: ast.CommentOn, described: ScriptCatalog) -> None:
    place = place_of(described.catalog, *find_commented(statement, described.catalog))
    if place is not None:  # planning found the column
        described.comments[place] = statement


@contextmanager
def _settings(catalog: MemoryCatalog, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: catalog.setting(name) for name in settings}
    for name, value in settings.items():
        catalog.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            catalog.set(name, value)


def _pending_entry(entry: logical.Entry, words: Keywords, *, needed: bool) -> _Pending:
    path, masked = f"the catalog's {short_name(entry.name)}", mask(to_sql(entry.statement), words)
    return _Pending(entry.statement, path, masked, {}, needed=needed)


def _read_script(script: Script, described: ScriptCatalog) -> list[_Pending]:
    masked = mask(script.text, described.catalog.words)
    try:
        return list(_statements(script, masked, described))
    except SinkqlError as error:
        raise masked.cover(error.within(path=script.path, text=masked.text)) from error.__cause__


def _statements(script: Script, masked: Masked, described: ScriptCatalog) -> Iterator[_Pending]:
    settings: dict[str, str] = {}
    for statement in parse(script.text, described.catalog.words):
        match statement:
            case ast.AlterSystem():
                setting = plan_setting(statement)
                described.settings.update(setting.values)
                described.notices.extend(ScriptNotice(notice, script.path, masked.text) for notice in setting.notices)
            case ast.SetVariable():
                setting = plan_setting(statement)
                settings = {**settings, **dict(setting.values)}
                described.notices.extend(ScriptNotice(notice, script.path, masked.text) for notice in setting.notices)
            case _ if isinstance(statement, ast.Create | ast.CreateSinks | ast.CommentOn):
                yield _Pending(statement, script.path, masked, settings)
            case _:
                raise SinkqlError(
                    "SQ2635",
                    "the statement cannot be part of a plan",
                    statement.span,
                    hint="Plan scripts of CREATE, COMMENT ON, SET and ALTER SYSTEM SET. "
                    "Run other statements with sinkql exec.",
                )
