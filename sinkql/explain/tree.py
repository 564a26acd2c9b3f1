"""A plan as a tree of titles and details, and its indented text or graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """A node: its title, then its details (texts) and the nodes below it, in order."""

    title: str
    parts: tuple[str | Tree, ...] = ()


def tree(title: str, *parts: str | Tree | Iterable[str | Tree] | None) -> Tree:
    """Return a node; None among the parts is omitted, and an iterable adds all of its parts."""
    nodes: list[str | Tree] = []
    for part in parts:
        match part:
            case None:
                pass
            case str() | Tree():
                nodes.append(part)
            case _:
                nodes.extend(part)
    return Tree(title, tuple(nodes))


def with_notes(node: Tree, notes: Iterable[str]) -> Tree:
    """Return a node with details added after its own."""
    first = next((place for place, part in enumerate(node.parts) if isinstance(part, Tree)), len(node.parts))
    return Tree(node.title, (*node.parts[:first], *notes, *node.parts[first:]))


def lines(node: Tree) -> Iterator[str]:
    """Yield the node as text; each level is two spaces further in."""
    yield node.title
    for part in node.parts:
        inner = lines(part) if isinstance(part, Tree) else iter([part])
        yield from (f"  {line}" for line in inner)


def dot(node: Tree) -> str:
    """Return the node as a graph in the DOT language: a box for each node, arrows from inputs to readers."""
    return "\n".join(["digraph plan {", "  rankdir = BT;", "  node [shape = box];", *_boxes(node, [0]), "}"])


def _boxes(node: Tree, count: list[int]) -> Iterator[str]:
    number = count[0]
    details = [node.title, *(part for part in node.parts if isinstance(part, str))]
    label = "\\l".join(_escaped(detail) for detail in details)
    yield f'  n{number} [label = "{label}\\l"];'
    for part in node.parts:
        if isinstance(part, Tree):
            count[0] += 1
            yield f"  n{count[0]} -> n{number};"
            yield from _boxes(part, count)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
