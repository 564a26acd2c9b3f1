"""Texts → values of each type: equal by column, one by one and in Postgres 18, or refused."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import WideError
from sinkql.connector_api.types import arrow_type
from sinkql.decode.text_column import Failures, from_text
from sinkql.decode.text_value import value_of
from sinkql.logical.type import JSONB, parse_type

_ANSWERS = Path(__file__).with_name("postgres_values.jsonl")
"""Lines with a type, a text, and the text of `SELECT '…'::type`, null for an error.

The casts to numeric had no precision and scale.
"""


def _answers() -> Iterator[tuple[str, str, str | None]]:
    for line in _ANSWERS.read_text().splitlines():
        type_, text, answer = json.loads(line)
        yield type_, text, answer


def _one(text: str, type_: str) -> Any:
    """Return the value in a column, or "refused" if the text is invalid."""
    try:
        return pa.array([value_of(text, parse_type(type_))], arrow_type(parse_type(type_))).to_pylist()[0]
    except ValueError:
        return "refused"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    return type(one) is type(other) and bool(one == other)


def test_a_value_is_what_postgres_reads_or_refused() -> None:
    taken = 0
    for type_, text, answer in _answers():
        found = _one(text, type_)
        if found == "refused":
            continue
        assert answer is not None, f"Postgres refuses {text!r} as {type_}"
        assert _same(found, _one(answer, type_)), (type_, text, answer)
        taken += 1
    assert taken > 400


def test_what_is_refused_is_what_the_manual_says() -> None:
    refused = {
        (type_, text) for type_, text, answer in _answers() if answer is not None and _one(text, type_) == "refused"
    }
    kinds = {type_.partition("(")[0] for type_, _ in refused}
    assert kinds <= {"date", "time", "timestamp", "timestamptz", "numeric", "real", "double precision"}
    assert all(
        "x" in text.lower() or "nan(" in text for type_, text in refused if type_ in ("real", "double precision")
    )


def test_a_column_gives_what_its_texts_give() -> None:
    seed = random.Random(7)
    columns: dict[str, list[str]] = {}
    for type_, text, _ in _answers():
        columns.setdefault(type_, []).append(text)
    for type_, texts in columns.items():
        good = [text for text in texts if _one(text, type_) != "refused"]
        for wild in (0.0, 0.01, 1.0):
            chosen = [seed.choice(texts if seed.random() < wild else good) for _ in range(600)]
            column = [None if seed.random() < 0.1 else text for text in chosen]
            failures: Failures = {}
            found = from_text(pa.array(["x", *column, "y"], pa.string())[1:-1], parse_type(type_), failures)
            expected = [None if text is None else _one(text, type_) for text in column]
            assert [row for row, value in enumerate(expected) if value == "refused"] == sorted(failures)
            for value, other in zip(found.to_pylist(), expected, strict=True):
                assert _same(value, None if other == "refused" else other), type_


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("numeric(38,0)", "3.4028235e38"), ("numeric(38,10)", "8611770808369993248845925856177"),
        ("numeric(38,0)", "-224685077718470174477377113776715851621316801"), ("integer", "0xFFFFFFFF"),
    ],
)  # fmt: skip
def test_arrow_does_not_wrap_a_number_that_is_too_large(type_: str, text: str) -> None:
    failures: Failures = {}
    assert from_text(pa.array([text] * 20, pa.string()), parse_type(type_), failures).null_count == 20
    assert len(failures) == 20


def test_documents_that_take_far_more_room_than_their_texts_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.decode.text_column._WIDEST", 1000)
    texts = pa.array(["1e399"] * 3, pa.string())
    with pytest.raises(WideError):
        from_text(texts, JSONB, {})
    assert [len(value.as_py()) for value in from_text(texts[:1], JSONB, {})] == [400]
