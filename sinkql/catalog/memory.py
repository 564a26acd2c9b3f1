"""A catalog in memory: plans CREATE statements with facts to items, by full name.

It also knows the destination of each sink, and refuses a second sink that would conflict with the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from graphlib import CycleError

from sinkql import ast, logical
from sinkql.catalog.overlay import OverlayCatalog
from sinkql.connector_api.registry import Registry
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.keywords import Keywords
from sinkql.planner import Planned, plan
from sinkql.planner.dependency import in_order, reached
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.item.setting import DEFAULTS, unknown_setting
from sinkql.planner.item.statement import item_name, kind_of
from sinkql.planner.name import BUILT_IN_CLUSTER, DATABASE, SCHEMA, inside, locate, resolve, short_name
from sinkql.printer import to_sql

Place = tuple[str, str, tuple[str, ...]]
"""The id of a connection, and the kind and path of a destination there."""


class Destinations:
    """The destinations of a catalog's sinks; each sink with whether it shares its destination."""

    def __init__(self) -> None:
        self._sinks: dict[Place, dict[str, bool]] = {}
        self._places: dict[str, Place] = {}

    def add(self, sink: str, place: Place, *, shared: bool) -> None:
        self._sinks.setdefault(place, {})[sink] = shared
        self._places[sink] = place

    def discard(self, sink: str) -> None:
        place = self._places.pop(sink, None)
        if place is not None:
            del self._sinks[place][sink]

    def copy(self) -> Destinations:
        other = Destinations()
        other._sinks = {place: dict(sinks) for place, sinks in self._sinks.items()}
        other._places = dict(self._places)
        return other

    def find_conflict(self, sink: str, place: Place, *, shared: bool) -> str | None:
        """Return a sink that writes to the same destination, unless both sinks share it."""
        others = self._sinks.get(place, {}).items()
        return next((name for name, other_shares in others if name != sink and not (other_shares and shared)), None)


def destination_taken_error(statement: ast.CreateSink, place: logical.Destination, other: str) -> SinkqlError:
    """Return the error for a sink with the same destination as the sink `other`."""
    options = statement.options
    span = Span(options[0].name_span.start, options[-1].span.end) if options else statement.kind_span
    message = f'sink "{short_name(other)}" already writes to {place.kind} "{place.name}"'
    return SinkqlError("SQ2342", message, span, hint=place.apart)


IDENTITY = "identity"
"""The fact with the name under which jobs know a renamed source or table."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A stored item that can no longer be planned, the error, and a sink's destination as in `Waiting`."""

    entry: logical.Entry
    error: SinkqlError
    writes: tuple[Place, bool] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A stored item that is parsed and planned on first use.

    `uses` are the full names of the items that it used when it was stored. `read` and `facts` return its statement and
    facts, or raise if these do not parse. `open` decrypts the literals of the statement.
    """

    id: str
    name: str
    kind: str
    uses: tuple[str, ...]
    identity: str | None
    read: Callable[[], ast.Create]
    facts: Callable[[], logical.Facts]
    open: Callable[[ast.Create], ast.Create]
    writes: Callable[[], tuple[Place, bool] | None] = lambda: None
    """Return a sink's destination, and whether the sink shares it, without planning the sink."""


class Dependencies:
    """The items that each item uses directly, and the users of each item."""

    def __init__(self) -> None:
        self._uses: dict[str, tuple[str, ...]] = {}
        self._users: dict[str, dict[str, None]] = {}

    def link(self, name: str, uses: tuple[str, ...]) -> None:
        self._uses[name] = uses
        for used in uses:
            self._users.setdefault(used, {})[name] = None

    def unlink(self, name: str) -> None:
        for used in self._uses.pop(name, ()):
            del self._users[used][name]

    def uses(self, name: str) -> tuple[str, ...]:
        """Return the direct dependencies of an item; raise KeyError if it does not exist."""
        return self._uses[name]

    def users(self, name: str) -> tuple[str, ...]:
        """Return the direct users of an item, in the order of their addition."""
        return tuple(self._users.get(name, ()))

    def copy(self) -> Dependencies:
        other = Dependencies()
        other._uses = dict(self._uses)
        other._users = {name: dict(users) for name, users in self._users.items()}
        return other


