"""How far sinks are → what the server may forget, and which entries of the log may go."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sinkql.capture import mark
from sinkql.capture.host import Client
from sinkql.capture.log import Entry, Generation
from sinkql.capture.reader import Place
from sinkql.extension.capture import Position


@dataclass(frozen=True, slots=True)
class Marks:
    """How far the sinks of the catalog are that read the source, and which of them wait for a generation."""

    at: Mapping[str, mark.At]
    wants: Mapping[str, mark.Want]

    @classmethod
    def read(cls, folder: Path, clients: Sequence[Client]) -> Marks:
        """Read them, and delete those of sinks that are not in the catalog any more."""
        known = {each.sink_id: each for each in clients}
        at: dict[str, mark.At] = dict(mark.all_of(folder, "at", mark.At))
        wants: dict[str, mark.Want] = dict(mark.all_of(folder, "want", mark.Want))
        for what, found in (("at", at), ("want", wants)):
            for sink_id in found.keys() - known.keys():
                (folder / what / f"{sink_id}.json").unlink(missing_ok=True)
        for sink_id, client in known.items():
            if sink_id not in at and client.offsets is not None:
                place = msgspec.convert(client.offsets, Place)
                if place.began:
                    at[sink_id] = place.at(client.table.id)
        return cls(
            {name: each for name, each in at.items() if name in known},
            {name: each for name, each in wants.items() if name in known},
        )

    def positions(self) -> list[Position]:
        """Return how far the sinks are, in order, each position once."""
        return sorted({each.to for each in self.at.values()})

    def readers(self, tables: Container[str]) -> Mapping[int, Sequence[mark.At]]:
        """Return how far those are that read, or have read, generations of some tables, by the generation's number."""
        found: dict[int, list[mark.At]] = {}
        for each in self.at.values():
            if each.generation is not None and each.table in tables:
                found.setdefault(each.generation, []).append(each)
        return found

    def of(self, generation: Generation) -> list[mark.At]:
        """Return how far those are that read a generation's chunks."""
        return [each for each in self.at.values() if each.generation == generation.number and not each.done]


def needed(entries: Sequence[Entry], marks: Marks, generations: Sequence[Generation]) -> Position | None:
    """Return the position after which some sink needs the changes; None where no sink needs any."""
    wanted = {each.table for each in marks.wants.values()}
    first = entries[0].entry
    begins = [each.begin for each in _latest(generations) if each.table in wanted and each.begin >= first]
    return min([*marks.positions(), *(entries[begin - first].start for begin in begins)], default=None)


def forgettable(
    entries: Sequence[Entry], confirmed: Position, marks: Marks, generations: Sequence[Generation], *, before: float
) -> int:
    """Return how many of the first entries no sink needs and the server has confirmed, of those older than a time.

    A generation that sinks wait for is kept from its beginning.
    """
    wanted = {each.table for each in marks.wants.values()}
    begins = [each.begin for each in _latest(generations) if each.table in wanted]
    first = min(begins, default=1 << 62)
    count = 0
    for entry in entries:
        if entry.to > confirmed or entry.at >= before or entry.entry >= first:
            break
        if any(_needs(at, entry) for at in marks.at.values()):
            break
        count += 1
    return count


def _needs(at: mark.At, entry: Entry) -> bool:
    """Tell whether a sink has not gone past an entry, as far as one can know."""
    return entry.entry > at.entry if at.log == entry.log else entry.to >= at.to


def _latest(generations: Sequence[Generation]) -> Sequence[Generation]:
    """Return the last generation of each table."""
    return list({each.table: each for each in sorted(generations, key=lambda each: each.number)}.values())
