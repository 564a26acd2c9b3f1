"""Two statements that create an item, and what each means → whether they differ in spelling alone."""

from __future__ import annotations

import dataclasses

from sinkql import ast, logical


def differs_only_in_spelling(
    old: ast.Create, new: ast.Create, before: logical.Item | None, after: logical.Item | None
) -> bool:
    """Tell whether two statements differ in options alone, and mean the same by them.

    An option that is set to its default, and another spelling of a duration or a word, change nothing.
    """
    return before is not None and before == after and _without_options(old) == _without_options(new)


def _without_options(node: object) -> object:
    if isinstance(node, tuple):
        return tuple(_without_options(each) for each in node if not isinstance(each, ast.Option))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.compare)
        return type(node), tuple(_without_options(getattr(node, name)) for name in parts)
    return node
