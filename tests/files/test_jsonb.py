"""JSON text → the text of a jsonb, compared with the output of Postgres 18."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sinkql.logical.jsonb import MOST_LEVELS, _exactly, has_long_number, jsonb, jsonbs

_ANSWERS = Path(__file__).with_name("postgres_jsonb.jsonl")
"""Lines with a JSON text and the result of `SELECT '…'::jsonb`, null for an error."""


def test_a_jsonb_is_what_postgres_prints_or_refuses_in_either_way() -> None:
    for line in _ANSWERS.read_text().splitlines():
        text, expected = json.loads(line)
        for way in (jsonb, _exactly):
            try:
                found = way(text)
            except ValueError:
                found = None
            assert expected == found, text


@pytest.mark.parametrize(
    "text",
    [
        "1e999999999", "-1e131072", "1e-16384", "0e-16384", f"[{'9' * 131_073}]", "1e99999999999999999999", "[" * 10**6,
        '"\\ud800"', '"\\u0000"', '{"a": 1e131072, "a": 1}', '{"a": "\\udc00", "a": 1}', "[" * 401 + "]" * 401,
    ],
)  # fmt: skip
def test_what_no_jsonb_holds_is_refused_and_takes_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match=r"out of range|surrogate|U\+0000|nested more than"):
        jsonb(text)


def test_the_largest_that_a_jsonb_holds_is_read() -> None:
    assert [jsonb("1e131071"), jsonb("1e-16383")] == ["1e131071", "1e-16383"]
    nested = "[" * MOST_LEVELS + "]" * MOST_LEVELS
    assert nested == jsonb(nested)
    assert jsonb('"' + "[" * 500 + '"') == '"' + "[" * 500 + '"'


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1e399", "1E+399", "1" + "0" * 399, "10e398"], "1" + "0" * 399),
        (["1e400", "1" + "0" * 400, "0.1e401", "1000e397"], "1e400"),
        (["-1.50e500", "-15" + "0" * 499], "-1.5e500"),
        (["1.50e-400", "0.150e-399", "0." + "0" * 399 + "150"], "1.50e-400"),
        (["1.50e-398", "0." + "0" * 397 + "150"], "1.50e-398"),
        (["0e-450", "-0e-450", "0." + "0" * 450], "0e-450"),
        (["12" * 300, "12" * 300 + "e0"], "1." + "21" * 299 + "2e599"),
    ],
)
def test_one_number_has_one_text_that_is_not_longer_than_what_it_came_of(texts: list[str], expected: str) -> None:
    for text in (*texts, expected):
        assert expected == jsonb(text), text
        assert jsonbs([f"[{text}]"]) in (None, [f"[{expected}]"]), text


def test_numbers_take_the_room_that_they_came_in() -> None:
    text = ",".join(["1e131071"] * 4000)
    assert f"[{text.replace(',', ', ')}]" == jsonb(f"[{text}]")


def test_texts_of_postgres_with_numbers_that_are_written_out_are_found() -> None:
    assert has_long_number(b'{"a": ' + b"1" + b"0" * 400 + b"}")
    assert not has_long_number(b'{"a": ' + b"1" + b"0" * 399 + b"}" + b"[1.5, 2.5]" * 100)


@pytest.mark.parametrize(
    "texts",
    [
        ["1, 2"], ["[1", "2]"], ["1, 2", "[1", "2]"], ['1,"\\u0000",2', "3"], ["1", '"\\u0000"', "2"], ['"a', 'b"'],
        ["", "1"],
        ["1", "1e131072"], ["[" * 401 + "]" * 401], ['{"a": 1', '"b": 2}'], ["1", "nul"],
    ],
)  # fmt: skip
def test_documents_that_are_read_together_do_not_run_into_each_other(texts: list[str]) -> None:
    assert jsonbs(texts) is None
    assert jsonbs(["1", *texts, "2"]) is None


def test_many_documents_give_what_each_gives() -> None:
    answers = [json.loads(line) for line in _ANSWERS.read_text().splitlines()]
    good = [text for text, answer in answers if answer is not None and "u0000" not in text] * 3
    assert [jsonb(text) for text in good] == jsonbs(good)


_SCALARS = ("0", "-0", "-0.0", "1.50", "1e2", "12345678901234567890", "true", "null", '"x"', '"{[{"', '"\\u007b\\/"')
_STRANGE = ('{"b": 1, "a": 2}', "[[]]", '[{"bb": 1, "a": 2}]', '"{{{"', "{}", "[]")


def _like(seed: random.Random, shape: Any, strange: float) -> str:
    """Return a document of a shape, or now and then a different one."""
    if seed.random() < strange:
        return seed.choice(_STRANGE)
    if shape is None:
        return seed.choice(_SCALARS)
    if isinstance(shape, list):
        return f"[{', '.join(seed.choices(_SCALARS, k=seed.randrange(3)))}]"
    names = seed.sample([*shape], len(shape)) if seed.random() < strange else [*shape]
    if names and seed.random() < strange:
        names.append(seed.choice(names))
    return f"{{{','.join(f'{json.dumps(name)}:{_like(seed, shape[name], strange)}' for name in names)}}}"


@pytest.mark.parametrize("strange", [0.0, 0.001, 0.01])
@pytest.mark.parametrize(
    "shape",
    [{"id": None, "kind": None, "tags": []}, {"é": None, "a": {"z": None, "b": {}}}, {"bb": {"y": [], "x": None}}, {}],
    ids=str,
)
def test_documents_of_one_shape_give_what_each_gives(shape: Any, strange: float) -> None:
    seed = random.Random(f"{shape} {strange}")
    for _ in range(4):
        texts = [_like(seed, shape, strange) for _ in range(1500)]
        assert [_exactly(text) for text in texts] == jsonbs(texts)


@pytest.mark.parametrize(
    "odd", [['{"a": {"zz": 1, "b": 2}}', '"x"'], ['{"a": {"zz": 1, "b": 2}}'], ['{"b": 2, "a": 1}']]
)
def test_a_document_of_another_shape_is_looked_at_itself(odd: list[str]) -> None:
    texts = ['{"a": 1}'] * 200 + odd * 50
    assert [_exactly(text) for text in texts] == jsonbs(texts)


def test_a_member_that_is_nested_too_deeply_fails_also_where_others_were_flat() -> None:
    assert jsonbs(['{"a": 1}'] * 200 + [f'{{"a": {"[" * 400 + "]" * 400}}}']) is None
