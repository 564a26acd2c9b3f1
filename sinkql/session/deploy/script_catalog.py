"""Scripts → the catalog as they want it: every item planned, whatever the order they stand in.

What scripts describe, and the catalog's secrets → what connectors may reach the outside with.

Comments as they are stored and as scripts want them → the steps from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import get_args

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.secret.value import given
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.registry import Registry
from sinkql.errors import MissingError, Notice, SinkqlError
from sinkql.keywords import Keywords
from sinkql.parser import parse
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.edit.rename import find_commented
from sinkql.planner.item.setting import plan_setting
from sinkql.planner.item.sink import expand
from sinkql.planner.item.source import sampled
from sinkql.planner.item.statement import implied, item_name, kind_of, own_name
from sinkql.planner.name import as_name, qualified_name, short_name, split_name
from sinkql.planner.scope import Scope
from sinkql.printer import to_sql
from sinkql.script.redaction import Masked, mask
from sinkql.session.deploy.step import Step
from sinkql.session.item.connector_access import CatalogAccess


class DescribedAccess(CatalogAccess):
    """Reach the outside as after the deployment: by its connections, and with the values of its secrets."""

    def __init__(self, catalog: Catalog, described: ScriptCatalog) -> None:
        super().__init__(catalog, described.catalog)
        self._described = described

    def secret(self, full_name: str) -> str:
        statement = self._described.statements.get(full_name)
        if not isinstance(statement, ast.CreateSecret) or full_name in self._described.kept:
            return super().secret(full_name)  # the catalog's statement of a secret is without its value
        cipher = self._catalog.cipher
        sealed = cipher.seal("planned", given(statement.value))
        return cipher.open("planned", short_name(full_name), sealed).reveal()


Place = tuple[str, str | None]
"""What a comment is on: an item's full name, and the name of one of its columns, or None for the item itself."""


def place_of(catalog: MemoryCatalog, entry: logical.Entry, column: int) -> Place | None:
    """Return the place of a comment on an item, or on its column of that position from 1; None if it has none such."""
    if column == 0:
        return entry.name, None
    item = catalog.item(entry.name)
    columns = item.shape.columns if isinstance(item, logical.Source | logical.View) else ()
    return (entry.name, columns[column - 1].name) if column <= len(columns) else None


def stored_comments(catalog: Catalog, names: Mapping[str, str]) -> dict[Place, str]:
    """Return the comments of a catalog; `names` are those that items get, by the full names that they have."""
    entries = {entry.id: entry for entry in catalog.entries().values()}
    found: dict[Place, str] = {}
    for (item_id, column), comment in catalog.comments().items():
        entry = entries.get(item_id)
        place = place_of(catalog.plans, entry, column) if entry is not None else None
        if place is not None:
            found[names.get(place[0], place[0]), place[1]] = comment
    return found


def comment_steps(
    stored: Mapping[Place, str], wanted: Mapping[Place, ast.CommentOn], steps: Iterable[Step]
) -> Iterator[Step]:
    """Yield a step for each comment that scripts give and that will not be there; those they do not give stay."""
    anew = {step.name for step in steps if step.action in ("create", "replace")}
    for place, statement in wanted.items():
        present = stored.get(place) if place[0] not in anew else None
        text = statement.text.value if statement.text is not None else None
        if present == text:
            continue
        lines = [f"{mark} {each!r}" for mark, each in (("-", present), ("+", text)) if each is not None]
        name = _name(place)
        full = as_name(name, statement.name.span)
        yield Step(
            "alter", "COMMENT", name, "it changes" if present is not None else "it is new", changes=tuple(lines),
            comment=replace(statement, name=full),
        )  # fmt: skip


def _name(place: Place) -> str:
    full_name, column = place
    return full_name if column is None else f"{full_name}.{qualified_name(column)}"


_STAGES: tuple[tuple[type, ...], ...] = (
    (ast.CreateDatabase,),
    (ast.CreateSchema,),
    tuple(kind for kind in get_args(ast.Create) if kind not in (ast.CreateDatabase, ast.CreateSchema)),
    (ast.CreateSinks,),
    (ast.CommentOn,),
)
"""What is planned before what: a name without a schema goes by the schemas that there are."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its path as errors show it, and its text."""

    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScriptNotice:
    """A notice that names the item it is about, and the script in which its place is, as shown."""

    notice: Notice
    path: str
    text: str = field(repr=False)


