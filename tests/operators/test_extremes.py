"""The extremes of groups are those that Python computes, for each way that a type is stored."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sinkql.runtime.state import arithmetic

_VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.int16(): (-(2**15), 0, 2**15 - 1, None),
    pa.int32(): (-(2**31), -1, 7, None),
    pa.int64(): (-(2**63), 2**63 - 1, 0, None),
    pa.date32(): (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31), None),
    pa.time64("us"): (time(0), time(23, 59, 59, 999999), None),
    pa.timestamp("us"): (datetime(1, 1, 1), datetime(2026, 1, 1, 1, 1, 1, 1), None),
    pa.timestamp("us", "UTC"): (datetime(1582, 10, 10, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC), None),
    pa.decimal128(38, 2): (Decimal("-1.50"), Decimal("9e30"), None),
    pa.string(): ("", "a", "é", None),
    pa.binary(): (b"", b"\xff", None),
}


@pytest.mark.parametrize("type_", _VALUES, ids=str)
@pytest.mark.parametrize("low", [True, False])
def test_each_group_has_its_extreme_or_null(type_: pa.DataType, low: bool) -> None:
    pick = random.Random(str(type_))
    for rows, groups in ((0, 3), (1, 1), (60, 7), (200, 90)):
        index = np.array([pick.randrange(groups) for _ in range(rows)], np.int64)
        values = [pick.choice(_VALUES[type_]) for _ in range(rows)]
        array = pa.array([values[0] if values else None, *values], type_).slice(1)  # with an offset
        found = arithmetic.extreme(array, index, groups, low=low)
        assert found.type == type_
        expected = []
        for group in range(groups):
            own = [value for value, at in zip(values, index, strict=True) if at == group and value is not None]
            expected.append((min if low else max)(own, default=None))
        assert found.to_pylist() == expected
