"""Any dataclass → its tree: its class, then its fields; spans, empty fields and secrets are left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from sinkql import ast, logical
from sinkql.errors import Span
from sinkql.explain.item import shape
from sinkql.explain.tree import Tree, tree
from sinkql.explain.word import flat, scalar


def node_tree(value: Any) -> Tree:
    """Return the tree of a statement, or of anything that is made of dataclasses."""
    return tree(type(value).__name__, _fields(value))


def _fields(value: Any) -> Iterator[str | Tree]:
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if field.repr and not (inner is None or inner == () or inner == {} or isinstance(inner, Span)):
            yield from _field(field.name.replace("_", " "), inner)


def _field(name: str, value: Any) -> Iterator[str | Tree]:
    match value:
        case ast.Ident() | ast.Name():
            yield f"{name}: {value.value if isinstance(value, ast.Ident) else value.text}"
        case ast.Query() | ast.Expression():
            yield tree(f"{name}:", (line.strip() for line in value.text.splitlines()))
        case logical.Shape():
            yield from shape(value)
        case tuple():
            yield tree(f"{name}:", (node_tree(each) if dataclasses.is_dataclass(each) else str(each) for each in value))
        case Mapping():
            yield from flat(value)
        case Enum():
            yield f"{name}: {value.value}"
        case _ if dataclasses.is_dataclass(value):
            yield tree(f"{name}:", node_tree(value))
        case _:
            yield f"{name}: {scalar(value)}"
