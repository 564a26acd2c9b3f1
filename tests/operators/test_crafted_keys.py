"""Keys crafted to collide under Spark's xxhash64 with any seed: each is still a separate group."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from operators.pipeline import call, source
from sinkql import physical
from sinkql.hash_key import HashKey
from sinkql.logical.type import BIGINT, BOOLEAN, BYTEA
from sinkql.runtime.local.task_input import prepared
from sinkql.runtime.local.xxhash64 import xxhash64
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of
from sinkql.state_store.directory import StateDirectory

_PRIME_1, _PRIME_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_WORD = 1 << 64


def crafted(count: int) -> Iterator[bytes]:
    """Yield pairs of 64-byte values with equal xxhash64 for the seeds 1 and 7, which groups once used."""
    dice = random.Random("crafted")
    back = (1 << 30) * _PRIME_1 * pow(_PRIME_2, -1, _WORD)
    while count:
        words = [dice.randrange(_WORD) for _ in range(8)]
        other = [(words[0] + (1 << 63)) % _WORD, *words[1:4], (words[4] + back) % _WORD, *words[5:]]
        pair = [b"".join(word.to_bytes(8, "little") for word in each) for each in (words, other)]
        if all(len(set(_spark(pair, seed).tolist())) == 1 for seed in (1, 7)):
            count -= 2
            yield from pair


def _spark(values: list[bytes], seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    seeds, none = pa.array([seed] * len(values)), pa.array([False] * len(values))
    return xxhash64([seeds, none, pa.array(values, pa.binary())], [BIGINT, BOOLEAN, BYTEA])


def test_crafted_keys_are_groups_of_their_own(tmp_path: Path) -> None:
    values = list(crafted(20))
    read = source("e", "append", k="bytea")
    counts = (call("n", "count", None, "bigint"),)
    operator = stateful(physical.Aggregate(read, "counts", read.columns, counts, "append"))
    rows = prepared(operator.preparation, pa.table({"k": pa.array(values * 2, pa.binary())}))
    assert len(set(rows.column("$h1").to_pylist())) == len(values) // 2
    home = StateDirectory(tmp_path, hash_key=HashKey.new())
    held = Arrangements(home, state.empty(bucketing="test", buckets=1), 1, "c")
    task = task_of(operator, held, InputEvents())
    found = pa.Table.from_batches(task(0, "a", iter(rows.to_batches()), lambda word: None))
    assert sorted(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)) == sorted(
        (value, 2) for value in values
    )
