"""Debezium's messages in JSON: decoded together, each has the row that its members alone determine."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sinkql import physical
from sinkql.decode import debezium
from sinkql.decode.debezium import JsonChanges
from sinkql.decode.messages import PLACEHOLDER
from sinkql.logical.type import parse_type

_REFUSED = object()
_AT = datetime(2026, 1, 2, 3, 4, 5, 678_000)
_MICROS = 1_767_323_045_678_000
_UUID = "a0000000-0000-0000-0000-00000000000b"

Texts = Mapping[str, Any]
"""Texts of a member with their values, `_REFUSED` if the text is invalid."""


def _base64(number: int) -> str:
    return b64encode(number.to_bytes(8, "big", signed=True)).decode()


def _moments(unit: int) -> Texts:
    """Return the texts of a timestamp that counts `unit` to a second."""
    counted = {str(_MICROS * unit // 1_000_000): _AT, "0": datetime(1970, 1, 1), str(2**62): _REFUSED, "true": _REFUSED}
    return counted | {'"2026-01-02T03:04:05.678"': _AT, '"x"': _REFUSED, "1.5": _REFUSED}


_ALWAYS: Mapping[str, Texts] = {
    # members with the same meaning with and without a schema
    "id": {"1": 1, "-7": -7, str(2**63 - 1): 2**63 - 1, "null": _REFUSED, '"1"': _REFUSED, str(2**63): _REFUSED},
    "t": {'"a"': "a", '"\\u00e9\\n\\""': 'é\n"', '""': "", "1": _REFUSED, '"\\u0000"': _REFUSED,
          f'"{PLACEHOLDER}"': _REFUSED, "[]": _REFUSED},
    "i": {"0": 0, str(-(2**31)): -(2**31), str(2**31): _REFUSED, "1.0": _REFUSED, "true": _REFUSED},
    "y": {"true": True, "false": False, "0": _REFUSED, '"true"': _REFUSED},
    "d": {"0.1": 0.1, "-1e300": -1e300, "7": 7.0, '"Infinity"': float("inf"), '"y"': _REFUSED, "{}": _REFUSED},
    "u": {f'"{_UUID}"': _UUID, f'"{_UUID.upper()}"': _UUID, '"a"': _REFUSED},
    "j": {'{"b": 1, "a": [1.50]}': '{"a": [1.50], "b": 1}', '"[1]"': "[1]", '"{"': _REFUSED, "7": "7"},
    "raw": {'"AP8="': b"\0\xff", '""': b"", '"A"': _REFUSED, "1": _REFUSED},
    "l": {"[1, null]": [1, None], "[]": [], "[2147483648]": _REFUSED, '["1"]': _REFUSED, "{}": _REFUSED},
    "z": {'"2026-01-02T03:04:05.678Z"': _AT.replace(tzinfo=UTC), '"2026-01-02"': _REFUSED, "[]": _REFUSED},
    "day": {"20455": date(2026, 1, 2), "-719162": date(1, 1, 1), "-719163": _REFUSED, '"2026-01-02"': date(2026, 1, 2)},
}  # fmt: skip
_TYPES = {
    "id": "bigint", "t": "text", "i": "integer", "y": "boolean", "d": "double precision", "u": "uuid", "j": "jsonb",
    "raw": "bytea", "l": "integer list", "z": "timestamptz", "day": "date", "ts": "timestamp", "tod": "time",
    "n": "numeric(9,2)",
}  # fmt: skip
_FORMS: Sequence[tuple[Mapping[str, Any], Mapping[str, Texts]]] = (
    # the types of some fields in a schema, with the meaning of their members; the first form has no schema
    ({}, {
        "ts": _moments(1_000_000), "tod": {"1": time(0, 0, 0, 1), "-1": _REFUSED, "86400000000": _REFUSED},
        "n": {"1.5": Decimal("1.50"), '"-2"': Decimal("-2.00"), "1e8": _REFUSED, "[]": _REFUSED},
    }),
    ({"ts": "io.debezium.time.Timestamp", "tod": "io.debezium.time.Time"}, {
        "ts": _moments(1000), "tod": {"1": time(0, 0, 0, 1000), "86400000": _REFUSED},
        "n": {f'"{_base64(12345)}"': Decimal("123.45"), f'"{_base64(-1)}"': Decimal("-0.01"),
              f'"{_base64(10**9)}"': _REFUSED, '"%"': _REFUSED},
    }),
    ({"ts": "io.debezium.time.NanoTimestamp", "tod": "io.debezium.time.MicroTime"}, {
        "ts": {str(_MICROS * 1000): _AT, str(_MICROS * 1000 + 1): _REFUSED}, "tod": {"1": time(0, 0, 0, 1)},
        "n": {f'"{_base64(7)}"': Decimal("0.07")},
    }),
)  # fmt: skip
_BROKEN = (b"", b"{", b"[]", b"null", b'{"op": 7}', b'{"op": "c", "after": {"id": 1}} x', b'{"op": "c", "t": "\xff"}')


def _schema(form: Mapping[str, Any]) -> str:
    """Return the schema part of a message."""
    named = {**form, "n": "org.apache.kafka.connect.data.Decimal"}
    fields = [
        {"field": name, "type": "bytes", **({"name": named[name]} if name in named else {}),
         "parameters": {"scale": "2"}} for name in _TYPES
    ]  # fmt: skip
    return json.dumps({"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]})


class _Topic:
    """Draws random messages, together with their expected results."""

    def __init__(self, seed: random.Random, wild: float) -> None:
        self.seed, self.wild = seed, wild
        self.form = seed.choice((None, *range(len(_FORMS))))
        self.space = seed.choice(("", " "))

    def _row(self, texts: Mapping[str, Texts]) -> tuple[str, dict[str, Any]]:
        """Return the text of a row, and the values of its columns."""
        members, values = [], dict.fromkeys(_TYPES)
        for name in self.seed.sample(list(_TYPES), len(_TYPES)):
            if name != "id" and self.seed.random() < 0.2:
                continue  # an absent member is NULL
            bad = self.seed.random() < self.wild / 20
            chosen = [text for text, value in texts[name].items() if (value is _REFUSED) == bad] or list(texts[name])
            text = self.seed.choice(chosen) if name == "id" or self.seed.random() < 0.8 else "null"
            members.append(f'"{name}": {text}')
            values[name] = None if text == "null" and name != "id" else texts[name][text]
        if self.seed.random() < 0.2:
            members.insert(self.seed.randrange(len(members) + 1), '"more": [{"op": "d"}, 1e999]')
        return "{" + ", ".join(members) + "}", values

    def message(self) -> tuple[bytes | None, int, Any]:
        """Return a message, its `$diff` (0 without a row), and its row: `_REFUSED` if the message is bad."""
        seed = self.seed
        if seed.random() < 0.05:
            return None, 0, None
        if seed.random() < self.wild / 10:
            return seed.choice(_BROKEN), 0, _REFUSED
        place = seed.randrange(len(_FORMS)) if self.form is None or seed.random() < self.wild / 20 else self.form
        form, texts = _FORMS[place][0], {**_ALWAYS, **_FORMS[place][1]}
        kinds, weights = ("c", "r", "u", "d", "m", "t", "x"), (8, 2, 8, 5, 1, self.wild, self.wild)
        op = seed.choices(kinds, weights)[0]
        (after, row), (before, old) = self._row(texts), self._row(texts)
        omitted = seed.random() < self.wild / 20
        after = "null" if op in "dm" or omitted else after
        before = "null" if (op == "d" and omitted) or op in "cr" else before
        parts = [f'"op": "{op}"', f'"after": {after}', f'"before": {before}', '"source": {"after": {}, "op": "d"}']
        seed.shuffle(parts)
        payload = "{" + ",".join(parts) + "}"
        begin, between = f'{{"schema":{self.space}', f',{self.space}"payload":{self.space}'
        text = f"{begin}{_schema(form)}{between}{payload}}}" if place else payload
        if op in "cru":
            refused = omitted or _REFUSED in row.values()
            return text.encode(), 1, _REFUSED if refused else row
        if op == "d":
            gone = {**dict.fromkeys(_TYPES), "id": old["id"]}
            return text.encode(), -1, _REFUSED if omitted or old["id"] is _REFUSED else gone
        return text.encode(), 0, None if op == "m" else _REFUSED


@pytest.mark.parametrize("seed", range(6))
def test_messages_become_what_their_members_say(seed: int) -> None:
    drawn, seen = random.Random(seed), 0
    columns = tuple(physical.Column(name, parse_type(type_), name != "id") for name, type_ in _TYPES.items())
    decoder = JsonChanges(columns, ("id",))
    for count in (1, 2, 10, 100, 200):
        topic = _Topic(drawn, drawn.choice((0.0, 0.3, 1.0)))
        messages = [topic.message() for _ in range(count)]
        found = decoder.decode(None, [text for text, _, _ in messages])
        assert found.places is not None
        rows = [(place, diff, row) for place, (_, diff, row) in enumerate(messages) if isinstance(row, dict)]
        got = zip(found.places.tolist(), found.batch.column("$diff").to_pylist(), _values(found.batch), strict=True)
        assert rows == list(got)
        refused = {place: text for place, (text, _, row) in enumerate(messages) if row is _REFUSED}
        assert {place: messages[place][0] for place in found.failures} == refused
        assert sorted(found.rowless) == [place for place, (_, _, row) in enumerate(messages) if row is None]
        seen += len(rows)
    assert seen > 100


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("keyed", [False, True])
def test_messages_decoded_together_are_those_decoded_alone(
    seed: int, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debezium, "_PART", 32)
    drawn, seen = random.Random(f"{seed} {keyed}"), 0
    columns = tuple(physical.Column(name, parse_type(type_), name not in ("id", "t")) for name, type_ in _TYPES.items())
    for count in (3, 40, 150):
        topic = _Topic(drawn, drawn.choice((0.0, 0.01, 1.0)))
        messages = [topic.message()[0] for _ in range(count)]
        keys = pa.record_batch({"id": pa.array(range(count), pa.int64())}) if keyed else None
        together, one_by_one = JsonChanges(columns, ("id",)), JsonChanges(columns, ("id",))
        together.decode(keys, messages)  # from now on it knows the schemas
        found, alone = together.decode(keys, messages), []
        for place, message in enumerate(messages):
            one_by_one.decode(None, [b'{"schema": {}, "payload": null}'])  # the schema of the next message is not known
            alone.append(one_by_one.decode(keys if keys is None else keys.slice(place, 1), [message]))
        assert {place: one.failures[0] for place, one in enumerate(alone) if one.failures} == found.failures
        assert [place for place, one in enumerate(alone) if one.rowless] == sorted(found.rowless)
        with_rows = [place for place, one in enumerate(alone) if one.batch.num_rows]
        assert found.places is not None
        assert with_rows == found.places.tolist()
        assert (
            pa.Table.from_batches([one.batch for one in alone])
            .combine_chunks()
            .equals(pa.Table.from_batches([found.batch]).combine_chunks())
        )
        seen += len(with_rows)
    assert seen > 30


def _values(batch: Any) -> list[dict[str, Any]]:
    return [{name: row[name] for name in _TYPES} for row in batch.to_pylist()]
