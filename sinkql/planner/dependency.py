"""Items and what each uses, or is used by → all that is reached; an order in which each comes after what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import TopologicalSorter
from heapq import heappop, heappush

Edges = Callable[[str], Iterable[str]]
"""Return the full names of the items next to one: of those that it uses, or of those that use it."""


def reached(names: Iterable[str], edges: Edges) -> list[str]:
    """Return `names` and all that can be reached from them, each once, what is nearer first."""
    found = dict.fromkeys(names)
    waiting = list(found)
    for name in waiting:
        for near in edges(name):
            if near not in found:
                found[near] = None
                waiting.append(near)
    return waiting


def in_order(uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the keys of `uses`, each after those of them that it uses, and otherwise as they stand.

    Raises graphlib.CycleError.
    """
    names = list(uses)
    places = {name: place for place, name in enumerate(names)}
    if all(places.get(used, -1) < place for name, place in places.items() for used in uses[name]):
        return names  # as nearly always
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