@dataclass(slots=True)
class ScriptCatalog:
    """The catalog that scripts describe. `statements` are as written, by full name; `comments` by what they are on.

    `implied` are the full names of what is made together with something else, and has no statement of its own; `kept`
    those of items that no script names, and that stay as they are; `reach` what samples are taken with.
    """

    catalog: MemoryCatalog
    statements: dict[str, ast.Create] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    comments: dict[Place, ast.CommentOn] = field(default_factory=dict)
    implied: set[str] = field(default_factory=set)
    notices: list[ScriptNotice] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
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
    """Return what the scripts describe; facts are those of the items that are there already.

    With `keep`, items that the scripts do not name stay as they are and can be used; secrets always do, since their
    values are kept out of scripts. `settings` are those of the catalog, which scripts may change. `reach` gives what
    new sources may be sampled with that lie elsewhere. Raises what planning raises, and SQ2635 for a statement that
    describes nothing.
    """
    found = ScriptCatalog(MemoryCatalog(registry), reach=reach)
    entries = {entry.name: entry for entry in present if entry.id.startswith("u")}
    written = [each for text in texts for each in _read(text, found)]
    for name, value in {**settings, **found.settings}.items():
        found.catalog.set(name, value)
    stay = [entry for entry in entries.values() if keep or entry.kind == "SECRET"]
    kept = {entry.name: _kept(entry, registry.vocabulary, needed=keep) for entry in stay}
    for kinds in _STAGES:
        now = [each for each in written if isinstance(each.statement, kinds)]
        named = set(_names(now, found)) if kept else set()
        left = {name: each for name, each in kept.items() if isinstance(each.statement, kinds) and name not in named}
        found.kept.update(left)
        _take([*now, *left.values()], found, entries)
    return found


def _names(pending: Iterable[_Pending], found: ScriptCatalog) -> Iterator[str]:
    """Return the full names of what is made; what is wrong with a name is told as its statement is planned."""
    for each in pending:
        if isinstance(each.statement, ast.CommentOn | ast.CreateSinks):
            continue
        try:
            yield each.name(found)
        except SinkqlError:
            continue


def _take(waiting: list[_Pending], found: ScriptCatalog, entries: Mapping[str, logical.Entry]) -> None:
    """Plan statements into what is wanted, in an order in which they plan."""
    while waiting:
        postponed = [each for each in waiting if not each.taken(found, entries)]
        if len(postponed) == len(waiting):
            failed = next((each for each in postponed if each.needed), None)
            if failed is None:
                break  # secrets of a schema that goes
            raise failed.missed(entries.keys() - found.kept)
        waiting = postponed


@dataclass(slots=True)
class _Pending:
    """A statement that is to be planned under the settings before it, and why it could not be so far."""

    statement: ast.Create | ast.CreateSinks | ast.CommentOn
    path: str
    masked: Masked
    settings: Mapping[str, str]
    needed: bool = True
    failure: SinkqlError | None = None

    def name(self, found: ScriptCatalog) -> str:
        """Return the full name of what the statement makes; raises what resolving it does, with its script."""
        assert not isinstance(self.statement, ast.CommentOn | ast.CreateSinks)
        try:
            with _settings(found.catalog, self.settings):
                return item_name(self.statement, found.catalog)
        except SinkqlError as error:
            self.failure = error
            raise self.error() from error.__cause__

    def taken(self, found: ScriptCatalog, entries: Mapping[str, logical.Entry]) -> bool:
        """Plan the statement into what is wanted; False if something that it names may come later."""
        try:
            with _settings(found.catalog, self.settings):
                if isinstance(self.statement, ast.CommentOn):
                    _comment(self.statement, found)
                elif isinstance(self.statement, ast.CreateSinks):
                    for each in expand(self.statement, found.catalog):
                        self._note(_make_again(each, found, entries), each, found)
                else:
                    self._note(_make(self.statement, found, entries), self.statement, found)
        except SinkqlError as error:
            self.failure = error
            if isinstance(error, MissingError):  # what it names may stand further down, or in another file
                return False
            raise self.error() from error.__cause__
        return True

    def _note(self, notices: Iterable[Notice], statement: ast.Create, found: ScriptCatalog) -> None:
        """Keep what there is to know about an item that was made, with its name and place."""
        name = short_name(item_name(statement, found.catalog), found.catalog)
        for each in notices:
            about = "" if f'"{name}"' in each.message else f'{kind_of(statement).lower()} "{name}": '
            told = replace(each, message=f"{about}{each.message}", span=each.span or self.statement.span)
            found.notices.append(ScriptNotice(told, self.path, self.masked.text))

    def missed(self, left_out: Iterable[str]) -> SinkqlError:
        """Return why it does not plan where nothing is left to wait for: the catalog may have what no script has."""
        failure = self.failure
        if isinstance(failure, MissingError) and any(split_name(each)[-1] == failure.name for each in left_out):
            failure.hint = "The catalog has it, and no file does: name the files of all items, or add --keep."
        return self.error()

    def error(self) -> SinkqlError:
        """Return why it does not plan, with its script."""
        assert self.failure is not None
        return self.masked.cover(self.failure.within(path=self.path, text=self.masked.text))


