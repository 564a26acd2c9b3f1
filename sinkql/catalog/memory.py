"""A catalog in memory: CREATE statements with facts → planned items, by full name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.update import Changes, replan, steps
from sinkql.connector.registry import Registry
from sinkql.errors import Notice
from sinkql.planner import Planned, plan, qualify
from sinkql.planner.name import BUILT_IN_CLUSTER, DATABASE, SCHEMA, inside, locate, resolve
from sinkql.planner.setting import DEFAULTS, unknown_setting
from sinkql.planner.statement import item_name, kind_of


class MemoryCatalog:
    """Hold items and settings while a process runs; implements `logical.CatalogReader`.

    The cluster `quickstart` (all cores of this host), the database `materialize` and its schema `public` are always
    there.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._entries: dict[str, logical.Entry] = {}
        self._items: dict[str, logical.Item] = {}
        self._dependencies: dict[str, tuple[str, ...]] = {}
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

    def entry(self, full_name: str) -> logical.Entry | None:
        return self._entries.get(full_name)

    def item(self, full_name: str) -> logical.Item | None:
        return self._items.get(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(name for name, entry in self._entries.items() if entry.kind == kind))

    def setting(self, name: str) -> str:
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        return self._settings.get(name, DEFAULTS[name])

    # --- more of what is there ---

    def entries(self) -> tuple[logical.Entry, ...]:
        """Return all entries in the order they were added, the built-in cluster first."""
        return tuple(self._entries.values())

    def dependencies(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that an item uses directly."""
        return self._dependencies[full_name]

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it, in the order they were added."""
        if full_name.endswith("."):
            return inside(full_name, self._entries)
        return tuple(name for name, used in self._dependencies.items() if full_name in used)

    # --- writing ---

    def add(self, statement: ast.Create, facts: logical.Facts, id: str | None = None) -> Planned:  # noqa: A002 the field's name
        """Plan a statement against what is here and keep it; raises what `plan` raises, and then keeps nothing.

        With IF NOT EXISTS an item of that name stays as it is, and a notice says so.
        """
        full_name = item_name(statement, self)
        present = self._entries.get(full_name)
        if present is not None and statement.if_not_exists:
            return self._skipped(statement, present)
        planned = plan(statement, facts, self, self._registry)
        stored = qualify(statement, self)
        item = planned.item
        if isinstance(stored, ast.CreateView) and stored != statement:
            # spans in the relation must point into the text that is stored
            item = plan(stored, facts, self, self._registry).item
        new_id = (
            id
            or f"u{1 + max((int(entry.id[1:]) for entry in self._entries.values() if entry.id[0] == 'u'), default=0)}"
        )
        self._entries[full_name] = logical.Entry(new_id, full_name, kind_of(statement), stored, facts)
        self._items[full_name] = item
        self._dependencies[full_name] = planned.dependencies
        return replace(planned, item=item)

    def remove(self, full_name: str) -> None:
        """Forget an item, whoever depends on it; KeyError if there is none."""
        del self._entries[full_name], self._items[full_name], self._dependencies[full_name]

    def update(self, changes: Changes) -> None:
        """Put statements in the place of items, which keep their ids; all that depends on them is planned again.

        Raises what does not plan, and then changes nothing. What changed stands behind all else in `entries`.
        """
        users = {name: self.dependents(name) for name in self._entries}
        after = self.copy()
        replan(after, steps(changes, self._entries, users), changes=changes)
        self._entries, self._items, self._dependencies = after._entries, after._items, after._dependencies

    def copy(self) -> MemoryCatalog:
        """Return a catalog of the same items and settings, which can change without this one."""
        other = MemoryCatalog(self._registry)
        other._entries, other._items = dict(self._entries), dict(self._items)
        other._dependencies, other._settings = dict(self._dependencies), dict(self._settings)
        return other

    def reset(self, settings: Mapping[str, str]) -> None:
        """Set all settings anew: those that are not given have their defaults."""
        self._settings = {}
        for name, value in settings.items():
            self.set(name, value)

    def set(self, name: str, value: str) -> None:
        """Change a setting; `sinkql.planner.setting.plan_setting` checks what users write."""
        if name not in DEFAULTS:
            raise unknown_setting(name, None)
        self._settings[name] = value

    def _skipped(self, statement: ast.Create, present: logical.Entry) -> Planned:
        kind = present.kind.lower()
        assert statement.name is not None
        notice = Notice("SQ2012", f'{kind} "{present.name}" already exists, skipped', statement.name.span)
        return Planned(self._items[present.name], (notice,), self._dependencies[present.name])
