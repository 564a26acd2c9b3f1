"""A decimal becomes the nearest real: rounded once, without double precision in between."""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from random import Random

from sinkql.evaluate import conversion
from sinkql.logical.expression import single
from sinkql.logical.type import REAL, Type

_WIDE = Context(prec=200)
_REALS = conversion(Type("numeric", 38, 37), REAL)


def test_it_is_nearest_to_it() -> None:
    random = Random(1)
    assert _REALS is not None
    for _ in range(200):
        one = single(random.choice((0.1, 0.5, 1.0)) * random.uniform(1, 2))
        (bits,) = struct.unpack("i", struct.pack("f", one))
        (above,) = struct.unpack("f", struct.pack("i", bits + 1))
        middle = _WIDE.divide(_WIDE.add(Decimal(one), Decimal(above)), Decimal(2))
        little = Decimal(1).scaleb(-random.randrange(15, 37))
        assert (_REALS(_WIDE.subtract(middle, little)), _REALS(_WIDE.add(middle, little))) == (one, above)


def test_a_decimal_that_is_a_real_is_kept() -> None:
    assert _REALS is not None
    assert [_REALS(Decimal(text)) for text in ("0.5", "-1.25", "0", "16777217")] == [0.5, -1.25, 0.0, 16777216.0]
