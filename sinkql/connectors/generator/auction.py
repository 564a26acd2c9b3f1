"""AUCTION: an auction house. Each tick adds an auction, or a bid in the last auction.

Two auctions share 13 ticks: the first has 2 to 9 bids, the second the remaining ones. So a tick's row does not depend
on earlier rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Ints, between, choice, integers, noise, times
from sinkql.connectors.generator.table import GeneratedTable, Pace, PlannedTicks, Table, Window, batch

_PAIR = 13
_OPEN_MICROS = 10_000_000
_SECOND = 1_000_000
_MOST_BIDS = 10  # the ids of an auction's bids begin at the auction's id times this number
_FIRST_ACCOUNT = 42
_BALANCE = 10_000

_TRADES_TEXT = (
    "Anchor Bakery Beacon Cedar Copper Delta Ember Falcon Garnet Harbor Indigo Juniper Kestrel Lantern Maple "
    "Nimbus Orchard Pioneer Quarry Summit"
)
_TRADES = tuple(_TRADES_TEXT.split())
_FORMS_TEXT = "Works Partners Trading Holdings Cooperative"
_FORMS = tuple(_FORMS_TEXT.split())
_FIRST_NAMES_TEXT = (
    "Ada Amara Anna Aziz Bao Bela Carla Chen Clara Dario Dina Diego Elif Emil Esther Farid Fiona Gita Goran Hana "
    "Hugo Ida Igor Ines Ivan Jana Jonas Juan Kaito Karin Kofi Lars Leila Lin Luca Mai Marta Mateo Mina Nadia Nils "
    "Nora Olga Omar Otto Paula Petra Priya Rafael Rosa Ruth Samir Sara Sofia Sven Tariq Tess Tomas Uma Vera "
    "Viktor Wen Yara Zoe"
)
_FIRST_NAMES = tuple(_FIRST_NAMES_TEXT.split())
_LAST_NAMES_TEXT = (
    "Abara Adler Alvarez Andersen Bauer Becker Blanco Borg Castro Chang Costa Cruz Dahl Diaz Dubois Ek Fabre "
    "Ferrari Fischer Garcia Gomez Haas Hansen Hayashi Holm Ito Ivanova Jensen Johansson Kaya Keller Khan Kim "
    "Kovac Kumar Lang Larsen Lehmann Lopez Mancini Martin Mensah Meyer Moreau Mori Nagy Nakamura Novak Okafor "
    "Olsen Park Patel Petrov Quispe Ricci Rossi Sato Schmid Silva Singh Tanaka Torres Weber Yilmaz"
)
_LAST_NAMES = tuple(_LAST_NAMES_TEXT.split())
_ITEMS = ("A Walk with the Curator", "Box of Rare Teas", "Hand-Bound Atlas", "Portrait in Oil", "Supper for Six")


def table(planned: PlannedTicks) -> Table:
    """Return the planned table."""
    house = _House(planned.seed, planned.pace)
    organizations, users = len(_TRADES) * len(_FORMS), len(_FIRST_NAMES) * len(_LAST_NAMES)
    match planned.table:
        case "organizations":
            return GeneratedTable(house.organizations, organizations, 0)
        case "accounts":
            return GeneratedTable(house.accounts, organizations, 0)
        case "users":
            return GeneratedTable(house.users, users, 0)
        case "auctions":
            return GeneratedTable(house.auctions, 0, 1)
        case "bids":
            return GeneratedTable(house.bids, 0, 1)
        case other:
            raise LookupError(other)


@dataclass(frozen=True, slots=True)
class _House:
    seed: int
    pace: Pace

    def organizations(self, window: Window) -> pa.RecordBatch:
        positions = window.positions
        names = [
            f"{_TRADES[position // len(_FORMS)]} {_FORMS[position % len(_FORMS)]}" for position in positions.tolist()
        ]
        return batch({"id": positions + 1, "name": pa.array(names, pa.string())})

    def accounts(self, window: Window) -> pa.RecordBatch:
        ids = window.positions + 1
        return batch({"id": ids + _FIRST_ACCOUNT, "org_id": ids, "balance": np.full(len(ids), _BALANCE)})

    def users(self, window: Window) -> pa.RecordBatch:
        positions = window.positions
        last = len(_LAST_NAMES)
        names = [f"{_FIRST_NAMES[position // last]} {_LAST_NAMES[position % last]}" for position in positions.tolist()]
        organizations = len(_TRADES) * len(_FORMS)
        return batch(
            {"id": positions + 1, "org_id": positions % organizations + 1, "name": pa.array(names, pa.string())}
        )

    def auctions(self, window: Window) -> pa.RecordBatch:
        ticks = window.positions
        ids, begins = self._auctions(ticks)
        ids = ids[begins == ticks]
        begin = self.pace.times(window.since_ms, begins[begins == ticks])
        items = between(0, len(_ITEMS) - 1, noise(self.seed, "item", ids))
        return batch(
            {
                "id": ids,
                "seller": self._user("seller", ids),
                "item": choice(_ITEMS, items),
                "end_time": times(begin + _OPEN_MICROS),
            }
        )

    def bids(self, window: Window) -> pa.RecordBatch:
        ticks = window.positions
        auctions, begins = self._auctions(ticks)
        bid = begins != ticks
        auctions, numbers = auctions[bid], (ticks - begins)[bid] - 1
        ids = auctions * _MOST_BIDS + numbers
        begin = self.pace.times(window.since_ms, begins[bid])
        return batch(
            {
                "id": ids,
                "buyer": self._user("buyer", ids),
                "auction_id": auctions,
                "amount": integers(between(1, 99, noise(self.seed, "amount", ids))),
                "bid_time": times(begin + numbers * _SECOND),
            }
        )

    def _auctions(self, ticks: Ints) -> tuple[Ints, Ints]:
        """Return the auction of each tick, and the tick at which it began."""
        pairs, within = ticks // _PAIR, ticks % _PAIR
        bids = between(2, _MOST_BIDS - 1, noise(self.seed, "bids", pairs))
        second = within > bids
        return pairs * 2 + 1 + second, pairs * _PAIR + np.where(second, bids + 1, 0)

    def _user(self, column: str, ids: Ints) -> Ints:
        return between(1, len(_FIRST_NAMES) * len(_LAST_NAMES), noise(self.seed, column, ids))
