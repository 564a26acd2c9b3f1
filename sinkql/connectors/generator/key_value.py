"""KEY VALUE: a sequence of random values for each key; a new value replaces the old one, or is added.

A position is a value: first the values of the snapshot, round by round, then a batch of each partition for each tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.connector_api.options import PlannedOptions
from sinkql.connectors.generator.columns import Bytes, Ints, fixed_length, noise
from sinkql.connectors.generator.table import Turnover, Window, batch


@dataclass(frozen=True, slots=True)
class KeyValue(PlannedOptions):
    """The table of KEY VALUE; `columns` has the names of `key`, `partition`, `value` and `offset`, if it has them."""

    seed: int
    keys: int
    rounds: int
    value_size: int
    partitions: int
    batch_size: int
    transactional: bool
    upsert: bool
    columns: Mapping[str, str]

    @property
    def initial(self) -> int:
        return self.keys * self.rounds

    @property
    def step(self) -> int:
        return self.partitions * self.batch_size

    @property
    def weight(self) -> int:
        return 2 if self.upsert else 1

    @property
    def row_bytes(self) -> int:
        return self.value_size + 24

    @property
    def retracts(self) -> bool:
        return self.upsert

    def rows(self, window: Window) -> pa.RecordBatch:
        if not self.upsert:
            return batch(self._columns(window.positions))
        keys, versions, diff = Turnover(self.keys).changes(window)
        return batch(self._columns(versions * self.keys + keys), diff)

    def _columns(self, positions: Ints) -> dict[str, Any]:
        keys = positions % self.keys
        values = {
            "key": keys,
            "partition": keys % self.partitions,
            "value": fixed_length(self._values(positions), pa.binary()),
            "offset": self._offsets(positions),
        }
        return {name: values[part] for part, name in self.columns.items()}

    def _values(self, positions: Ints) -> Bytes:
        words = np.arange(-(-self.value_size // 8), dtype=np.int64)
        matrix = noise(self.seed, "value", positions[:, None], words[None, :])
        return matrix.astype("<u8").view(np.uint8)[:, : self.value_size]

    def _offsets(self, positions: Ints) -> Ints:
        """Return the numbers of rounds and then of batches; of batches only if the snapshot is not transactional."""
        rounds = self.rounds if self.transactional else 0
        later = rounds + (positions - rounds * self.keys) // self.step
        return np.where(positions < rounds * self.keys, positions // self.keys, later)
