"""A catalog in memory: CREATE statements with facts → planned items, by full name.

Which sinks write to which place: a second one is refused where it would be in the way of the first.
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
"""The id of a connection, and the kind and path of what is written to there."""


class Destinations:
    """The places of the sinks of a catalog; each sink with whether others may write there too."""

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

    def in_the_way(self, sink: str, place: Place, *, shared: bool) -> str | None:
        """Return a sink that writes to the place of another one, where not both of them share it."""
        others = self._sinks.get(place, {}).items()
        return next((name for name, shares in others if name != sink and not (shares and shared)), None)


def taken(statement: ast.CreateSink, place: logical.Destination, other: str) -> SinkqlError:
    """Return the error for a sink that would write to where the sink `other` does."""
    options = statement.options
    span = Span(options[0].name_span.start, options[-1].span.end) if options else statement.kind_span
    message = f'sink "{short_name(other)}" already writes to {place.kind} "{place.name}"'
    return SinkqlError("SQ2342", message, span, hint=place.apart)


IDENTITY = "identity"
"""The fact that holds the name under which jobs know a source or table that has another name now."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A stored item that can no longer be planned, the error, and where a sink writes, as `Waiting` has it."""

    entry: logical.Entry
    error: SinkqlError
    writes: tuple[Place, bool] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A stored item that nobody has asked for yet: it is read and planned when somebody does.

    `uses` are the full names of what it was stored to use. `read` and `facts` return its statement and facts, or raise
    where these do not parse; `open` puts the literals into the statement that are kept encrypted.
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
    """Where a sink writes, and whether others may too; read without planning it."""


