"""The hash of a row depends only on its values and the secret; stored formats contain it, so it never changes."""

import hashlib
import math
import pickle
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkql.connectors.iceberg.key_index.change import check_alike
from sinkql.errors import SinkqlError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.row_hash import hash_rows

_SECRET = bytes(range(16))
_EPOCH = datetime(1970, 1, 1)
_WIDE = Context(prec=60)


def _of(columns: list[Any], key: HashKey, **how: int) -> list[str]:
    return [struct.pack("<QQ", *both).hex() for both in zip(*hash_rows(key, columns, **how), strict=True)]


def _message(values: list[Any], types: list[pa.DataType], domain: int) -> bytes:
    """Return the hashed bytes of a row according to the module's docstring, value by value."""
    flags = domain | sum(1 << (8 + place) for place, value in enumerate(values) if value is None)
    words, tail = [flags.to_bytes(8 + 8 * max(0, -(-(len(values) - 56) // 64)), "little")], b""
    for value, type_ in zip(values, types, strict=True):
        if (word := _word(value, type_)) is not None:
            words.append(word)
            continue
        data = _data(value, type_)
        words.append(len(data).to_bytes(8, "little"))
        if len(data) > 1024:
            data = hashlib.blake2b(data, key=_SECRET, digest_size=32).digest()
        tail += data.ljust(-(-len(data) // 16) * 16, b"\0")
    fixed = b"".join(words)
    return fixed.ljust(-(-len(fixed) // 16) * 16, b"\0") + tail


def _word(value: Any, type_: pa.DataType) -> bytes | None:
    if pa.types.is_decimal(type_):
        whole = 0 if value is None else int(value.scaleb(type_.scale, _WIDE))
        return whole.to_bytes(16, "little", signed=True)
    if pa.types.is_struct(type_):
        if value is None:
            return bytes(16)
        return _reference([value[field.name] for field in type_], [field.type for field in type_], 255)
    if type_ in (pa.string(), pa.binary()) or pa.types.is_list(type_):
        return None
    if value is None:
        return bytes(8)
    match value:
        case float():
            return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
        case datetime():
            number = (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
        case date():
            number = (value - _EPOCH.date()).days
        case time():
            number = (datetime.combine(_EPOCH.date(), value) - _EPOCH) // timedelta(microseconds=1)
        case _:
            number = int(value)
    return number.to_bytes(8, "little", signed=True)


def _data(value: Any, type_: pa.DataType) -> bytes:
    if value is None:
        return b""
    if pa.types.is_list(type_):
        return b"".join(_reference([each], [type_.value_type], 255) for each in value)
    return value.encode() if isinstance(value, str) else bytes(value)


def _reference(values: list[Any], types: list[pa.DataType], domain: int) -> bytes:
    encryptor = Cipher(algorithms.AES(_SECRET), modes.CBC(bytes(16))).encryptor()
    return (encryptor.update(_message(values, types, domain)) + encryptor.finalize())[-16:]


_TEXT = st.text("aé€\0", max_size=40)
_LONG = st.one_of(st.binary(max_size=40), st.integers(1000, 1100).map(lambda size: b"\xab" * size))
_VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=True)),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.decimal128(38, 2), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-2, _WIDE))),
    (pa.string(), _TEXT),
    (pa.binary(), _LONG),
    (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-5, 5), max_size=70)),
    (pa.list_(pa.list_(pa.string())), st.lists(st.none() | st.lists(_TEXT, max_size=3), max_size=3)),
    (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b": st.none() | _TEXT}),
    ),
]


@st.composite
def _rows(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(_VALUES), min_size=1, max_size=4))
    count = draw(st.integers(1, 6))
    return [type_ for type_, _ in kinds], [
        draw(st.lists(st.none() | values, min_size=count, max_size=count)) for _, values in kinds
    ]


