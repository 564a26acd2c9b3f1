"""The options of the load generators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sinkql.extension.options import described

_SECOND = timedelta(seconds=1)
_AS_OF = "the number of ticks that exist at the start"
_UP_TO = "the last tick"
_RATE = "ticks per second, instead of `TICK INTERVAL`"
_SEED = "another number produces other random values"


@dataclass(frozen=True, slots=True)
class CounterOptions:
    """The options of LOAD GENERATOR COUNTER; `up_to` is the number of rows that ever come."""

    tick_interval: timedelta = described("the time between two rows", default=_SECOND)
    up_to: int | None = described("the number of rows", default=None)
    rows_per_second: int | None = described("rows per second, instead of `TICK INTERVAL`", default=None)
    max_cardinality: int | None = described("the most rows that exist; older ones are deleted", default=None)
    as_of: int = described("the counter starts after this number", default=0)
    seed: int = described("accepted without effect", default=0)


@dataclass(frozen=True, slots=True)
class TickOptions:
    """The options of LOAD GENERATOR AUCTION, CLOCK and MARKETING."""

    tick_interval: timedelta = described("the time between two ticks", default=_SECOND)
    as_of: int = described(_AS_OF, default=0)
    up_to: int | None = described(_UP_TO, default=None)
    rows_per_second: int | None = described(_RATE, default=None)
    seed: int = described(_SEED, default=0)


@dataclass(frozen=True, slots=True)
class TpchOptions:
    """The options of LOAD GENERATOR TPCH."""

    scale_factor: float = described("the size of the data: 1 has six million order items", default=0.01)
    tick_interval: timedelta | None = described(
        "the time between two changes; without it, nothing changes", default=None
    )
    as_of: int = described(_AS_OF, default=0)
    up_to: int | None = described(_UP_TO, default=None)
    rows_per_second: int | None = described(_RATE, default=None)
    seed: int = described(_SEED, default=0)


@dataclass(frozen=True, slots=True)
class KeyValueOptions:
    """The options of LOAD GENERATOR KEY VALUE."""

    keys: int = described("the number of keys")
    snapshot_rounds: int = described("the number of values per key before the first tick")
    value_size: int = described("the bytes of a value")
    seed: int = described(_SEED)
    partitions: int = described("the number of partitions of the keys")
    batch_size: int = described("the number of new values per partition and tick")
    transactional_snapshot: bool = described(
        "whether offsets count rounds of the snapshot, instead of batches", default=True
    )
    tick_interval: timedelta | None = described(
        "the time between two batches; without it, nothing follows the snapshot", default=None
    )
    as_of: int = described(_AS_OF, default=0)
    up_to: int | None = described(_UP_TO, default=None)
    rows_per_second: int | None = described(_RATE, default=None)


Options = CounterOptions | TickOptions | TpchOptions | KeyValueOptions
