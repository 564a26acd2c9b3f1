"""Sources of all kinds of load generators, planned from SQL: their readers, and their rows of any range of ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from sinkql import logical, physical
from sinkql.connector_api.stream import Offsets, ReadCounts
from sinkql.connectors.generator.reader import GeneratorReader
from sinkql.lowering.job import lower_relation
from sinkql.program.compiler import compile_text

SINCE = 1_700_000_000_000
SOURCES = """
CREATE SOURCE house FROM LOAD GENERATOR AUCTION (UP TO 3000, SEED 5) FOR ALL TABLES;
CREATE SOURCE market FROM LOAD GENERATOR MARKETING (TICK INTERVAL '500ms', UP TO 2000, SEED 5) FOR ALL TABLES;
CREATE SOURCE shop FROM LOAD GENERATOR TPCH (SCALE FACTOR 0.001, UP TO 3500, SEED 5) FOR ALL TABLES;
CREATE SOURCE clock FROM LOAD GENERATOR CLOCK (UP TO 500);
CREATE SOURCE few FROM LOAD GENERATOR COUNTER (MAX CARDINALITY 7, UP TO 500);
CREATE SOURCE kv FROM LOAD GENERATOR KEY VALUE (
  KEYS 24, SNAPSHOT ROUNDS 3, VALUE SIZE 11, SEED 5, PARTITIONS 4, BATCH SIZE 2, UP TO 60
) INCLUDE KEY, OFFSET ENVELOPE UPSERT;
CREATE SOURCE log FROM LOAD GENERATOR KEY VALUE (
  KEYS 24, SNAPSHOT ROUNDS 3, VALUE SIZE 11, SEED 5, PARTITIONS 4, BATCH SIZE 2, UP TO 60
) INCLUDE KEY, OFFSET;
"""
RETRACTING = ("clock", "few", "kv", "leads", "lineitem", "orders")
Row = tuple[Any, ...]


@cache
def readers(text: str = SOURCES) -> dict[str, GeneratorReader]:
    """Return the reader of each source that has rows, by name; all sources begin at the same time."""
    names = ("house", "market", "shop", "clock", "kv", "log")
    catalog = compile_text(text, facts={name: {"since": SINCE} for name in names}).catalog
    assert catalog is not None
    found = {}
    for full_name in (*catalog.names("SOURCE"), *catalog.names("TABLE")):
        item = catalog.item(full_name)
        assert isinstance(item, logical.Source)
        if not item.tables:
            read = lower_relation(item, catalog)
            assert isinstance(read, physical.Read)
            found[full_name.rpartition(".")[2]] = GeneratorReader.of(read)
    return found


def at(count: int) -> Offsets:
    """Return the offsets after a number of ticks."""
    return {"count": count, "since": SINCE}


def end(reader: GeneratorReader) -> int:
    """Return the last count of ticks."""
    count: int = reader.target(at(0))["count"]
    return count


def table(reader: GeneratorReader, start: int = 0, stop: int | None = None) -> pa.Table:
    """Return the rows of a range of ticks as one batch has them; `stop` defaults to the end."""
    splits = reader.splits(at(start), at(end(reader) if stop is None else stop))
    return pa.Table.from_batches(list(_batches(reader, splits)))


def _batches(reader: GeneratorReader, splits: list[Any]) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from reader.read(split, ReadCounts())


def rows(reader: GeneratorReader, start: int, stop: int) -> list[Row]:
    """Return the rows of a range of ticks; `$diff` is the last column if the source has it."""
    if start == stop:
        return []
    return list(zip(*(column.to_pylist() for column in table(reader, start, stop).columns), strict=True))


def after(contents: Mapping[Row, int], changes: list[Row]) -> Counter[Row]:
    """Apply changes to a multiset of rows; a negative count is a wrong deletion."""
    counts = Counter(dict(contents))
    for *row, diff in changes:
        counts[tuple(row)] += diff
    return Counter({row: count for row, count in counts.items() if count})
