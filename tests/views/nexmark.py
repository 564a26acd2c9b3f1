"""Nexmark: persons, auctions and bids from a seed, with updates and deletes, and its queries as views."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from views.churn import Update, of
from views.harness import Kind, Relation
from views.rows import Row

_TEXT = "text"

PERSON = Relation(
    "person",
    {
        "id": "bigint NOT NULL",
        "name": _TEXT,
        "email_address": _TEXT,
        "city": _TEXT,
        "state": _TEXT,
        "date_time": "timestamp",
        "extra": _TEXT,
    },
    ("id",),
    "upsert",
)
AUCTION = Relation(
    "auction",
    {
        "id": "bigint NOT NULL",
        "item_name": _TEXT,
        "initial_bid": "bigint",
        "reserve": "bigint",
        "date_time": "timestamp",
        "expires": "timestamp",
        "seller": "bigint",
        "category": "bigint",
    },
    ("id",),
)
_BID = {
    "auction": "bigint",
    "bidder": "bigint",
    "price": "bigint",
    "channel": _TEXT,
    "url": _TEXT,
    "date_time": "timestamp",
    "extra": _TEXT,
}
SIDE = Relation("side_input", {"key": "bigint NOT NULL", "value": "text NOT NULL"}, ("key",))
_BEGIN = datetime(2015, 7, 15, 23, 59, 20)
_STATES = ("OR", "ID", "CA", "WA", "AZ")
_CHANNELS = ("apple", "google", "facebook", "baidu", "channel-7")


def relations(bids: Kind = "table") -> tuple[Relation, ...]:
    """Return the relations. Bids have no key; in an append source they are never deleted."""
    return PERSON, AUCTION, Relation("bid", _BID, kind=bids), SIDE


RELATIONS = relations()


def rows(size: int, random_: random.Random) -> dict[str, list[Row]]:
    """Return all rows; a tenth of the `size` bids occur twice."""
    persons, auctions = max(size // 10, 8), max(size // 8, 8)
    bids = [_bid(auctions, persons, random_) for _ in range(size)]
    return {
        "person": [_person(number, random_) for number in range(1, persons + 1)],
        "auction": [_auction(number, persons, random_) for number in range(1, auctions + 1)],
        "bid": [*bids, *random_.sample(bids, size // 10)],
        "side_input": [(key, f"side {key}") for key in range(8)],
    }


def updates(bids: Relation = RELATIONS[2]) -> dict[str, Update]:
    """Return the columns that updates change, with functions for their new values."""
    return {
        "person": of(PERSON, {"state": lambda r: r.choice(_STATES), "date_time": _early}),
        "auction": of(AUCTION, {"category": lambda r: r.choice((10, 11)), "reserve": lambda r: r.randrange(900)}),
        "bid": of(bids, {"price": _price, "date_time": _time, "channel": lambda r: r.choice(_CHANNELS)}),
    }


def _person(number: int, random_: random.Random) -> Row:
    name = random_.choice(("Peter Jones", "Kate Smith", "Julie Noris"))
    state = random_.choice(_STATES)
    return number, name, f"{number}@example.com", f"city {number % 3}", state, _early(random_), "accc"[: number % 5]


def _auction(number: int, persons: int, random_: random.Random) -> Row:
    begin = _early(random_)
    prices = (random_.randrange(500), random_.randrange(900))
    seller, category = random_.randint(1, persons), random_.choice((10, 10, 11, 12))
    return number, f"item {number}", *prices, begin, begin + timedelta(seconds=random_.randint(5, 60)), seller, category


def _bid(auctions: int, persons: int, random_: random.Random) -> Row:
    channel = random_.choice(_CHANNELS)
    tail = f"&channel_id={random_.randrange(99)}" if random_.randrange(3) else ""
    url = f"https://www.nexmark.com/{random_.choice('abc')}/{random_.choice('de')}/item.htm?query=1{tail}"
    extra = "".join(random_.choice("abc") for _ in range(random_.randrange(6)))
    who = (random_.randint(1, auctions), random_.randint(1, persons))
    return *who, _price(random_), channel, url, _time(random_), extra


def _price(random_: random.Random) -> int:
    return random_.choice((50, 500, 9999, 20_000, 1_500_000)) + random_.randrange(40)


def _time(random_: random.Random) -> datetime:
    return _BEGIN + timedelta(milliseconds=250 * random_.randrange(400))


def _early(random_: random.Random) -> datetime:
    return _BEGIN + timedelta(milliseconds=250 * random_.randrange(120))
