"""Every error code is declared once, and every declared code is raised."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from sinkql.errors import (
    Code,
    Family,
    LostStateError,
    MissingError,
    Notice,
    SinkqlError,
    Span,
    UnclosedError,
    error_codes,
)

_PACKAGE = Path(__file__).parents[2] / "sinkql"
_FAMILIES = {
    "1": Family.SYNTAX,
    "2": Family.MEANING,
    "3": Family.RUN,
    "4": Family.ENVIRONMENT,
    "5": Family.CONFLICT,
}


def test_every_code_in_the_source_is_declared_and_every_declared_one_is_used() -> None:
    used = {
        code
        for path in (*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.toml"))
        if _PACKAGE / "errors" / "declared" not in path.parents
        for code in re.findall(r'"(SQ\d{4})"', path.read_text())
    }
    assert sorted(used) == sorted(error_codes)


def test_the_first_digit_of_a_code_is_its_family() -> None:
    assert {code: error_codes[code].family for code in error_codes} == {
        code: _FAMILIES[code[2]] for code in error_codes
    }


def test_every_code_has_its_cause_and_its_cure_in_whole_sentences() -> None:
    sentence = re.compile(r"[A-Z\\].*\.", re.DOTALL)
    incomplete = [
        code
        for code in error_codes
        if not all(sentence.fullmatch(text) for text in (error_codes[code].cause, error_codes[code].cure))
    ]
    assert incomplete == []


def test_a_code_that_nothing_declares_is_refused() -> None:
    with pytest.raises(LookupError, match="SQ9999"):
        SinkqlError("SQ9999", "…")
    with pytest.raises(LookupError, match="SQ9999"):
        Notice("SQ9999", "…")


def test_a_code_is_declared_once() -> None:
    with pytest.raises(ValueError, match="SQ1001"):
        error_codes.add({"SQ1001": Code(Family.SYNTAX, "…", "…")})


def test_the_declaration_decides_the_exit_code() -> None:
    assert [SinkqlError(code, "…").exit_code for code in ("SQ1001", "SQ2001", "SQ3001", "SQ4001", "SQ5101")] == [
        1,
        1,
        3,
        4,
        5,
    ]


def test_an_error_that_comes_from_another_process_is_the_same() -> None:
    errors = [
        SinkqlError("SQ4201", "no answer", Span(1, 2), detail="d", hint="h", path="p", text="t"),
        MissingError("SQ2001", "gone", Span(1, 2), name="orders"),
        UnclosedError("SQ1011", "open", Span(1, 2), mark="'", hint="h"),
        LostStateError("SQ3404", "lost"),
    ]
    for error in errors:
        came = pickle.loads(pickle.dumps(error))
        assert type(came) is type(error)
        assert vars(came) == vars(error)
        assert str(came) == str(error)


def test_no_control_flow_goes_by_the_text_of_a_code() -> None:
    compared = re.compile(r'\.code\s*(==|!=|in\b|not in\b)|\.code\.startswith|\.code\[|(==|!=)\s*"SQ\d')
    found = [
        f"{path.relative_to(_PACKAGE)}:{number}"
        for path in _PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if compared.search(line)
    ]
    assert found == []


def test_every_code_is_in_a_test_or_a_golden_file() -> None:
    folder = Path(__file__).parents[1]
    text = "".join(path.read_text("utf-8") for kind in ("*.py", "*.txt") for path in folder.rglob(kind))
    assert sorted(code for code in error_codes if code not in text) == []