def _make(statement: ast.Create, found: ScriptCatalog, entries: Mapping[str, logical.Entry]) -> tuple[Notice, ...]:
    """Plan an item into what is wanted; return what there is to know about it."""
    name = item_name(statement, found.catalog)
    if name in found.implied:
        found.implied.remove(name)
        return ()
    planned = found.catalog.add(statement, _facts(statement, name, found, entries))
    found.statements[name] = statement
    for each in implied(qualify(statement, found.catalog), planned.item):
        found.catalog.add(each, _facts(each, own_name(each), found, entries))
        found.statements[own_name(each)] = each
        found.implied.add(own_name(each))
    return planned.notices


def _make_again(
    statement: ast.CreateSink, found: ScriptCatalog, entries: Mapping[str, logical.Entry]
) -> tuple[Notice, ...]:
    """Make one of many sinks, in the place of the one that stays where no script is named."""
    name = item_name(statement, found.catalog)
    if name in found.kept and found.catalog.has(name):
        found.catalog.remove(name)
        found.kept.discard(name)
    return _make(statement, found, entries)


def _facts(
    statement: ast.Create, name: str, found: ScriptCatalog, entries: Mapping[str, logical.Entry]
) -> logical.Facts:
    """Return the facts of an item that is there, and of a new one what a sample says."""
    before = entries.get(name)
    if before is not None and before.kind == kind_of(statement):
        return before.facts
    access = found.reach(found) if found.reach is not None else None
    return sampled(statement, Scope(found.catalog, found.catalog.registry), access)


def _comment(statement: ast.CommentOn, found: ScriptCatalog) -> None:
    place = place_of(found.catalog, *find_commented(statement, found.catalog))
    assert place is not None
    found.comments[place] = statement


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


def _kept(entry: logical.Entry, words: Keywords, *, needed: bool) -> _Pending:
    path, masked = f"the catalog's {short_name(entry.name)}", mask(to_sql(entry.statement), words)
    return _Pending(entry.statement, path, masked, {}, needed=needed)


def _read(script: Script, found: ScriptCatalog) -> list[_Pending]:
    masked = mask(script.text, found.catalog.words)
    try:
        return list(_statements(script, masked, found))
    except SinkqlError as error:
        raise masked.cover(error.within(path=script.path, text=masked.text)) from error.__cause__


def _statements(script: Script, masked: Masked, found: ScriptCatalog) -> Iterator[_Pending]:
    settings: dict[str, str] = {}
    for statement in parse(script.text, found.catalog.words):
        match statement:
            case ast.AlterSystem():
                setting = plan_setting(statement)
                found.settings.update(setting.values)
                found.notices.extend(ScriptNotice(each, script.path, masked.text) for each in setting.notices)
            case ast.SetVariable():
                setting = plan_setting(statement)
                settings = {**settings, **dict(setting.values)}
                found.notices.extend(ScriptNotice(each, script.path, masked.text) for each in setting.notices)
            case _ if isinstance(statement, ast.Create | ast.CreateSinks | ast.CommentOn):
                yield _Pending(statement, script.path, masked, settings)
            case _:
                raise SinkqlError(
                    "SQ2635",
                    "the statement cannot be part of a plan",
                    statement.span,
                    hint="Plan scripts of CREATE, COMMENT ON, SET and ALTER SYSTEM SET; run others with sinkql exec.",
                )
