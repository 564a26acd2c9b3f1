"""The options of the load generators, and their descriptions in the reference."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sinkql.connector_api.options import option_field

_SECOND = timedelta(seconds=1)
_AS_OF = "the number of ticks that exist at the start"
_UP_TO = "the last tick"
_RATE = "ticks per second, instead of `TICK INTERVAL`"
_SEED = "another number produces other random values"


@dataclass(frozen=True, slots=True)
class CounterOptions:
    """The options of LOAD GENERATOR COUNTER; `up_to` is the total number of rows."""

    tick_interval: timedelta = option_field("the time between two rows", default=_SECOND)
    up_to: int | None = option_field("the number of rows", default=None)
    rows_per_second: int | None = option_field("rows per second, instead of `TICK INTERVAL`", default=None)
    max_cardinality: int | None = option_field("the most rows that exist; older ones are deleted", default=None)
    as_of: int = option_field("the counter starts after this number", default=0)
    seed: int = option_field("accepted without effect", default=0)


@dataclass(frozen=True, slots=True)
class TickOptions:
    """The options of LOAD GENERATOR AUCTION, CLOCK and MARKETING."""

    tick_interval: timedelta = option_field("the time between two ticks", default=_SECOND)
    as_of: int = option_field(_AS_OF, default=0)
    up_to: int | None = option_field(_UP_TO, default=None)
    rows_per_second: int | None = option_field(_RATE, default=None)
    seed: int = option_field(_SEED, default=0)


@dataclass(frozen=True, slots=True)
class TpchOptions:
    """The options of LOAD GENERATOR TPCH."""

    scale_factor: float = option_field("the size of the data: 1 has six million order items", default=0.01)
    tick_interval: timedelta | None = option_field(
        "the time between two changes; without it, nothing changes", default=None
    )
    as_of: int = option_field(_AS_OF, default=0)
    up_to: int | None = option_field(_UP_TO, default=None)
    rows_per_second: int | None = option_field(_RATE, default=None)
    seed: int = option_field(_SEED, default=0)


@dataclass(frozen=True, slots=True)
class KeyValueOptions:
    """The options of LOAD GENERATOR KEY VALUE."""

    keys: int = option_field("the number of keys")
    snapshot_rounds: int = option_field("the number of values per key before the first tick")
    value_size: int = option_field("the bytes of a value")
    seed: int = option_field(_SEED)
    partitions: int = option_field("the number of partitions of the keys")
    batch_size: int = option_field("the number of new values per partition and tick")
    transactional_snapshot: bool = option_field(
        "whether offsets count rounds of the snapshot, instead of batches", default=True
    )
    tick_interval: timedelta | None = option_field(
        "the time between two batches; without it, nothing follows the snapshot", default=None
    )
    as_of: int = option_field(_AS_OF, default=0)
    up_to: int | None = option_field(_UP_TO, default=None)
    rows_per_second: int | None = option_field(_RATE, default=None)


Options = CounterOptions | TickOptions | TpchOptions | KeyValueOptions


AUCTION = """An auction house of 100 organizations and 4,096 users. Each tick adds an auction, or a bid in the last
auction; an auction has 2 to 9 bids. The tables are append-only: `auction.organizations (id, name)`,
`auction.users (id, org_id, name)`, `auction.accounts (id, org_id, balance)`,
`auction.auctions (id, seller, item, end_time)`, `auction.bids (id, buyer, auction_id, amount, bid_time)`."""
CLOCK = "One row with the column `time`, the time of the last tick."
KEY_VALUE = """Random bytes for each key. Columns: `key` with `INCLUDE KEY`, `partition`, `value`, and `offset`
with `INCLUDE OFFSET`. With `ENVELOPE UPSERT`, each key has one row, which new values overwrite. Otherwise each value is
a row. The snapshot rounds exist at the start. Each tick adds a batch of new values to each partition."""
MARKETING = """A campaign with 50 customers. Each tick adds an impression, and a lead with a prediction. A click follows
its impression after about 30 seconds. A lead that converts is updated. Tables:
`marketing.customers (id, email, income)`,
`marketing.impressions (id, customer_id, campaign_id, impression_time)`,
`marketing.clicks (impression_id, click_time)`,
`marketing.leads (id, customer_id, created_at, converted_at, conversion_amount)`,
`marketing.coupons (id, lead_id, created_at, amount)`,
`marketing.conversion_predictions (lead_id, experiment_bucket, predicted_at, score)`."""
TPCH = """The tables of TPC-H with its keys, prices, dates and numbers of rows; the texts differ:
`tpch.supplier`, `tpch.part`, `tpch.partsupp`, `tpch.customer`, `tpch.orders`, `tpch.lineitem`, `tpch.nation`,
`tpch.region`. With `TICK INTERVAL`, `ROWS PER SECOND` or `UP TO`, each tick replaces an order and its items."""
