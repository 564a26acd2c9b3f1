"""Unchanged values of a row whose key changed are filled from earlier rows, wherever the changes are split."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from sinkql import physical
from sinkql.capture.unchanged_values import fill_unchanged, has_unchanged_from_other_key
from sinkql.connector_api.cdc import CapturedTable, TableRows
from sinkql.logical.type import BIGINT, TEXT

_COLUMNS = (physical.Column("id", BIGINT, False), physical.Column("a", TEXT), physical.Column("b", TEXT))
_TABLE = CapturedTable("t", ("public", "t"), _COLUMNS, ("id",), has_unchanged_values=True)
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.string()), ("b", pa.string()), ("$diff", pa.int64()), ("$hole", pa.binary()),
     ("$from", pa.struct([("id", pa.int64())]))]
)  # fmt: skip
Rows = dict[int, dict[str, str]]


def _changes(rows: Rows, dice: random.Random) -> list[dict[str, Any]]:
    """Change a server's rows; return the rows that it sends."""
    sent: list[dict[str, Any]] = []
    for turn in range(12):
        key, other, what = dice.randrange(4), dice.randrange(4), dice.random()
        if what < 0.2 or key not in rows:
            rows[key] = {"a": f"a{turn}", "b": f"b{turn}"}
            sent.append({"id": key, **rows[key], "$diff": 1})
        elif what < 0.3:
            del rows[key]
            sent.append({"id": key, "$diff": -1})
        elif what < 0.6:
            values = {name: f"{name}{turn}" for name in ("a", "b") if dice.random() < 0.4}
            rows[key] |= values
            sent.append({"id": key, **values, "$diff": 1, "$hole": _bits(values)})
        elif other not in rows:
            values = {name: f"{name}{turn}" for name in ("a", "b") if dice.random() < 0.4}
            rows[other] = rows.pop(key) | values
            sent.append({"id": key, "$diff": -1})
            sent.append({"id": other, **values, "$diff": 1, "$hole": _bits(values), "$from": {"id": key}})
    return sent


def _bits(values: dict[str, str]) -> bytes | None:
    number = sum(1 << place for place, name in ((1, "a"), (2, "b")) if name not in values)
    return bytes([number]) if number else None


def _applied(before: Rows, changes: list[dict[str, Any]]) -> Rows:
    """Apply changes to the rows before the entry; values of other keys come from these rows."""
    rows = {key: dict(row) for key, row in before.items()}
    for each in changes:
        if each["$diff"] == -1:
            rows.pop(each["id"], None)
            continue
        number = int.from_bytes(each["$hole"] or b"", "little")
        origin = each["$from"]
        source = before.get(origin["id"], {}) if origin is not None else rows.get(each["id"], {})
        holes = {name for place, name in ((1, "a"), (2, "b")) if number >> place & 1}
        rows[each["id"]] = {name: source[name] if name in holes else each[name] for name in ("a", "b")}
    return rows


@pytest.mark.parametrize("seed", range(150))
def test_unchanged_values_are_filled(seed: int) -> None:
    dice = random.Random(seed)
    rows: Rows = {0: {"a": "old a", "b": "old b"}, 1: {"a": "old a1", "b": "old b1"}}
    before = {key: dict(row) for key, row in rows.items()}
    sent = _changes(rows, dice)
    cut = dice.randrange(len(sent) + 1)
    parts = [TableRows(pa.RecordBatch.from_pylist(each, schema=_SCHEMA)) for each in (sent[:cut], sent[cut:])]
    found = [row for part in fill_unchanged(_TABLE, parts) for row in part.rows.to_pylist()]
    assert _applied(before, found) == rows


def test_rows_with_unchanged_values_of_the_same_key_are_left_alone() -> None:
    part = TableRows(pa.RecordBatch.from_pylist([{"id": 1, "$diff": 1, "$hole": b"\x02"}], schema=_SCHEMA))
    assert not has_unchanged_from_other_key(part)
    assert fill_unchanged(_TABLE, [part]) == [part]
