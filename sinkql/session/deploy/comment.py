"""Comments as they are stored and as scripts want them → the steps from one to the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.planner.name import as_name, qualified_name
from sinkql.session.deploy.step import Step

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
