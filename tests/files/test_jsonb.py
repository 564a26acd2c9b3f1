"""JSON text → the text of a jsonb, held against what Postgres 18 printed for the same text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.extension.jsonb import MOST_LEVELS, _exactly, jsonb, jsonbs

_ANSWERS = Path(__file__).with_name("postgres_jsonb.jsonl")
"""A JSON text and what `SELECT '…'::jsonb` gave, null for an error, a line."""


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
    assert [len(jsonb("1e131071")), len(jsonb("1e-16383"))] == [131_072, 16_385]
    nested = "[" * MOST_LEVELS + "]" * MOST_LEVELS
    assert nested == jsonb(nested)
    assert jsonb('"' + "[" * 500 + '"') == '"' + "[" * 500 + '"'


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
