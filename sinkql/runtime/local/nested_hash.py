"""Chain a hash over the values inside arrays and records, as Spark's hash functions do: all rows together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.logical.type import Type

Hashes = TypeVar("Hashes", NDArray[np.uint32], NDArray[np.uint64])


def chained(column: pa.Array, type_: Type, seed: Hashes, leaf: Callable[[pa.Array, Type, Hashes], Hashes]) -> Hashes:
    """Return the hashes after a column: `leaf` hashes values of other types; NULL leaves a hash unchanged."""
    if type_.name == "record":
        for field, child in zip(type_.fields, column.flatten(), strict=True):
            seed = chained(child, field.type, seed, leaf)
        return seed
    if type_.element is not None:
        element = type_.element
        return over_elements(column, seed, lambda elements, seeds: chained(elements, element, seeds, leaf))
    return np.where(nulls(column), seed, leaf(column, type_, seed))


def over_elements(column: pa.Array, seed: Hashes, hashed: Callable[[pa.Array, Hashes], Hashes]) -> Hashes:
    """Return the hashes after the elements of arrays, in their order."""
    hashes, lengths = seed.copy(), array_lengths(column)
    starts = column.offsets.to_numpy()[:-1]
    for number in range(int(lengths.max(initial=0))):
        mine = np.flatnonzero(lengths > number)
        hashes[mine] = hashed(column.values.take(pa.array(starts[mine] + number)), hashes[mine])
    return hashes


def array_lengths(column: pa.Array) -> NDArray[np.int32]:
    """Return the number of elements of each array, 0 for NULL."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int32)


def nulls(column: pa.Array) -> Any:  # numpy's mask
    """Return which values are NULL."""
    return column.is_null().to_numpy(zero_copy_only=False)
