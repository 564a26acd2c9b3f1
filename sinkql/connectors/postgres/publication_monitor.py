"""Look at a publication regularly, and report its gaps once all earlier changes were received."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sinkql.connector_api.cdc import SchemaChanged
from sinkql.connectors.postgres.chunk import END
from sinkql.connectors.postgres.gap_detection import PublicationWatch, SentTables, read_publication
from sinkql.connectors.postgres.slot import Connection, query_value, read_place
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_WATCH_S = 1.0
_WATCH_TIMES = 20
"""At most one in this many seconds is spent on looks at many tables or at a slow server."""
_SENT_TO = END.replace("_insert_", "_flush_")
"""The place up to which the server sends its log, in SQL."""


@dataclass(slots=True)
class _Look:
    """The state of the publication's tables `at` a time, when the server's log ended before `end`.

    `truncations` had been received by then. `reported` is whether its schema changes were returned.
    """

    tables: Mapping[str, SentTables]
    end: int
    truncations: int
    at: float
    reported: bool = False


class PublicationMonitor:
    """Compares looks at a publication. `unpublished` makes the error of a missing publication."""

    def __init__(self, watch: PublicationWatch, unpublished: Callable[[], SinkqlError]) -> None:
        self._watch = watch
        self._unpublished = unpublished
        self._last_look: _Look | None = None
        self._look_again_at = self._compared_at = float("-inf")

    def schema_changes(
        self, connect: Callable[[], Connection], truncations: list[tuple[str, int]], received: int | None
    ) -> Sequence[SchemaChanged]:
        """Return the schema changes since the last look, once all changes before the look were received.

        `received` is the end of the received changes, None within a transaction. The schema changes of the previous
        call are durable by now, so that their look is recorded and its `truncations` are removed.
        """
        look, now = self._last_look, clock.monotonic()
        if look is not None and look.reported:
            self._watch.keep(look.tables)
            del truncations[: look.truncations]
            look = self._last_look = None
        if look is None:
            if now < self._look_again_at:
                return ()
            look = self._last_look = self._look(connect(), len(truncations), now)
            self._look_again_at = now + max(_WATCH_S, _WATCH_TIMES * (clock.monotonic() - now))
        if received is None or received < look.end:
            return ()
        look.reported, self._compared_at = True, look.at
        return self._watch.compare(connect(), look.tables, truncations)

    def _look(self, connection: Connection, truncations: int, at: float) -> _Look:
        tables = read_publication(connection, self._watch.publication, self._watch.tables, self._watch.recorded)
        if tables is None:
            raise self._unpublished()
        return _Look(tables, read_place(query_value(connection, f"SELECT {_SENT_TO}")), truncations, at)

    def looked_since(self, moment: float) -> bool:
        """Return whether a look since a moment was compared; else request a look."""
        last = self._compared_at if self._last_look is None else self._last_look.at
        if last < moment:
            self._look_again_at = float("-inf")
        return self._compared_at >= moment
