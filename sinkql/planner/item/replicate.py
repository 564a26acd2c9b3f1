"""WITH (REPLICATE = (…)) of a view → its joins, with what they have whole in every task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import JoinKind
from sinkql.planner.name import short_name
from sinkql.planner.subsource import stand_in

OPTION = "REPLICATE"

_PRESERVED: Mapping[JoinKind, Set[str]] = {
    JoinKind.INNER: frozenset(),
    JoinKind.LEFT: frozenset({"left"}),
    JoinKind.RIGHT: frozenset({"right"}),
    JoinKind.FULL: frozenset({"left", "right"}),
    JoinKind.SEMI: frozenset({"left"}),
    JoinKind.ANTI: frozenset({"left"}),
}
"""The sides whose rows show by what they meet: in every task they would meet a part of it."""


def replicated(
    relation: logical.Relation, options: tuple[ast.Option, ...], catalog: logical.CatalogReader
) -> logical.Relation:
    """Return a view's relation in which sides of joins that read the named relations alone are replicated.

    Raises SQ2103 for what is no list of names, SQ2102, SQ2247 for a name that is no side of a join, SQ2248 for one
    whose rows show without a match too.
    """
    given = [each for each in options if each.name == OPTION]
    if len(given) > 1:
        raise SinkqlError("SQ2102", f"option {OPTION} is given twice", given[1].name_span, hint="Keep one of them.")
    places: dict[str, Span] = {}
    for option in given:
        for name in _names(option):
            places.setdefault(stand_in(catalog.resolve(name), catalog), name.span)
    if not places:
        return relation
    found = _Replicating(frozenset(places))
    above = found.of(relation)
    for full, place in places.items():
        if full not in found.used:
            raise _unused(short_name(full, catalog), place, found.refused.get(full), _sides(relation, catalog))
    return above


@dataclass(slots=True)
class _Replicating:
    """Rewrite the joins above some relations; relations that are used twice stay one."""

    names: frozenset[str]
    used: set[str] = field(default_factory=set)
    refused: dict[str, JoinKind] = field(default_factory=dict)
    _known: dict[int, tuple[logical.Relation, logical.Relation]] = field(default_factory=dict)

    def of(self, relation: logical.Relation) -> logical.Relation:
        """Return a relation with its joins rewritten."""
        known = self._known.get(id(relation))
        if known is not None:
            return known[1]
        found = logical.with_inputs(relation, [self.of(each) for each in logical.inputs_of(relation)])
        if isinstance(found, logical.Join):
            found = replace(found, replicated=self._side(found))
        self._known[id(relation)] = relation, found
        return found

    def _side(self, join: logical.Join) -> Literal["left", "right"] | None:
        left, right = _reads(join.left), _reads(join.right)
        small = [bool(each) and each <= self.names for each in (left, right)]
        if all(small) or not any(small):
            return None
        side: Literal["left", "right"] = "left" if small[0] else "right"
        if side in _PRESERVED[join.kind]:
            self.refused |= dict.fromkeys(left if small[0] else right, join.kind)
            return None
        self.used |= left if small[0] else right
        return side


def _names(option: ast.Option) -> Iterator[ast.Name]:
    items = option.value.items if isinstance(option.value, ast.Sequence) else (option.value,)
    for item in items:
        if not isinstance(item, ast.Word):
            place = option.name_span if item is None else item.span
            message = f"option {OPTION} takes a list of names"
            raise SinkqlError("SQ2103", message, place, hint=f"Write names without quotes, as in {OPTION} = (nation).")
        yield item.name


def _reads(relation: logical.Relation) -> frozenset[str]:
    """Return the names of all that a relation reads."""
    if isinstance(relation, logical.Get):
        return frozenset() if relation == logical.ONE else frozenset({relation.item})
    return frozenset(name for below in logical.inputs_of(relation) for name in _reads(below))


def _sides(relation: logical.Relation, catalog: logical.CatalogReader) -> list[str]:
    """Return the short names of what stands alone on a side of a join that may be replicated."""
    found: dict[str, None] = {}
    if isinstance(relation, logical.Join):
        for side, below in (("left", relation.left), ("right", relation.right)):
            if side not in _PRESERVED[relation.kind] and len(_reads(below)) == 1:
                found |= dict.fromkeys(short_name(name, catalog) for name in _reads(below))
    for below in logical.inputs_of(relation):
        found |= dict.fromkeys(_sides(below, catalog))
    return list(found)


def _unused(name: str, place: Span, refused: JoinKind | None, others: list[str]) -> SinkqlError:
    hint = f"Of this view these can be replicated: {', '.join(others)}." if others else f"Leave out {OPTION}."
    if refused is None:
        return SinkqlError("SQ2247", f'"{name}" is not a side of a join of the view', place, hint=hint)
    why = "the join shows its rows without a match, too"
    if refused in (JoinKind.SEMI, JoinKind.ANTI):
        why = "a subquery decides which of its rows show"
    return SinkqlError("SQ2248", f'"{name}" cannot be replicated: {why}', place, hint=hint)
