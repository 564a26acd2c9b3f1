"""Every sentence of the grammar prints as itself; every damaged script gets one coded error."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from golden.syntax import check_spans
from language.damage import damaged
from language.sentences import reached, sentences
from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.parser import parse
from sinkql.printer import to_sql
from sinkql.program import compile_text
from support.keywords import WORDS

pytestmark = pytest.mark.long

# sentences without a meaning: a clause twice, four-part names, options of WITH, functions, numbers
_MEANINGLESS = ("SQ1021", "SQ1022", "SQ1023", "SQ1024", "SQ1025", "SQ1026", "SQ1027", "SQ1028")
_ROUNDS = 4
"""Rounds of sentences until each rule occurs; Hypothesis's choices also depend on the loaded modules."""
_SAME_EACH_TIME = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


# a script that leaves a transaction open has no wrong word
_AT_THE_END = "SQ2655"
# makes queries be planned, not only parsed
_BEFORE = """CREATE SOURCE t (a int, b int, name text, at timestamp, j jsonb) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory');
"""


@pytest.mark.parametrize("count", [1_000, pytest.param(2_000, marks=pytest.mark.soak)])
def test_every_sentence_of_the_grammar_prints_as_itself(count: int) -> None:
    outcomes: Counter[str] = Counter()
    used: set[str] = set()

    @settings(_SAME_EACH_TIME, max_examples=count)
    @given(sentences())
    def check(sentence: tuple[str, frozenset[str]]) -> None:
        text, rules = sentence
        used.update(rules)
        statements, error = _parsed(text)
        assert error is None or error.code in _MEANINGLESS, error.within(path=None, text=text).shown()
        assert [(each,) for each in statements] == [parse(to_sql(each), WORDS) for each in statements]
        check_spans(statements, text, Span(0, len(text)))
        outcomes[error.code if error is not None else "right"] += 1

    for number in range(_ROUNDS):
        seed(number)(check)()
        if reached() == used:
            break
    assert outcomes.total() >= count
    assert outcomes["right"] > 0.8 * outcomes.total()
    assert reached() == used


def _parsed(text: str) -> tuple[tuple[ast.Statement, ...], SinkqlError | None]:
    try:
        return parse(text, WORDS), None
    except SinkqlError as error:
        return (), error


@pytest.mark.parametrize(("count", "codes"), [(400, 15), pytest.param(4_000, 40, marks=pytest.mark.soak)])
def test_a_damaged_script_is_right_or_gets_a_coded_error_within_its_text(count: int, codes: int) -> None:
    outcomes: Counter[str] = Counter()

    @settings(_SAME_EACH_TIME, max_examples=count)
    @given(damaged())
    def check(damage: str) -> None:
        text = _BEFORE + damage
        error = _compiled(text)
        if error is None:
            outcomes["right"] += 1
            return
        outcomes[error.code] += 1
        assert error.code.startswith(("SQ1", "SQ2"))
        if error.code != _AT_THE_END:
            assert error.span is not None, error.shown()
            assert len(_BEFORE) <= error.span.start <= error.span.end <= len(text), (error.span, text)
        assert error.code in error.shown()

    check()
    assert outcomes.total() >= count
    assert outcomes["right"] < 0.5 * outcomes.total()
    assert len(outcomes) > codes


def _compiled(text: str) -> SinkqlError | None:
    try:
        compile_text(text)
    except SinkqlError as error:
        return error
    return None