class MemoryCatalog:
    """Items and settings while a process runs; implements `logical.CatalogReader`.

    The cluster `quickstart` (all cores of this host), the database `materialize` and its schema `public` are always
    there. Items that wait to be planned are, as soon as they are asked for by name; one that then does not plan is in
    `broken`, and no item any more.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.broken: dict[str, Broken] = {}
        self._entries: dict[str, logical.Entry | Waiting | None] = {}  # None is one that is being planned
        self._items: dict[str, logical.Item] = {}
        self._dependencies: dict[str, tuple[str, ...]] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._identities: dict[str, str] = {}
        self._destinations: Destinations | None = None  # of all sinks, as soon as somebody asks
        self._last = 0
        self._settings: dict[str, str] = {}
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
        found = self._entries.get(full_name)
        if isinstance(found, Waiting):
            self._plan(found)
            found = self._entries.get(full_name)
            assert not isinstance(found, Waiting)
        return found

    def item(self, full_name: str) -> logical.Item | None:
        self.entry(full_name)
        return self._items.get(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(name for name, each in self._entries.items() if each is not None and each.kind == kind))

    def setting(self, name: str) -> str:
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        return self._settings.get(name, DEFAULTS[name])

    @property
    def words(self) -> Keywords:
        return self.registry.vocabulary

    # --- more of what is there ---

    def planned(self, kind: str) -> tuple[str, ...]:
        """Return the full names of all items of a kind that can be planned, and plan them."""
        return tuple(name for name in self.names(kind) if self.entry(name) is not None)

    def plan_all(self) -> None:
        """Plan all items that wait."""
        for name in tuple(self._entries):
            self.entry(name)

    def entries(self) -> tuple[logical.Entry, ...]:
        """Return all entries in the order they were added, the built-in cluster first."""
        self.plan_all()
        return tuple(each for each in self._entries.values() if isinstance(each, logical.Entry))

    def present(self) -> dict[str, logical.Entry | Waiting]:
        """Return what there is by full name, planned or waiting, in the order it was added."""
        return {name: each for name, each in self._entries.items() if each is not None}

    def facts(self, full_name: str) -> logical.Facts:
        """Return an item's facts, without planning it; KeyError if there is none."""
        found = self._entries[full_name]
        assert found is not None, "nothing asks for the facts of what is being planned"
        return found.facts() if isinstance(found, Waiting) else found.facts

    def dependencies(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that an item uses directly."""
        self.entry(full_name)
        return self._dependencies[full_name]

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it, in the order they were added."""
        if full_name.endswith("."):
            return inside(full_name, self._entries)
        return tuple(self._users.get(full_name, ()))

    def all_used(self, full_name: str) -> list[str]:
        """Return the full names of the items that an item uses, directly or not, sorted."""
        return sorted({*reached([full_name], self._used_here)} - {full_name})

    def all_users(self, full_name: str) -> list[str]:
        """Return the full names of the items that use an item or are in it, directly or not."""
        return [name for name in reached([full_name], self.dependents) if name != full_name]

    def identities(self) -> frozenset[str]:
        """Return the names under which jobs know items that have other names now."""
        return frozenset(self._identities.values())

    def _used_here(self, full_name: str) -> list[str]:
        return [name for name in self.dependencies(full_name) if self.has(name)]

    # --- planning what waits ---

    def _plan(self, wanted: Waiting) -> None:
        """Plan an item, and before it what it was stored to use: a long chain takes no stack."""
        uses = {name: self._dependencies[name] for name in self._waiting_for(wanted)}
        try:
            order = in_order(uses)
        except CycleError:  # another program changed the file
            order = [*uses][::-1]
        for name in order:
            each = self._entries[name]
            if isinstance(each, Waiting):
                self._plan_one(each)

    def _waiting_for(self, wanted: Waiting) -> list[str]:
        def edges(name: str) -> Iterable[str]:
            return [used for used in self._dependencies[name] if isinstance(self._entries.get(used), Waiting)]

        return reached([wanted.name], edges)

    def _plan_one(self, each: Waiting) -> None:
        self._entries[each.name] = None
        try:
            statement, facts = each.read(), each.facts()
            try:
                statement = each.open(statement)
                planned = plan(statement, facts, self, self.registry)
            except SinkqlError as error:
                entry = logical.Entry(each.id, each.name, each.kind, statement, facts)
                self._forget(each.name)
                self.broken[each.name] = Broken(entry, error.within(path=None, text=to_sql(statement)), each.writes())
                return
        except BaseException:
            self._entries[each.name] = each
            raise
        if planned.item.name == each.name:
            self._unlink(each.name)
        else:  # another program changed the file
            self._forget(each.name)
        self.keep(planned, qualify(statement, self), facts, each.id)

    # --- writing ---

    def add(self, statement: ast.Create, facts: logical.Facts, id: str | None = None) -> Planned:  # noqa: A002 the field's name
        """Plan a statement against what is here and keep it; raises what `plan` raises, and then keeps nothing.

        With IF NOT EXISTS an item of that name stays as it is, and a notice says so.
        """
        full_name = item_name(statement, self)
        present = self.entry(full_name) if statement.if_not_exists else None
        if present is not None:
            return self._skipped(statement, present)
        planned = plan(statement, facts, self, self.registry)
        self.check_destination(statement, planned)
        self.keep(planned, qualify(statement, self), facts, id)
        return planned

    def check_destination(self, statement: ast.Create, planned: Planned) -> None:
        """Refuse a sink that would write where another one does over the same connection (SQ2342)."""
        sink = planned.item
        written = self._writes(sink)
        if not isinstance(statement, ast.CreateSink) or not isinstance(sink, logical.Sink) or written is None:
            return
        other = self._in_the_way(sink.name, written[0], shared=written[1])
        if other is not None:
            assert sink.destination is not None
            raise taken(statement, sink.destination, other)

    def _in_the_way(self, sink: str, place: Place, *, shared: bool) -> str | None:
        """Return a sink that writes to the place of another one, where not both of them share it."""
        for name, each in self.broken.items():  # what was started of it may run still
            if each.writes is not None and name != sink and each.writes[0] == place and not (each.writes[1] and shared):
                return name
        return self._known_destinations().in_the_way(sink, place, shared=shared)

    def _known_destinations(self) -> Destinations:
        if self._destinations is None:
            self._destinations = Destinations()
            for name in self.names("SINK"):
                self._note(name)
        return self._destinations

    def _note(self, full_name: str) -> None:
        """Write down where an item writes, if it is a sink."""
        each = self._entries[full_name]
        written = each.writes() if isinstance(each, Waiting) else self._writes(self._items.get(full_name))
        if self._destinations is None:
            return
        self._destinations.discard(full_name)
        if written is not None:
            self._destinations.add(full_name, written[0], shared=written[1])

    def _writes(self, sink: logical.Item | None) -> tuple[Place, bool] | None:
        """Return where a planned sink writes, and whether others may too; None of all else."""
        if not isinstance(sink, logical.Sink) or sink.destination is None:
            return None
        connection = self._entries[sink.connection]
        assert connection is not None
        return (connection.id, sink.destination.kind, sink.destination.path), sink.destination.shared

    def keep(self, planned: Planned, statement: ast.Create, facts: logical.Facts, id: str | None = None) -> None:  # noqa: A002 the field's name
        """Keep what was planned against what is here, under its statement with full names."""
        full_name = planned.item.name
        new_id = id or f"u{1 + self._last}"
        self._entries[full_name] = logical.Entry(new_id, full_name, kind_of(statement), statement, facts)
        self._items[full_name] = planned.item
        self._note(full_name)
        self._link(full_name, new_id, planned.dependencies, facts.get(IDENTITY))

    def wait(self, waiting: Iterable[Waiting]) -> None:
        """Take in stored items of names that are not here yet, in an order in which each comes after what it uses."""
        for each in waiting:
            self._entries[each.name] = each
            if self._destinations is not None:
                self._note(each.name)
            self._link(each.name, each.id, each.uses, each.identity)

    def remove(self, full_name: str) -> None:
        """Forget an item; KeyError if there is none. What depends on it keeps its plan, and gets one if it waits."""
        if not self.has(full_name):
            raise KeyError(full_name)
        for user in self.all_users(full_name):
            self.entry(user)
        self._forget(full_name)

    def forget(self, full_name: str) -> None:
        """Forget an item if it is here, also one that can no longer be planned."""
        if self.has(full_name):
            self.remove(full_name)
        self.broken.pop(full_name, None)

    def keep_only(self, ids: Container[str]) -> None:
        """Forget all items but the built-in ones and those of these ids, none of which uses another item."""
        self.broken.clear()
        for name, each in self.present().items():
            if each.id.startswith("u") and each.id not in ids:
                self._forget(name)

    def _forget(self, full_name: str) -> None:
        del self._entries[full_name]
        self._items.pop(full_name, None)
        if self._destinations is not None:
            self._destinations.discard(full_name)
        self._identities.pop(full_name, None)
        self._unlink(full_name)

    def _link(self, full_name: str, item_id: str, uses: tuple[str, ...], identity: str | None) -> None:
        self._dependencies[full_name] = uses
        for used in uses:
            self._users.setdefault(used, {})[full_name] = None
        if identity is not None:
            self._identities[full_name] = identity
        if item_id.startswith("u"):
            self._last = max(self._last, int(item_id[1:]))

    def _unlink(self, full_name: str) -> None:
        for used in self._dependencies.pop(full_name, ()):
            del self._users[used][full_name]

    def copy(self) -> MemoryCatalog:
        """Return a catalog of the same items and settings, which can change without this one."""
        other = copy(self)
        other.take(self)
        other._settings = dict(self._settings)
        return other

    def take(self, other: MemoryCatalog) -> None:
        """Go on with the items of another catalog."""
        self.broken, self._last = dict(other.broken), other._last
        self._entries, self._items = dict(other._entries), dict(other._items)
        self._dependencies, self._identities = dict(other._dependencies), dict(other._identities)
        self._users = {name: dict(users) for name, users in other._users.items()}
        self._destinations = other._destinations.copy() if other._destinations is not None else None

    def reset(self, settings: Mapping[str, str]) -> None:
        """Replace all settings: those that are not given have their defaults."""
        self._settings = {}
        for name, value in settings.items():
            self.set(name, value)

    def set(self, name: str, value: str) -> None:
        """Change a setting; `sinkql.planner.item.setting.plan_setting` checks what users write."""
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        self._settings[name] = value

    def _skipped(self, statement: ast.Create, present: logical.Entry) -> Planned:
        kind = present.kind.lower()
        assert statement.name is not None
        notice = Notice("SQ2012", f'{kind} "{present.name}" already exists, skipped', statement.name.span)
        return Planned(self._items[present.name], (notice,), self._dependencies[present.name])


class WithBroken(OverlayCatalog[MemoryCatalog]):
    """A catalog's plans, and the entries of items that do not plan any more: enough where only names matter."""

    def resolve(self, name: ast.Name) -> str:
        return resolve(name, self)

    def has(self, full_name: str) -> bool:
        return self.plans.has(full_name) or full_name in self.plans.broken

    def entry(self, full_name: str) -> logical.Entry | None:
        found = self.plans.entry(full_name)
        broken = self.plans.broken.get(full_name)
        return found or (broken.entry if broken is not None else None)

    def facts(self, full_name: str) -> logical.Facts:
        """Return an item's facts, without planning it; KeyError if there is none."""
        broken = self.plans.broken.get(full_name)
        return broken.entry.facts if broken is not None else self.plans.facts(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        broken = [name for name, each in self.plans.broken.items() if each.entry.kind == kind]
        return tuple(sorted([*self.plans.names(kind), *broken]))


@dataclass(frozen=True, slots=True)
class Entries(Mapping[str, logical.Entry]):
    """All items of a catalog by full name, also those that can no longer be planned; each is planned as it is read."""

    plans: MemoryCatalog

    def __getitem__(self, full_name: str) -> logical.Entry:
        found = WithBroken(self.plans).entry(full_name)
        if found is None:
            raise KeyError(full_name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter([*self.plans.broken, *self.plans.present()])

    def __len__(self) -> int:
        return len(self.plans.broken) + len(self.plans.present())

    def __contains__(self, full_name: object) -> bool:
        return isinstance(full_name, str) and WithBroken(self.plans).has(full_name)
