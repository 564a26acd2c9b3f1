"""Each statement and clause that a hint, a cure or a notice names can be parsed, up to its last written word."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mistake.messages import shown
from mistake.source_hint import hints
from sinkql.errors import SinkqlError, error_codes
from sinkql.parser import parse
from support.keywords import WORDS

_KINDS = (
    "SOURCE|SINK|SINKS|TABLE|VIEW|MATERIALIZED VIEW|OR REPLACE (?:MATERIALIZED )?VIEW|CONNECTION|CLUSTER|SECRET|INDEX"
    "|SCHEMA|SYSTEM SET"
)
_STATEMENT = re.compile(
    rf"\b(?:(?:ALTER|CREATE|DROP|SHOW CREATE|OPTIMIZE|COMMENT ON|VALIDATE) (?:{_KINDS})|REPLAY ERRORS|INSERT INTO"
    r"|DELETE FROM|EXPLAIN PHYSICAL PLAN|SHOW SINKS|SHOW SOURCES|SHOW SUBSOURCES)\b"
)
_OF_SERVERS = re.compile(
    r"on the server|ENGINE = InnoDB|REPLICA IDENTITY|ALTER SYSTEM SET (?:wal_level|max_)|ALTER ROLE|PUBLICATION"
    r"|ON DELETE RESTRICT|CREATE SCHEMA \S+ AUTHORIZATION|LOCK TABLES"
)
_OTHER = ("errors/", "session/scaffold", "parser/assist")  # cures (see below), templates of scripts, patterns
# where a sentence continues after a statement: at a lower-case word that no statement has there
_BEHIND = re.compile(
    r"(?: (?:to|and|or|which|with|before|behind|if|where|in|again|for|from|of|made|on|as|has|have|first|afterwards|then"
    r"|keeps|leaves|reads|replaces|tells|lists|shows|changes|starts|says|a|it|that|by|is|under|instead|once|when|the"
    r"|their|until|only|without|takes|would|so|does|gives|after|lets|had|into|sets|than|were|was|there|computes|one"
    r"|again|at|alone|contradict|them|while|cannot|could|replace)\b|[a-z]+s\b)|[;.:,?](?=\s|\Z)| \(which|\Z"
)


def _texts() -> list[tuple[str, str]]:
    """Return the sentences that users read and that may name statements, each with its origin."""
    found = [(each.file, each.text) for each in hints("") if not each.file.startswith(_OTHER)]
    found += [("golden", each) for each in shown()]
    return found + [(code, part) for code in error_codes for part in (error_codes[code].cause, error_codes[code].cure)]


def _statements(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.;]) (?=[A-Z])", text.replace("`", "").replace("\n", " ")):
        if _OF_SERVERS.search(sentence):
            continue
        for found in _STATEMENT.finditer(sentence):
            yield _written(sentence[found.start() :])


def _written(text: str) -> str:
    """Return the statement at the start of a text, without the rest of the sentence."""
    depth, quoted = 0, False
    for place, sign in enumerate(text):
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if depth < 0:
            return text[:place]
        if depth == 0 and not quoted and _BEHIND.match(text, place):
            return text[:place]
    return text


def _filled(statement: str) -> str:
    """Return a statement with a value for each ellipsis."""
    filled = statement
    for pattern, instead in (
        (r"AS \N{HORIZONTAL ELLIPSIS}$", "AS SELECT 1" if "VIEW" in statement else "AS 'x'"),
        (r"FROM SOURCE$", "FROM SOURCE x"),
        (r"= \N{HORIZONTAL ELLIPSIS}", "= 1"),
        (r"(CREATE SINK \S+) \N{HORIZONTAL ELLIPSIS}$", r"\1"),
        (r"CSV \N{HORIZONTAL ELLIPSIS}", "CSV WITH HEADER"),
        (r"SELECT \N{HORIZONTAL ELLIPSIS}", "SELECT 1"),
        (r"VALUES \(\N{HORIZONTAL ELLIPSIS}\)", "VALUES (1)"),
        (r"KEY \(\N{HORIZONTAL ELLIPSIS}\)", "KEY (x)"),
        (r"COLUMNS \(\N{HORIZONTAL ELLIPSIS}\)", "COLUMNS (x)"),
        (r"TABLE (\S+) \(\N{HORIZONTAL ELLIPSIS}\)", r"TABLE \1 (x int)"),
        (r"\(column type, \N{HORIZONTAL ELLIPSIS}\)", "(x int)"),
        (r", \N{HORIZONTAL ELLIPSIS}\)", ")"),
        (r"\(\N{HORIZONTAL ELLIPSIS}\)", "(OPTION = 'x')"),
        (r"ADD COLUMN \N{HORIZONTAL ELLIPSIS}", "ADD COLUMN y int"),
        (r"'\N{HORIZONTAL ELLIPSIS}'", "'x'"),
        (r"\N{HORIZONTAL ELLIPSIS}", "x"),
    ):
        filled = re.sub(pattern, instead, filled)
    return filled


def _misread(statement: str) -> str | None:
    """Return why a statement cannot be parsed up to its last word; None if it can."""
    try:
        parse(f"{_filled(statement)};", WORDS)
    except SinkqlError as error:
        end = len(_filled(statement))
        if error.span is None or error.span.start < end:
            return f"{statement} -> {_filled(statement)}: {error.message}"
    return None


_CLAUSE = re.compile(
    r"(?<![A-Z…)'] )(?<!as )\b(?:(?:KEY |VALUE )?FORMAT (?!VERSION)[A-Z]|ENVELOPE [A-Z]|INCLUDE [A-Z]|KEY \("
    r"|MODE [A-Z]|WITH \((?!\))|FOR ALL TABLES|FOR TABLES|FOR SCHEMAS|PRIMARY KEY|EXPOSE|CHECK \("
    r"|FROM (?:FILES|KAFKA|POSTGRES|MYSQL|WEBHOOK|LOAD)|INTO (?:ICEBERG|KAFKA))[^.]*"
)
_FILES = "CREATE SOURCE s FROM FILES (PATH = 'p') "
_TOPIC = "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') "
_LAKE = "CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION c (NAMESPACE = 'a', TABLE = 'b') "
_TO_TOPIC = "CREATE SINK s FROM t INTO KAFKA CONNECTION k (TOPIC 't') "
_FRAMES = (
    "CREATE SOURCE s ", "CREATE SOURCE s (x int, ", _FILES, _TOPIC, f"{_TOPIC}FORMAT JSON ",
    f"{_TOPIC}KEY FORMAT TEXT ",
    "CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'p') ", "CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON ",
    "CREATE TABLE t FROM SOURCE s (REFERENCE r) ", "CREATE TABLE t (x int ", "CREATE TABLE t (x int, ",
    "CREATE SINK s FROM t ", _LAKE, _TO_TOPIC, f"{_TO_TOPIC}FORMAT JSON ", "CREATE MATERIALIZED VIEW v ",
    "CREATE CONNECTION c TO AWS (REGION = 'x') ", "ALTER SINK s ",
)  # fmt: skip
"""Beginnings of statements that clauses may follow."""


def _misplaced(clause: str) -> str | None:
    """Return the clause if it cannot be parsed after any of the beginnings; None if it can."""
    return None if any(_misread(f"{frame}{clause}") is None for frame in _FRAMES) else clause


def _clauses(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.;]) (?=[A-Z])", text.replace("`", "").replace("\n", " ")):
        if not _OF_SERVERS.search(sentence):
            for found in _CLAUSE.finditer(sentence):
                yield _written(found[0])


def test_clauses_that_users_are_told_can_be_read() -> None:
    named = {each: where for where, text in _texts() for each in _clauses(text)}
    wrong = [f"{where}: {why}" for each, where in named.items() if (why := _misplaced(each)) is not None]
    assert not wrong, "\n".join(wrong)
    assert len(named) >= 60, len(named)


@pytest.mark.parametrize(
    "text", ["Write KEY (…) MOOD UPSERT.", "Write FORMAT JSON ARRAYS here.", "Add TEXT, FOR TABLE (a)."]
)
def test_a_clause_that_is_misspelt_is_found(text: str) -> None:
    assert all(_misplaced(each) for each in _clauses(text))


def test_statements_that_users_are_told_can_be_read() -> None:
    named = [(where, each) for where, text in _texts() for each in _statements(text)]
    wrong = [f"{where}: {why}" for where, each in named if (why := _misread(each)) is not None]
    assert not wrong, "\n".join(wrong)
    assert len(named) >= 150, len(named)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Run ALTER SOURCE name SKIPPED; and start the sink again.", True),
        ("Run ALTER SOURCE name SKIP, and start the sink again.", False),
        ("Write CREATE SOURCE name IN FILES (PATH = '…') FORMAT JSON.", True),
    ],
)
def test_a_statement_that_is_misspelt_is_found(text: str, wrong: bool) -> None:
    assert any(_misread(each) is not None for each in _statements(text)) is wrong
