"""Files that are one JSON array → the rows that the elements would yield as lines."""

from __future__ import annotations

import json
import random
from io import BytesIO
from typing import Any

import pytest

from sinkql.connector_api.stream import Decoder, UndecodableError
from sinkql.connectors.files import json_array
from sinkql.connectors.files.json_array import JsonArray
from sinkql.decode.json_lines import JsonDecoder
from sinkql.logical.type import BIGINT, JSONB, TEXT
from sinkql.physical import Column

_COLUMNS = (Column("a", BIGINT), Column("t", TEXT), Column("j", JSONB))


def _decoded(decoder: Decoder, data: bytes) -> tuple[list[dict[str, Any]], list[tuple[int, bytes]]]:
    parts = list(decoder.decode(BytesIO(data)))
    rows = [row for part in parts for row in part.batch.to_pylist()]
    failures = [(failure.line, failure.raw) for part in parts for failure in part.failures]
    assert sum(part.records for part in parts) == len(rows) + len(failures)
    return rows, failures


def _element(seed: random.Random, depth: int = 0) -> Any:
    kind = seed.random()
    if (depth == 0 and kind < 0.8) or (depth < 3 and kind < 0.2):
        names = seed.sample(["a", "t", "j", "x", "], [", "}{", '"', "\\"], seed.randrange(5))
        return {name: seed.randrange(9) if name == "a" else _element(seed, depth + 1) for name in names}
    if depth < 3 and kind < 0.3:
        return [_element(seed, depth + 1) for _ in range(seed.randrange(3))]
    return seed.choice(["x", "é\n", '"]}', "\\", "", 1, 1.5, True, None, ","])


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_an_array_gives_what_its_elements_give_as_lines(indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(3)
    for _ in range(120):
        elements = [_element(seed) for _ in range(seed.choice([0, 1, 5, 60]))]
        texts = [json.dumps(element, indent=indent, ensure_ascii=seed.random() < 0.5) for element in elements]
        data = ("[" + ",\n".join(texts) + " ]\n").encode()
        lines = "".join(json.dumps(element) + "\n" for element in elements).encode()
        monkeypatch.setattr(json_array, "BLOCK", seed.choice([1, 3, 50, 1 << 20]))
        rows, failures = _decoded(JsonArray(_COLUMNS, whole=False), data)
        expected, refused = _decoded(JsonDecoder(_COLUMNS), lines)
        assert expected == rows
        assert [texts[line - 1].encode() for line, _ in refused] == [raw for _, raw in failures]
        begins = [1 + sum(text.count("\n") + 1 for text in texts[: line - 1]) for line, _ in refused]
        assert begins == [line for line, _ in failures]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: it is not a JSON array"), (' \n{"a": 1}', "line 2: expected [, found {"),
        ('[{"a": 1}', "line 1: its array is not closed"), ('[{"a": 1}\n,', "line 2: its array is not closed"),
        ('[{"a": 1},\n]', "line 2: expected an element, found ]"), ('[{"a": 1}] x', "expected nothing after the array"),
        ('[{"a": 1}\n{"a": 2}]', "line 2: expected , or ], found {"), ('[{"t": "x]', "line 1: its array is not closed"),
        ("[}]", "expected an element, found }"),
    ],
)  # fmt: skip
def test_what_is_no_array_is_an_error_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(UndecodableError, match=reason.replace("[", r"\[").replace("{", r"\{")):
        _decoded(JsonArray(_COLUMNS, whole=False), text.encode())


def test_an_element_that_does_not_decode_fails_alone() -> None:
    data = b'\xef\xbb\xbf[{"a": 1},\n{"a": "x"}, nul,\n null, {"t": "a\nb"}, {"a" 1}, [[{]]}, {"a": 2}]'
    rows, failures = _decoded(JsonArray(_COLUMNS, whole=False), data)
    assert [row["a"] for row in rows] == [1, 2]
    assert [line for line, _ in failures] == [2, 2, 3, 3, 4, 4]


def test_elements_become_one_jsonb_column() -> None:
    rows, _ = _decoded(JsonArray((Column("data", JSONB),), whole=True), b'[{"b": 1,\n "a": 2}, 3, null]')
    assert [row["data"] for row in rows] == ['{"a": 2, "b": 1}', "3", "null"]
