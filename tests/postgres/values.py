"""Generated types and values of Postgres, and the bytes that a server sends for them."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from sinkql.connectors.postgres.type import ServerType

Typed = tuple[ServerType, st.SearchStrategy[bytes]]
"""A type, and a strategy for the bytes of its values."""

INT8, INT4, INT2, TEXT = (
    ServerType(20, "bigint"),
    ServerType(23, "integer"),
    ServerType(21, "smallint"),
    ServerType(25, "text"),
)


def numeric(precision: int | None = None, scale: int = 0) -> ServerType:
    modifier = -1 if precision is None else ((precision << 16) | (scale & 0x7FF)) + 4
    return ServerType(1700, "numeric", modifier=modifier)


def packed(form: str, *values: Any) -> bytes:
    return struct.pack(f">{form}", *values)


def numeric_bytes(value: Decimal | str) -> bytes:
    """Return the bytes that numeric_send returns."""
    value = Decimal(value)
    if value.is_nan():
        return packed("hhHH", 0, 0, 0xC000, 0)
    if value.is_infinite():
        return packed("hhHH", 0, 0, 0xF000 if value < 0 else 0xD000, 32)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    behind = max(-exponent, 0)
    text = text.rjust(behind, "0")
    whole, fraction = text[: len(text) - behind], text[len(text) - behind :]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups.pop()
    if not groups:
        weight = 0
    return packed(f"hhHH{len(groups)}h", len(groups), weight, 0x4000 if sign and groups else 0, behind, *groups)


def array_bytes(type_: ServerType, items: list[Any], sizes: tuple[int, ...], lowers: tuple[int, ...] = ()) -> bytes:
    assert type_.element is not None
    head = packed("iiI", len(sizes), int(None in items), type_.element.oid)
    for size, lower in zip(sizes, lowers or (1,) * len(sizes), strict=True):
        head += packed("ii", size, lower)
    return head + b"".join(_sized(each) for each in items)


def composite_bytes(type_: ServerType, fields: list[bytes | None]) -> bytes:
    parts = (packed("I", field.oid) + _sized(raw) for (_, field), raw in zip(type_.fields, fields, strict=True))
    return packed("i", len(fields)) + b"".join(parts)


def _sized(raw: bytes | None) -> bytes:
    return packed("i", -1) if raw is None else packed("i", len(raw)) + raw


def _range(oid: int, name: str, inner: st.SearchStrategy[bytes]) -> Typed:
    def made(flags: int, lower: bytes, upper: bytes) -> bytes:
        lower, upper = sorted((lower, upper), key=lambda raw: int.from_bytes(raw, "big", signed=True))
        parts = (_sized(lower) if not flags & 9 else b"") + (_sized(upper) if not flags & 17 else b"")
        return bytes([flags]) + parts

    return ServerType(oid, name), st.builds(made, st.sampled_from([1, 2, 6, 4, 0, 10, 20, 24, 8, 16]), inner, inner)


def _whole(size: int) -> st.SearchStrategy[bytes]:
    edge = 2 ** (8 * size - 1)
    values = st.sampled_from([-edge, edge - 1, 0, 1, -1]) | st.integers(-edge, edge - 1)
    return values.map(lambda value: value.to_bytes(size, "big", signed=True))


_DAY_US = 86_400_000_000
_DAYS = st.integers(-730119, 2921939) | st.sampled_from([-730120, 2921940, 2**31 - 1, -(2**31), -730119, 2921939])
_MOMENTS = st.integers(-730119 * _DAY_US, 2921940 * _DAY_US - 1) | st.sampled_from(
    [2**63 - 1, -(2**63), -730119 * _DAY_US - 1, 2921940 * _DAY_US]
)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).map(str.encode)
_JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()


_DECIMALS = (
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3)
    | st.integers(-(10**40), 10**40).map(Decimal)
    | st.builds(
        lambda whole, places: Decimal(f"{whole}E{places}"), st.integers(-(10**30), 10**30), st.integers(-40, 25)
    )
    | st.sampled_from(
        [Decimal(each) for each in ("NaN", "Infinity", "-Infinity", "0", "1E-10", "1E-11", "9" * 28, "9" * 29)]
    )
).map(numeric_bytes)

SCALARS: list[Typed] = [
    (ServerType(16, "boolean"), st.sampled_from([b"\0", b"\1"])),
    (ServerType(17, "bytea"), st.binary(max_size=9)),
    (INT8, _whole(8)),
    (INT2, _whole(2)),
    (INT4, _whole(4)),
    (ServerType(26, "oid"), st.integers(0, 2**32 - 1).map(lambda value: packed("I", value))),
    (TEXT, _TEXTS | st.just(b"\xff")),
    (ServerType(1043, "character varying", modifier=14), _TEXTS),
    (ServerType(70001, "mood", "enum"), st.sampled_from([b"sad", "ökay".encode()])),
    (ServerType(70002, "positive", "domain", element=INT4), _whole(4)),
    (ServerType(114, "json"), _JSONS.map(_json) | st.just(b'{"a": 1, "a": 2}')),
    (ServerType(3802, "jsonb"), _JSONS.map(lambda value: b"\1" + _json(value))),
    (ServerType(700, "real"), st.floats(width=32, allow_nan=False).map(lambda value: packed("f", value))),
    (ServerType(701, "double precision"), st.floats(allow_nan=False).map(lambda value: packed("d", value))),
    (ServerType(1082, "date"), _DAYS.map(lambda value: packed("i", value))),
    (ServerType(1083, "time"), st.integers(0, _DAY_US).map(lambda value: packed("q", value))),
    (ServerType(1114, "timestamp"), _MOMENTS.map(lambda value: packed("q", value))),
    (ServerType(1184, "timestamptz"), _MOMENTS.map(lambda value: packed("q", value))),
    (
        ServerType(1186, "interval"),
        st.builds(
            lambda *parts: packed("qii", *parts),
            st.integers(-(2**62), 2**62),
            st.integers(-999, 999),
            st.integers(-99, 99),
        )
        | st.just(packed("qii", 2**63 - 1, 2**31 - 1, 2**31 - 1)),
    ),
    (ServerType(2950, "uuid"), st.binary(min_size=16, max_size=16)),
    *((numeric(*arguments), _DECIMALS) for arguments in ((), (38, 0), (38, 38), (12, 2), (5, -3))),
    _range(3904, "int4range", st.integers(-999, 999).map(lambda value: packed("i", value))),
    _range(3926, "int8range", _whole(8)),
    _range(3912, "daterange", st.integers(-999, 999).map(lambda value: packed("i", value))),
    _range(3908, "tsrange", st.integers(-(10**15), 10**15).map(lambda value: packed("q", value))),
    _range(3910, "tstzrange", st.integers(-(10**15), 10**15).map(lambda value: packed("q", value))),
]


def arrays(
    of: tuple[ServerType, st.SearchStrategy[bytes]],
) -> st.SearchStrategy[tuple[ServerType, st.SearchStrategy[bytes]]]:
    element, values = of

    def made(dimensions: int) -> Typed:
        type_ = ServerType(element.oid + 90000, f"{element.name}[]", "array", dimensions=dimensions, element=element)

        @st.composite
        def raw(draw: Any) -> bytes:
            count = draw(st.sampled_from([dimensions] * 8 + [0, 1, 2]))
            sizes = tuple(draw(st.integers(1, 40 if count == 1 else 3)) for _ in range(count))
            total = 1 if sizes else 0
            for size in sizes:
                total *= size
            items = draw(st.lists(st.none() | values, min_size=total, max_size=total))
            lowers = tuple(draw(st.sampled_from([1] * 9 + [0])) for _ in sizes)
            return array_bytes(type_, items, sizes, lowers)

        return type_, raw()

    return st.sampled_from([1, 1, 2]).map(made)


def composites(
    of: list[tuple[ServerType, st.SearchStrategy[bytes]]],
) -> tuple[ServerType, st.SearchStrategy[bytes]]:
    type_ = ServerType(
        80000, "pair", "composite", fields=tuple((f"f{place}", each) for place, (each, _) in enumerate(of))
    )
    values = st.tuples(*(st.none() | each for _, each in of))
    return type_, values.map(lambda raw: composite_bytes(type_, list(raw)))


_FLAT = st.sampled_from(SCALARS)
TYPES = st.one_of(
    _FLAT,
    _FLAT.flatmap(arrays),
    st.lists(_FLAT, min_size=1, max_size=3).map(composites),
    st.lists(st.one_of(_FLAT, _FLAT.flatmap(arrays)), min_size=1, max_size=3).map(composites),
    st.lists(_FLAT, min_size=1, max_size=2).map(composites).flatmap(arrays),
)
