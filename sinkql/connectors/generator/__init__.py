"""LOAD GENERATOR sources: rows that are a pure function of their index. A generator is a source kind of its own.

* `plan`: the statement's options → the reader's, and the generator's columns.
* `reader`: options → the rows of any range of indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sinkql import physical
from sinkql.connectors.generator.plan import CounterOptions, plan
from sinkql.extension.plan import Connector, Later, SourceKind
from sinkql.extension.stream import Context, Offsets, Reader


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.generator.reader import CounterReader  # numpy and pyarrow, only where a job runs

    return CounterReader.of(read)


def _first(start: Offsets, rows: int) -> Offsets:
    return {**start, "count": start["count"] + rows}


@dataclass(frozen=True, slots=True)
class TickOptions:
    """The options of every load generator."""

    tick_interval: timedelta = timedelta(seconds=1)
    as_of: int = 0
    up_to: int | None = None
    rows_per_second: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TpchOptions(TickOptions):
    """The options of LOAD GENERATOR TPCH."""

    scale_factor: float = 0.01


@dataclass(frozen=True, slots=True)
class KeyValueOptions(TickOptions):
    """The options of LOAD GENERATOR KEY VALUE."""

    keys: int = 1
    snapshot_rounds: int = 1
    value_size: int = 1
    partitions: int = 1
    batch_size: int = 1
    transactional_snapshot: bool = True


connector = Connector(
    "generator",
    sources=(SourceKind("LOAD GENERATOR COUNTER", plan, _open_reader, CounterOptions, first=_first),),
    later=(
        Later("SOURCE", "LOAD GENERATOR AUCTION", TickOptions),
        Later("SOURCE", "LOAD GENERATOR CLOCK", TickOptions),
        Later("SOURCE", "LOAD GENERATOR DATUMS", TickOptions),
        Later("SOURCE", "LOAD GENERATOR KEY VALUE", KeyValueOptions),
        Later("SOURCE", "LOAD GENERATOR MARKETING", TickOptions),
        Later("SOURCE", "LOAD GENERATOR TPCH", TpchOptions),
    ),
    tasks=("sinkql.connectors.generator.reader",),
)
