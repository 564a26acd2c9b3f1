"""A statement means the same in any case, with any space between its words, and with additional brackets.

Keywords and unquoted names are written in lower, upper and mixed case, comments and line ends are inserted between all
words, and each expression gets another pair of brackets. Plans, plan hashes and rows do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from expressions import vectors
from golden import casefile
from golden.casefile import Case
from golden.commands import GoldenFile
from golden.test_golden import FILES, HERE, output
from language.respelled import Places, bracketed, lower, mixed, upper, without_marks
from language.sentences import sentence
from sinkql import logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower_sink
from sinkql.parser import parse
from sinkql.planner.query.plan import QueryPlan
from sinkql.printer import to_sql
from support.keywords import WORDS
from views.random_query import query as random_query
from views.random_relation import RELATIONS

pytestmark = pytest.mark.long

_QUERIES, _SENTENCES = 60, 150
_SOAK = 20
_OF_PLACE = frozenset({"SQ1005"})
"""Errors about the start of another statement, which depends on line ends."""
Change = Callable[[str], str]


def _spellings(seed: int) -> dict[str, Change]:
    return {"lower": lower, "upper": upper, "mixed": partial(mixed, random=Random(seed))}


def _same(text: str, plan: Callable[[str], QueryPlan], seed: int, *, whole: bool) -> None:
    """Check that a query has the same plan in other spellings."""
    with Places(text) as places:
        expected = _planned(plan, text)
    spellings = _spellings(seed) if whole else {"mixed": _spellings(seed)["mixed"]}
    for name, spelling in spellings.items():
        other = spelling(text)
        assert _planned(plan, other) == expected, f"{name}: {other}"
    if not isinstance(expected, str):
        other = bracketed(text, places.found)
        assert _planned(plan, other) == expected, f"brackets: {other}"


def _planned(plan: Callable[[str], QueryPlan], text: str) -> logical.Relation | str:
    """Return the plan of a query without its spans, or the code of its error."""
    try:
        return plan(text).relation
    except SinkqlError as error:
        return error.code


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_vector_in_another_spelling_is_the_same_plan(whole: bool) -> None:
    for seed, vector in enumerate(vectors.load()):
        if isinstance(vector["columns"], dict):
            catalog = vectors.table(vector["columns"])
            _same(vectors.text_of(vector), partial(vectors.query, catalog=catalog), seed, whole=whole)


@pytest.mark.parametrize("count", [_QUERIES, pytest.param(_QUERIES * _SOAK, marks=pytest.mark.soak)])
def test_a_random_query_in_another_spelling_is_the_same_plan(count: int) -> None:
    shapes = {f"materialize.public.{each.name}": vectors.shape_of(each.columns) for each in RELATIONS}
    for seed in range(count):
        text = random_query(Random(seed)).sql
        _same(text, partial(vectors.query, catalog=vectors.Tables(shapes)), seed, whole=False)


@pytest.mark.parametrize("count", [_SENTENCES, pytest.param(_SENTENCES * _SOAK, marks=pytest.mark.soak)])
def test_a_sentence_of_the_grammar_in_another_spelling_is_the_same_statement(count: int) -> None:
    for seed in range(count):
        text, _ = sentence(Random(seed))
        for spelling in _spellings(seed).values():
            other = spelling(text)
            assert _statements(other) == _statements(text), other


def _statements(text: str) -> str:
    try:
        return "\n".join(without_marks(to_sql(each)) for each in parse(text, WORDS))
    except SinkqlError as error:
        return error.code


def _golden(path: Path, folder: Path, change: Change) -> tuple[list[str], dict[str, str]]:
    """Return the outputs of a golden file's cases in another spelling, and the plan hashes of its sinks."""
    file, said = GoldenFile(path, folder), []
    for case in casefile.read(path.read_text("utf-8"))[0]:
        changed = replace(case, input=change(case.input))
        said.append(_statements(changed.input) if _is_syntax(case) else _plain(output(file, changed)))
    catalog = file.things.get("catalog")
    return said, _identities(catalog) if isinstance(catalog, MemoryCatalog) else {}


def _is_syntax(case: Case) -> bool:
    """Return whether a case's output is a statement's tree or text; its statements are compared instead."""
    return case.command.split()[0] in ("parse", "print")


def _plain(text: str) -> str:
    """Return an output without places, brackets, space and case; errors and notices are reduced to their codes."""
    lines = []
    for line in text.splitlines():
        told = re.match(r"(?:error|notice)\[(SQ\d+)\]", line)
        if told is not None:
            lines.append("" if told[1] in _OF_PLACE else told[1])
            if line.startswith("error"):
                break
        elif not re.match(r"\s*(\d+ \||\^|hint: |detail: |-->|\|)", line):
            lines.append(line)
    return without_marks("\n".join(lines))


def _identities(catalog: MemoryCatalog) -> dict[str, str]:
    found = {}
    for name in catalog.names("SINK"):
        item = catalog.item(name)
        assert isinstance(item, logical.Sink)
        found[name] = lower_sink(item, catalog).plan
    return found


_PATHS = [path for path in FILES if path.parent.name != "broken"]
_IN_GATE = ("query", "session", "sink", "source", "subquery", "table_rows", "view", "window")
"""Golden files of plans that the gate reads again; `make soak` reads all of them in each spelling."""


def _case_of(path: Path) -> str:
    return str(path.relative_to(HERE))


@pytest.mark.parametrize(
    "path", [each for each in _PATHS if each.parent.name == "parse" or each.stem in _IN_GATE], ids=_case_of
)
def test_a_golden_file_in_another_spelling_says_what_stands_there(path: Path, tmp_path: Path) -> None:
    cases, _ = casefile.read(path.read_text("utf-8"))
    expected = [_statements(case.input) if _is_syntax(case) else _plain(case.output) for case in cases]
    said, _ = _golden(path, tmp_path, _changed(_spellings(len(path.name))["mixed"]))
    assert said == expected


@pytest.mark.soak
@pytest.mark.parametrize("name", ["lower", "upper", "mixed"])
@pytest.mark.parametrize("path", _PATHS, ids=_case_of)
def test_a_golden_file_in_each_spelling_has_the_same_plans(path: Path, tmp_path: Path, name: str) -> None:
    for each in ("as written", "other"):
        (tmp_path / each).mkdir()
    expected = _golden(path, tmp_path / "as written", str)
    assert _golden(path, tmp_path / "other", _changed(_spellings(7)[name])) == expected


def _changed(spelling: Change) -> Change:
    """Return a change of SQL that leaves text without lexemes unchanged."""

    def changed(text: str) -> str:
        try:
            return spelling(text)
        except SinkqlError:
            return text

    return changed