class Settings:
    """The settings of a catalog that differ from their defaults; raises the error of unknown settings."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        for name, value in (values or {}).items():
            self.set(name, value)

    def get(self, name: str) -> str:
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        return self._values.get(name, DEFAULTS[name])

    def set(self, name: str, value: str) -> None:
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        self._values[name] = value

    def copy(self) -> Settings:
        return Settings(self._values)


class MemoryCatalog:
    """The items and settings of a process; implements `logical.CatalogReader`.

    The cluster `quickstart` (all cores of this host), the database `materialize` and its schema `public` always exist.
    A waiting item is planned when it is first requested by name. If planning fails, the item moves to `broken` and no
    longer counts as an item.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.broken: dict[str, Broken] = {}
        self._entries: dict[str, logical.Entry | Waiting | None] = {}  # None while it is being planned
        self._items: dict[str, logical.Item] = {}
        self._dependencies = Dependencies()
        self._identities: dict[str, str] = {}
        self._destinations: Destinations | None = None  # built when it is first needed
        self._last = 0
        self._settings = Settings()
        size = ast.Option("SIZE", ast.Text("local[*]"))
        self.add(ast.CreateCluster(ast.Ident(BUILT_IN_CLUSTER), (size,)), {}, id="s1")
        self.add(ast.CreateDatabase(ast.Ident(DATABASE)), {}, id="s6")
        self.add(ast.CreateSchema(ast.Name((ast.Ident(DATABASE), ast.Ident(SCHEMA)))), {}, id="s5")

    # --- reading: `logical.CatalogReader` ---

    def resolve(self, name: ast.Name) -> str:
        return resolve(name, self)

    def locate(self, name: ast.Name) -> str:
        return locate(name, self)

    def has(self, full_name: str) -> bool:
        return self._entries.get(full_name) is not None

    def entry(self, full_name: str) -> logical.Entry | None:
        waiting = self._entries.get(full_name)
        if isinstance(waiting, Waiting):
            self._plan(waiting)
        entry = self._entries.get(full_name)
        return entry if isinstance(entry, logical.Entry) else None

    def item(self, full_name: str) -> logical.Item | None:
        self.entry(full_name)
        return self._items.get(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(name for name, entry in self._entries.items() if entry is not None and entry.kind == kind))

    def setting(self, name: str) -> str:
        return self._settings.get(name)

    @property
    def words(self) -> Keywords:
        return self.registry.keywords

    # --- more reading ---

    def planned(self, kind: str) -> tuple[str, ...]:
        """Plan all items of a kind, and return the full names of the plannable ones."""
        return tuple(name for name in self.names(kind) if self.entry(name) is not None)

    def plan_all(self) -> None:
        """Plan all waiting items."""
        for name in tuple(self._entries):
            self.entry(name)

    def entries(self) -> tuple[logical.Entry, ...]:
        """Return all entries in the order of their addition, the built-in cluster first."""
        self.plan_all()
        return tuple(entry for entry in self._entries.values() if isinstance(entry, logical.Entry))

    def present(self) -> dict[str, logical.Entry | Waiting]:
        """Return all items by full name, planned or waiting, in the order of their addition."""
        return {name: entry for name, entry in self._entries.items() if entry is not None}

    def facts(self, full_name: str) -> logical.Facts:
        """Return an item's facts without planning it; raise KeyError if it does not exist."""
        entry = self._present(full_name)
        return entry.facts() if isinstance(entry, Waiting) else entry.facts

    def _present(self, full_name: str) -> logical.Entry | Waiting:
        entry = self._entries[full_name]
        if entry is None:
            raise KeyError(full_name)
        return entry

    def dependencies(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that an item uses directly."""
        self.entry(full_name)
        return self._dependencies.uses(full_name)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly or belong to it, in order of addition."""
        if full_name.endswith("."):
            return inside(full_name, self._entries)
        return self._dependencies.users(full_name)

    def all_used(self, full_name: str) -> list[str]:
        """Return the full names of the items that an item uses, directly or not, sorted."""
        return sorted({*reached([full_name], self._present_dependencies)} - {full_name})

    def all_users(self, full_name: str) -> list[str]:
        """Return the full names of the items that use an item or belong to it, directly or not."""
        return [name for name in reached([full_name], self.dependents) if name != full_name]

    def identities(self) -> frozenset[str]:
        """Return the names under which jobs know renamed items."""
        return frozenset(self._identities.values())

    def _present_dependencies(self, full_name: str) -> list[str]:
        return [name for name in self.dependencies(full_name) if self.has(name)]

    # --- planning of waiting items ---

    def _plan(self, wanted: Waiting) -> None:
        """Plan an item after the items that it used; iterative, so that long chains do not exhaust the stack."""
        uses = {name: self._dependencies.uses(name) for name in self._waiting_dependencies(wanted)}
        try:
            order = in_order(uses)
        except CycleError:  # another program changed the file
            order = [*uses][::-1]
        for name in order:
            waiting = self._entries[name]
            if isinstance(waiting, Waiting):
                self._plan_one(waiting)

    def _waiting_dependencies(self, wanted: Waiting) -> list[str]:
        def edges(name: str) -> Iterable[str]:
            return [used for used in self._dependencies.uses(name) if isinstance(self._entries.get(used), Waiting)]

        return reached([wanted.name], edges)

    def _plan_one(self, waiting: Waiting) -> None:
        self._entries[waiting.name] = None
        try:
            statement, facts = waiting.read(), waiting.facts()
            try:
                statement = waiting.open(statement)
                planned = plan(statement, facts, self, self.registry)
            except SinkqlError as error:
                entry = logical.Entry(waiting.id, waiting.name, waiting.kind, statement, facts)
                self._forget(waiting.name)
                self.broken[waiting.name] = Broken(
                    entry, error.within(path=None, text=to_sql(statement)), waiting.writes()
                )
                return
        except BaseException:
            self._entries[waiting.name] = waiting
            raise
        if planned.item.name == waiting.name:
            self._dependencies.unlink(waiting.name)
        else:  # another program changed the file
            self._forget(waiting.name)
        self.keep(planned, qualify(statement, self), facts, waiting.id)

    # --- writing ---

    def add(self, statement: ast.Create, facts: logical.Facts, id: str | None = None) -> Planned:  # noqa: A002 the field's name
        """Plan a statement against this catalog and add its item; on errors nothing changes.

        With IF NOT EXISTS, an existing item of that name stays unchanged, and the plan has a notice.
        """
        full_name = item_name(statement, self)
        present = self.entry(full_name) if statement.if_not_exists else None
        if present is not None:
            return self._skip(statement, present)
        planned = plan(statement, facts, self, self.registry)
        self.check_destination(statement, planned)
        self.keep(planned, qualify(statement, self), facts, id)
        return planned

    def check_destination(self, statement: ast.Create, planned: Planned) -> None:
        """Refuse a sink with the destination of another sink over the same connection (SQ2342)."""
        sink = planned.item
        if not isinstance(statement, ast.CreateSink) or not isinstance(sink, logical.Sink) or sink.destination is None:
            return
        place = self._place_of(sink.connection, sink.destination)
        other = self._find_conflict(sink.name, place, shared=sink.destination.shared)
        if other is not None:
            raise destination_taken_error(statement, sink.destination, other)

    def _find_conflict(self, sink: str, place: Place, *, shared: bool) -> str | None:
        """Return a sink that writes to the same destination, unless both sinks share it."""
        for name, broken in self.broken.items():  # their jobs may still run
            if (
                broken.writes is not None
                and name != sink
                and broken.writes[0] == place
                and not (broken.writes[1] and shared)
            ):
                return name
        return self._all_destinations().find_conflict(sink, place, shared=shared)

    def _all_destinations(self) -> Destinations:
        if self._destinations is None:
            self._destinations = Destinations()
            for name in self.names("SINK"):
                self._update_destination(name)
        return self._destinations

    def _update_destination(self, full_name: str) -> None:
        """Update the destinations for an item, if it is a sink."""
        entry = self._entries[full_name]
        destination = entry.writes() if isinstance(entry, Waiting) else self._destination_of(self._items.get(full_name))
        if self._destinations is None:
            return
        self._destinations.discard(full_name)
        if destination is not None:
            self._destinations.add(full_name, destination[0], shared=destination[1])

    def _destination_of(self, sink: logical.Item | None) -> tuple[Place, bool] | None:
        """Return a planned sink's destination, and whether it shares it; None for other items."""
        if not isinstance(sink, logical.Sink) or sink.destination is None:
            return None
        return self._place_of(sink.connection, sink.destination), sink.destination.shared

    def _place_of(self, connection: str, destination: logical.Destination) -> Place:
        return self._present(connection).id, destination.kind, destination.path

    def keep(self, planned: Planned, statement: ast.Create, facts: logical.Facts, id: str | None = None) -> None:  # noqa: A002 the field's name
        """Add an item planned against this catalog, with its statement with full names."""
        full_name = planned.item.name
        new_id = id or f"u{1 + self._last}"
        self._entries[full_name] = logical.Entry(new_id, full_name, kind_of(statement), statement, facts)
        self._items[full_name] = planned.item
        self._update_destination(full_name)
        self._link(full_name, new_id, planned.dependencies, facts.get(IDENTITY))

    def wait(self, waiting: Iterable[Waiting]) -> None:
        """Add new stored items, in an order in which each follows the items that it uses."""
        for item in waiting:
            self._entries[item.name] = item
            if self._destinations is not None:
                self._update_destination(item.name)
            self._link(item.name, item.id, item.uses, item.identity)

    def remove(self, full_name: str) -> None:
        """Remove an item; raise KeyError if it does not exist. Its dependent items are planned first."""
        if not self.has(full_name):
            raise KeyError(full_name)
        for user in self.all_users(full_name):
            self.entry(user)
        self._forget(full_name)

    def forget(self, full_name: str) -> None:
        """Remove an item if it exists, even a broken one."""
        if self.has(full_name):
            self.remove(full_name)
        self.broken.pop(full_name, None)

    def keep_only(self, ids: Container[str]) -> None:
        """Remove all items except the built-in ones and the ones with these ids, which use no removed item."""
        self.broken.clear()
        for name, entry in self.present().items():
            if entry.id.startswith("u") and entry.id not in ids:
                self._forget(name)

    def _forget(self, full_name: str) -> None:
        del self._entries[full_name]
        self._items.pop(full_name, None)
        if self._destinations is not None:
            self._destinations.discard(full_name)
        self._identities.pop(full_name, None)
        self._dependencies.unlink(full_name)

    def _link(self, full_name: str, item_id: str, uses: tuple[str, ...], identity: str | None) -> None:
        self._dependencies.link(full_name, uses)
        if identity is not None:
            self._identities[full_name] = identity
        if item_id.startswith("u"):
            self._last = max(self._last, int(item_id[1:]))

    def copy(self) -> MemoryCatalog:
        """Return a catalog with the same items and settings, which changes independently."""
        other = copy(self)
        other.take(self)
        other._settings = self._settings.copy()
        return other

    def take(self, other: MemoryCatalog) -> None:
        """Replace the items with another catalog's."""
        self.broken, self._last = dict(other.broken), other._last
        self._entries, self._items = dict(other._entries), dict(other._items)
        self._dependencies, self._identities = other._dependencies.copy(), dict(other._identities)
        self._destinations = other._destinations.copy() if other._destinations is not None else None

    def reset(self, settings: Mapping[str, str]) -> None:
        """Replace all settings; settings that are not listed get their defaults."""
        self._settings = Settings(settings)

    def set(self, name: str, value: str) -> None:
        """Change a setting; `sinkql.planner.item.setting.plan_setting` checks the user's values."""
        self._settings.set(name, value)

    def _skip(self, statement: ast.Create, present: logical.Entry) -> Planned:
        span = statement.name.span if statement.name is not None else statement.span
        notice = Notice("SQ2012", f'{present.kind.lower()} "{present.name}" already exists, skipped', span)
        return Planned(self._items[present.name], (notice,), self._dependencies.uses(present.name))


class WithBroken(OverlayCatalog[MemoryCatalog]):
    """A catalog with the entries of items that can no longer be planned, for users that need only names."""

    def resolve(self, name: ast.Name) -> str:
        return resolve(name, self)

    def has(self, full_name: str) -> bool:
        return self.plans.has(full_name) or full_name in self.plans.broken

    def entry(self, full_name: str) -> logical.Entry | None:
        entry = self.plans.entry(full_name)
        broken = self.plans.broken.get(full_name)
        return entry or (broken.entry if broken is not None else None)

    def facts(self, full_name: str) -> logical.Facts:
        """Return an item's facts without planning it; raise KeyError if it does not exist."""
        broken = self.plans.broken.get(full_name)
        return broken.entry.facts if broken is not None else self.plans.facts(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        broken = [name for name, item in self.plans.broken.items() if item.entry.kind == kind]
        return tuple(sorted([*self.plans.names(kind), *broken]))


@dataclass(frozen=True, slots=True)
class Entries(Mapping[str, logical.Entry]):
    """All items of a catalog by full name, including broken ones; each is planned when it is read."""

    plans: MemoryCatalog

    def __getitem__(self, full_name: str) -> logical.Entry:
        entry = WithBroken(self.plans).entry(full_name)
        if entry is None:
            raise KeyError(full_name)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter([*self.plans.broken, *self.plans.present()])

    def __len__(self) -> int:
        return len(self.plans.broken) + len(self.plans.present())

    def __contains__(self, full_name: object) -> bool:
        return isinstance(full_name, str) and WithBroken(self.plans).has(full_name)
