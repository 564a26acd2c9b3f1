"""Arrays built from positions in a block of bytes equal the values that Python reads there."""

from __future__ import annotations

import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkql.decode import columnar
from sinkql.decode.columnar import LIMB, Block

NULL = st.none()


def _written(values: list[bytes | None]) -> tuple[Block, columnar.Offsets, columnar.Offsets, columnar.Mask | None]:
    """Return the values in one buffer, with other bytes between them."""
    raw, starts, lengths = b"", [], []
    for each in values:
        raw += b"-"
        starts.append(len(raw))
        lengths.append(len(each or b""))
        raw += each or b""
    valid = np.array([each is not None for each in values], bool)
    mask = None if valid.all() else valid
    return Block(raw), np.array(starts, np.int64), np.array(lengths, np.int64), mask


@settings(deadline=None)
@given(st.lists(NULL | st.binary(max_size=20)))
def test_binaries(values: list[bytes | None]) -> None:
    found = columnar.binaries(*_written(values))
    found.validate(full=True)
    assert found.to_pylist() == values


@settings(deadline=None)
@given(st.lists(NULL | st.text(max_size=9).map(str.encode) | st.binary(max_size=9), max_size=20))
def test_texts_that_are_not_utf8_are_reported_and_null(values: list[bytes | None]) -> None:
    found, bad = columnar.texts(*_written(values))
    found.validate(full=True)
    expected = [None if each is None or not columnar._is_utf8(each) else each.decode() for each in values]
    assert found.to_pylist() == expected
    said = [False] * len(values) if bad is None else bad.tolist()
    assert said == [each is not None and value is None for each, value in zip(values, expected, strict=True)]


@settings(deadline=None)
@given(st.lists(st.uuids(), min_size=1))
def test_uuids(values: list[uuid.UUID]) -> None:
    block, starts, _, _ = _written([each.bytes for each in values])
    found = columnar.uuids(block.view("V16")[starts], None)
    found.validate(full=True)
    assert found.to_pylist() == [str(each) for each in values]


@settings(deadline=None)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1), st.integers(0, 38))
def test_wide_decimals(values: list[int], scale: int) -> None:
    limbs = [np.array([abs(each) // LIMB**place % LIMB for each in values], np.int64) for place in range(4)]
    negative = np.array([each < 0 for each in values], bool)
    words = columnar.wide_words(limbs, negative)
    numbers = np.zeros(len(values), np.int64)
    found = columnar.decimals(numbers, None, pa.decimal128(38, scale), (np.arange(len(values)), words))
    found.validate(full=True)
    assert found.to_pylist() == [Decimal(f"{each}E-{scale}") for each in values]


@settings(deadline=None)
@given(st.lists(NULL | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_decimals(values: list[int | None]) -> None:
    valid = np.array([each is not None for each in values], bool)
    found = columnar.decimals(np.array([each or 0 for each in values], np.int64), valid, pa.decimal128(38, 2))
    found.validate(full=True)
    assert found.to_pylist() == [None if each is None else Decimal(each).scaleb(-2) for each in values]
