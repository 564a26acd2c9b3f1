"""KEY VALUE: random bytes for each key, again and again; a new value takes the place of the old one, or is added.

Places are values, first those of the snapshot, round by round, then a batch of each partition a tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Bytes, Ints, fixed_length, noise
from sinkql.connectors.generator.table import Turnover, Window, batch


@dataclass(frozen=True, slots=True)
class KeyValue:
    """`key`, `partition`, `value` and `offset` under the names in `columns`, those without a name left out."""

    seed: int
    keys: int
    rounds: int
    value_size: int
    partitions: int
    batch_size: int
    transactional: bool
    upsert: bool
    columns: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> KeyValue:
        """Return the table of a planned source."""
        names = ("seed", "keys", "rounds", "value_size", "partitions", "batch_size", "transactional", "upsert")
        return cls(**{name: options[name] for name in (*names, "columns")})

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
            return batch(self._columns(window.places))
        keys, versions, diff = Turnover(self.keys).changes(window)
        return batch(self._columns(versions * self.keys + keys), diff)

    def _columns(self, places: Ints) -> dict[str, Any]:
        keys = places % self.keys
        made = {
            "key": keys,
            "partition": keys % self.partitions,
            "value": fixed_length(self._values(places), pa.binary()),
            "offset": self._offsets(places),
        }
        return {name: made[each] for each, name in self.columns.items()}

    def _values(self, places: Ints) -> Bytes:
        words = np.arange(-(-self.value_size // 8), dtype=np.int64)
        matrix = noise(self.seed, "value", places[:, None], words[None, :])
        return matrix.astype("<u8").view(np.uint8)[:, : self.value_size]

    def _offsets(self, places: Ints) -> Ints:
        """Return the numbers of rounds, and of batches: of a snapshot that is no transaction batches alone."""
        rounds = self.rounds if self.transactional else 0
        later = rounds + (places - rounds * self.keys) // self.step
        return np.where(places < rounds * self.keys, places // self.keys, later)