@settings(max_examples=60)
@given(_rows(), st.integers(0, 5))
def test_the_hash_is_the_chain_over_what_the_text_says(
    rows: tuple[list[pa.DataType], list[list[Any]]], domain: int
) -> None:
    types, columns = rows
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
    expected = [_reference(list(row), types, domain).hex() for row in zip(*columns, strict=True)]
    assert expected == _of(arrays, HashKey(_SECRET), domain=domain)
    assert expected[1:] == _of([each.slice(1) for each in arrays], HashKey(_SECRET), domain=domain)
    chunked = [pa.chunked_array([each.slice(0, 1), each.slice(1, 0), each.slice(1)]) for each in arrays]
    assert expected == _of(chunked, HashKey(_SECRET), domain=domain)


def test_many_columns_tell_their_nulls() -> None:
    wide = [pa.array([None if place == row else row for row in range(130)], pa.int64()) for place in range(130)]
    expected = [
        _reference([None if place == row else row for place in range(130)], [pa.int64()] * 130, 0).hex()
        for row in range(130)
    ]
    assert expected == _of(wide, HashKey(_SECRET))


def test_rows_that_differ_have_other_hashes() -> None:
    texts = [["ab", "c"], ["a", "bc"], ["abc", None], ["abc", ""], [None, "abc"], ["", "abc"]]
    hashes = _of([pa.array(each) for each in zip(*texts, strict=True)], PUBLIC_KEY)
    assert len(hashes) == len(set(hashes))
    lists = [[], None, [None], [1], [1, None], [None, 1]]
    hashes = _of([pa.array(lists, pa.list_(pa.int64()))], PUBLIC_KEY)
    assert len(hashes) == len(set(hashes))


def test_other_arrow_forms_of_a_value_hash_alike() -> None:
    strings = pa.array(["x", None, "ya", "x"])
    for other in (strings.cast(pa.large_string()), strings.dictionary_encode(), strings.cast(pa.binary())):
        assert _of([strings], PUBLIC_KEY) == _of([other], PUBLIC_KEY)
    assert _of([pa.array([1, -2], pa.int32())], PUBLIC_KEY) == _of([pa.array([1, -2], pa.int64())], PUBLIC_KEY)
    assert _of([pa.array([1.5, -0.0], pa.float32())], PUBLIC_KEY) == _of([pa.array([1.5, 0.0])], PUBLIC_KEY)
    assert _of([pa.array([Decimal("1.50")], pa.decimal128(5, 2))], PUBLIC_KEY) == _of(
        [pa.array([Decimal("1.50")], pa.decimal128(38, 2))], PUBLIC_KEY
    )


def test_every_slice_of_a_large_batch_is_hashed() -> None:
    column = pa.array(range(60_000), pa.int64())
    assert _of([column.slice(59_990)], PUBLIC_KEY) == _of([column], PUBLIC_KEY)[59_990:]


def test_no_rows_have_no_hashes() -> None:
    assert _of([pa.array([], pa.string()), pa.array([], pa.int64())], PUBLIC_KEY) == []
    assert _of([pa.chunked_array([], pa.int64())], PUBLIC_KEY) == []


def test_a_type_that_has_no_hash_is_refused() -> None:
    with pytest.raises(TypeError, match="Arrow type duration"):
        hash_rows(PUBLIC_KEY, [pa.array([timedelta(1)])])


def test_the_secret_decides_and_is_not_shown() -> None:
    column = [pa.array(["k"])]
    one, other = HashKey.new(), HashKey.new()
    assert _of(column, one) != _of(column, other)
    assert _of(column, one) == _of(column, pickle.loads(pickle.dumps(one)))
    assert one.fingerprint != other.fingerprint
    assert one.secret.hex() not in f"{one!r} {one} {one.fingerprint}"
    assert repr(one.secret) not in repr(one)


def test_unlike_keys_of_one_hash_are_told() -> None:
    same = pa.table({"k": ["a", None], "n": [1, 2]})
    check_alike(same, same)
    for other in ({"k": ["a", "b"], "n": [1, 2]}, {"k": ["a", None], "n": [1, 3]}):
        with pytest.raises(SinkqlError) as caught:
            check_alike(same, pa.table(other))
        assert caught.value.code == "SQ3460"
