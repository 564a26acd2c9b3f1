"""AUCTION: an auction house. Each tick there is another auction, or another bid in the last one.

Auctions come in pairs of 13 ticks: the first has 2 to 9 bids, the other as many as are left. So each tick's row is
known without those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Ints, between, choice, integers, noise, times
from sinkql.connectors.generator.table import Made, Pace, Table, Window, batch

_PAIR = 13
_OPEN_MICROS = 10_000_000
_SECOND = 1_000_000
_MOST_BIDS = 10  # ids of an auction's bids are its own times this, and up
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


def table(options: Mapping[str, Any]) -> Table:
    """Return one of the tables by its name."""
    house = _House(options["seed"], Pace.of(options["pace"]))
    organizations, users = len(_TRADES) * len(_FORMS), len(_FIRST_NAMES) * len(_LAST_NAMES)
    match options["table"]:
        case "organizations":
            return Made(house.organizations, organizations, 0)
        case "accounts":
            return Made(house.accounts, organizations, 0)
        case "users":
            return Made(house.users, users, 0)
        case "auctions":
            return Made(house.auctions, 0, 1)
        case "bids":
            return Made(house.bids, 0, 1)
        case other:
            raise LookupError(other)


@dataclass(frozen=True, slots=True)
class _House:
    seed: int
    pace: Pace

    def organizations(self, window: Window) -> pa.RecordBatch:
        places = window.places
        names = [f"{_TRADES[each // len(_FORMS)]} {_FORMS[each % len(_FORMS)]}" for each in places.tolist()]
        return batch({"id": places + 1, "name": pa.array(names, pa.string())})

    def accounts(self, window: Window) -> pa.RecordBatch:
        ids = window.places + 1
        return batch({"id": ids + _FIRST_ACCOUNT, "org_id": ids, "balance": np.full(len(ids), _BALANCE)})

    def users(self, window: Window) -> pa.RecordBatch:
        places = window.places
        last = len(_LAST_NAMES)
        names = [f"{_FIRST_NAMES[each // last]} {_LAST_NAMES[each % last]}" for each in places.tolist()]
        organizations = len(_TRADES) * len(_FORMS)
        return batch({"id": places + 1, "org_id": places % organizations + 1, "name": pa.array(names, pa.string())})

    def auctions(self, window: Window) -> pa.RecordBatch:
        ticks = window.places
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
        ticks = window.places
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
        """Return for each tick the auction that is on, and the tick at which it began."""
        pairs, within = ticks // _PAIR, ticks % _PAIR
        bids = between(2, _MOST_BIDS - 1, noise(self.seed, "bids", pairs))
        second = within > bids
        return pairs * 2 + 1 + second, pairs * _PAIR + np.where(second, bids + 1, 0)

    def _user(self, column: str, ids: Ints) -> Ints:
        return between(1, len(_FIRST_NAMES) * len(_LAST_NAMES), noise(self.seed, column, ids))
