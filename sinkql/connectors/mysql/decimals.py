"""A decimal's bytes in the log → its value: groups of nine digits in four bytes, and what is left in fewer."""

from __future__ import annotations

from decimal import Decimal

from sinkql.connectors.mysql.table_map import DECIMAL_BYTES


def groups(precision: int, scale: int) -> list[int]:
    """Return how many digits each group of bytes has."""
    whole, part = divmod(precision - scale, 9), divmod(scale, 9)
    return [*filter(None, [whole[1]]), *[9] * (whole[0] + part[0]), *filter(None, [part[1]])]


def decimal_of(data: bytes, precision: int, scale: int) -> Decimal:
    """Return the value of bytes, in which the first bit tells the sign, and all bits of a negative one are turned."""
    turned = bytearray(data)
    negative = turned[0] < 0x80
    turned[0] ^= 0x80
    value, at = 0, 0
    for digits in groups(precision, scale):
        size = DECIMAL_BYTES[digits]
        group = int.from_bytes(turned[at : at + size], "big")
        value = value * 10**digits + (group ^ ((1 << 8 * size) - 1) if negative else group)
        at += size
    return Decimal((int(negative), tuple(map(int, str(value))), -scale))
