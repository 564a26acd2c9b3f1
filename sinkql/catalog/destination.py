"""Which sinks write to which place: a second one is refused where it would be in the way of the first."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import short_name

Place = tuple[str, str, tuple[str, ...]]
"""The id of a connection, and the kind and path of what is written to there."""


class Destinations:
    """The places of the sinks of a catalog; each sink with whether others may write there too."""

    def __init__(self) -> None:
        self._sinks: dict[Place, dict[str, bool]] = {}
        self._places: dict[str, Place] = {}

    def add(self, sink: str, place: Place, *, shared: bool) -> None:
        self._sinks.setdefault(place, {})[sink] = shared
        self._places[sink] = place

    def discard(self, sink: str) -> None:
        place = self._places.pop(sink, None)
        if place is not None:
            del self._sinks[place][sink]

    def copy(self) -> Destinations:
        other = Destinations()
        other._sinks = {place: dict(sinks) for place, sinks in self._sinks.items()}
        other._places = dict(self._places)
        return other

    def in_the_way(self, sink: str, place: Place, *, shared: bool) -> str | None:
        """Return a sink that writes to the place of another one, where not both of them share it."""
        others = self._sinks.get(place, {}).items()
        return next((name for name, shares in others if name != sink and not (shares and shared)), None)


def taken(statement: ast.CreateSink, place: logical.Destination, other: str) -> SinkqlError:
    """Return the error for a sink that would write to where the sink `other` does."""
    options = statement.options
    span = Span(options[0].name_span.start, options[-1].span.end) if options else statement.kind_span
    message = f'sink "{short_name(other)}" already writes to {place.kind} "{place.name}"'
    return SinkqlError("SQ2342", message, span, hint=place.apart)
