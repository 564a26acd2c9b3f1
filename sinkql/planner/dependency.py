"""Follow dependencies between items, and order items by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import TopologicalSorter
from heapq import heappop, heappush

Edges = Callable[[str], Iterable[str]]
"""A function that returns the full names of an item's neighbours: the items that it uses, or that use it."""


def reached(names: Iterable[str], edges: Edges) -> list[str]:
    """Return `names` and all names reachable from them, without duplicates, the nearer ones first."""
    names_reached = dict.fromkeys(names)
    waiting = list(names_reached)
    for name in waiting:
        for neighbour in edges(name):
            if neighbour not in names_reached:
                names_reached[neighbour] = None
                waiting.append(neighbour)
    return waiting


def in_order(uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the keys of `uses` so that each follows the items that it uses, otherwise in their present order.

    Raises graphlib.CycleError.
    """
    names = list(uses)
    places = {name: place for place, name in enumerate(names)}
    if all(places.get(used, -1) < place for name, place in places.items() for used in uses[name]):
        return names  # the usual case
    sorter = TopologicalSorter({name: [used for used in uses[name] if used in places] for name in names})
    sorter.prepare()
    ready: list[int] = []
    order: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, places[name])
        order.append(names[heappop(ready)])
        sorter.done(order[-1])
    return order
