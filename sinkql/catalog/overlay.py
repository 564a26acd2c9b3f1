"""A catalog with additional or changed items, for the planning of one statement."""

from __future__ import annotations

from typing import Generic, TypeVar

from sinkql import ast, logical
from sinkql.keywords import Keywords

_Plans = TypeVar("_Plans", bound=logical.CatalogReader)


class OverlayCatalog(Generic[_Plans]):
    """A `CatalogReader` with the items of `overlaid`, and otherwise the items of `plans`."""

    def __init__(self, plans: _Plans) -> None:
        self.plans = plans

    def overlaid(self, full_name: str) -> logical.Item | None:
        """Return an additional or changed item; None for the item of the catalog."""
        return None

    def resolve(self, name: ast.Name) -> str:
        return self.plans.resolve(name)

    def locate(self, name: ast.Name) -> str:
        return self.plans.locate(name)

    def has(self, full_name: str) -> bool:
        return self.plans.has(full_name)

    def entry(self, full_name: str) -> logical.Entry | None:
        return self.plans.entry(full_name)

    def item(self, full_name: str) -> logical.Item | None:
        return self.overlaid(full_name) or self.plans.item(full_name)

    def names(self, kind: str) -> tuple[str, ...]:
        return self.plans.names(kind)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        return self.plans.dependents(full_name)

    def setting(self, name: str) -> str:
        return self.plans.setting(name)

    @property
    def words(self) -> Keywords:
        return self.plans.words
