"""Plans and the items that plan no more → one catalog to read, for what needs names alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sinkql import ast, logical
from sinkql.planner.name import resolve


@dataclass(frozen=True, slots=True)
class WithBroken:
    """Read a catalog's plans, and the entries of items without one; see `logical.CatalogReader`."""

    plans: logical.CatalogReader
    broken: Mapping[str, logical.Entry]

    def resolve(self, name: ast.Name) -> str:
        return resolve(name, self)

    def locate(self, name: ast.Name) -> str:
        return self.plans.locate(name)

    def entry(self, full_name: str) -> logical.Entry | None:
        return self.plans.entry(full_name) or self.broken.get(full_name)

    def item(self, full_name: str) -> logical.Item | None:
        return self.plans.item(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        broken = [name for name, entry in self.broken.items() if entry.kind == kind]
        return tuple(sorted([*self.plans.names(kind), *broken]))

    def setting(self, name: str) -> str:
        return self.plans.setting(name)
