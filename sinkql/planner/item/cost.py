"""What a view means → notices of what each change of its inputs costs, where it reads all rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sinkql import logical
from sinkql.errors import Notice, Span
from sinkql.logical.expression import NOWHERE
from sinkql.planner.name import short_name


def costs(relation: logical.Relation, query: Span, catalog: logical.CatalogReader) -> Iterator[Notice]:
    """Yield a notice for each join without an equality (SQ2229) and each function of all rows (SQ2239).

    `query` is the place of what has none of its own.
    """
    match relation:
        case logical.Join() if not relation.keys:
            yield from _of_pairs(relation, query, catalog)
        case logical.Window() if not relation.partition:
            function, span = _first(relation.calls, query)
            why = f"{function} is over a window without PARTITION BY"
            hint = "With PARTITION BY, a change reads only the rows of its partition."
            yield from _of_all(relation.input, why, span, hint, catalog)
        case logical.Collect() if not relation.group:
            function, span = _first(relation.calls, query)
            why = f"{function} is over all of them"
            hint = "With GROUP BY, a change reads only the rows of its group."
            yield from _of_all(relation.input, why, span, hint, catalog)
        case logical.Rank(last=None) if not relation.partition:
            why, hint = "OFFSET has no LIMIT", "With LIMIT, a change reads only the first rows."
            yield from _of_all(relation.input, why, query, hint, catalog)
        case _:
            pass
    for below in logical.inputs_of(relation):
        yield from costs(below, query, catalog)


def _of_pairs(join: logical.Join, query: Span, catalog: logical.CatalogReader) -> Iterator[Notice]:
    sides = (join.left, join.right)
    if any(map(logical.one_row, sides)):
        return
    first, other = (_read(side, catalog) for side in sides)
    span = query if join.residual is None else join.residual.span
    hint = "The join has no equality; with one, a change reads only the rows that are equal to it."
    yield Notice("SQ2229", f"each change of {other} reads all of {first}", span, hint=hint)


def _of_all(
    relation: logical.Relation, why: str, span: Span, hint: str, catalog: logical.CatalogReader
) -> Iterator[Notice]:
    if not logical.one_row(relation):
        yield Notice("SQ2239", f"each change of {_read(relation, catalog)} reads all rows: {why}", span, hint=hint)


def _first(calls: Sequence[logical.WindowCall], query: Span) -> tuple[str, Span]:
    """Return the first function whose place is known, and its place."""
    call = next((each for each in calls if each.span != NOWHERE), calls[0])
    called = f"{call.function}({'DISTINCT …' if call.distinct else ''})"
    return called, query if call.span == NOWHERE else call.span


def _read(relation: logical.Relation, catalog: logical.CatalogReader) -> str:
    """Return the names of what a relation reads."""
    return " and ".join(dict.fromkeys(_names(relation, catalog)))


def _names(relation: logical.Relation, catalog: logical.CatalogReader) -> Iterator[str]:
    if isinstance(relation, logical.Get):
        yield f'"{short_name(relation.item, catalog)}"'
    for below in logical.inputs_of(relation):
        yield from _names(below, catalog)
