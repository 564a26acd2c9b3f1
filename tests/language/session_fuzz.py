"""Run random statements, correct and damaged, through whole sessions, and check that none breaks its session.

The seeds are the forms of the dialect, sentences of the grammar, and queries over items and the system catalog. Their
names are replaced by the names of existing items.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from language.damage import hurt
from language.postgres_grammar import changed
from language.sentences import sentence
from sinkql.catalog.system import RELATIONS
from sinkql.errors import SinkqlError, error_codes
from sinkql.parser import parse
from sinkql.parser.read import lexer
from sinkql.session import Session
from support.keywords import WORDS

if TYPE_CHECKING:
    from sinkql.runtime.spark.adhoc import AdhocSpark

ITEMS = """
CREATE CLUSTER small (SIZE = 'local[1]');
CREATE SECRET pw AS 'x';
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory');
CREATE SOURCE t (a int, b int, name text, at timestamp, j jsonb) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE TABLE u (id bigint, n numeric(5,2), s text);
INSERT INTO u VALUES (1, 2.5, 'x'), (2, NULL, 'Y');
CREATE VIEW v AS SELECT a, name FROM t WHERE b > 0;
CREATE MATERIALIZED VIEW m AS SELECT name, count(*) AS n FROM t GROUP BY name;
CREATE SINK k FROM m INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '10s');
"""
"""Script that each session runs first."""
STATEMENTS = 250
"""Number of statements after which a new session begins."""
_ROLLED_BACK = 0.3
"""Probability that a failed transaction is rolled back after a statement."""
_NAMES = ("t", "u", "v", "m", "k", "lake", "pw", "small", "mz_tables", "mz_sinks", "public")
_COLUMNS = ("a", "b", "name", "id", "n", "s", "at", "j")
_OWN = (
    "SELECT name, id FROM mz_tables WHERE name = 'u' ORDER BY 1 LIMIT 3",
    "SELECT s.name, count(*) FROM mz_sinks s JOIN mz_objects o ON s.id = o.id GROUP BY s.name HAVING count(*) > 1",
    "WITH q AS (SELECT id FROM mz_tables) SELECT * FROM q WHERE id = ANY(ARRAY['u1'])",
    "SELECT CASE WHEN nullable THEN position + 1 ELSE 0 END, upper(name) || type FROM mz_columns WHERE position IN (1)",
    "SELECT table_name, count(DISTINCT data_type) FROM information_schema.columns GROUP BY 1 ORDER BY 2 DESC, 1",
    "SELECT c.oid, c.relname FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(m)$'",
    "SELECT id, upper(s) AS s, n * 2 FROM u WHERE id BETWEEN 1 AND 2 OR s IS NULL ORDER BY n DESC NULLS LAST",
    "SELECT count(*), max(n), sum(id) FILTER (WHERE s LIKE 'x%') FROM u GROUP BY s",
    "INSERT INTO u (id, n) VALUES (1, 2.5), (3, NULL)",
    "UPDATE u SET n = n + 1, s = upper(s) WHERE id IN (1, 2)",
    "DELETE FROM u WHERE n BETWEEN 1 AND 2 OR s IS NULL",
    "EXPLAIN SELECT a + b AS x FROM t WHERE name ~ 'x'",
    "EXPLAIN SINK k",
    "CREATE VIEW w AS SELECT a, count(*) AS n, date_trunc('day', at) AS day FROM t GROUP BY a, date_trunc('day', at)",
    "CREATE VIEW w AS SELECT j ->> 'x' AS x, (j -> 'y')::int AS y FROM t WHERE at > timestamp '2024-01-01'",
    "SHOW COLUMNS FROM u WHERE nullable AND name LIKE '%d'",
    "SHOW SINKS WHERE name = 'k'",
)
_NUMBERS = ("0", "-1", "1.", ".5", "1e400", "1e-400", "99999999999999999999999999999", "007", "2147483648", "1_0")
_CLAUSES = frozenset((
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "INTO", "WITH", "FORMAT", "ENVELOPE", "KEY", "MODE",
    "INCLUDE", "FOR", "ON", "AS", "IN", "SET", "VALUES", "USING", "EXPOSE", "RETURNING", "UNION", "SELECT",
))  # fmt: skip


class SparkAskedError(Exception):
    """A statement would start Spark, which other tests cover."""


class FuzzedSession(Session):
    """A session that raises SparkAskedError instead of starting Spark."""

    @property
    def spark(self) -> AdhocSpark:
        raise SparkAskedError


@dataclass
class Fuzz:
    """Random statements in a sequence of sessions, whose files are in `folder`.

    The caller's working folder must be empty, because statements name files in it.
    """

    seed: int
    folder: Path
    guarded: Callable[[str, Callable[[], None]], str | None] = lambda text, run: run()
    """Run a statement; return a reason if the run itself is faulty, for example too slow."""
    outcomes: dict[str, int] = field(default_factory=dict)

    def failures(self, count: int) -> Iterator[str]:
        """Run `count` statements; yield each failure with the script that led to it."""
        random = Random(self.seed)
        for number in range(0, count, STATEMENTS):
            with _begun(self.folder / f"{number}.db") as session:
                done: list[str] = []
                for _ in range(min(STATEMENTS, count - number)):
                    done.append(script(random))
                    wrong = self._run(session, done[-1])
                    if session.transaction == "failed" and random.random() < _ROLLED_BACK:
                        session.execute("ROLLBACK")
                    if wrong is not None:
                        yield f"{wrong}\n--- the session's statements, the last one first\n" + "\n;\n".join(done[::-1])
                wrong = lost(session)
                if wrong is not None:
                    yield f"{wrong}\n--- the session's statements, the last one first\n" + "\n;\n".join(done[::-1])

    def _run(self, session: Session, text: str) -> str | None:
        found: list[str | None] = []
        slow = self.guarded(text, lambda: found.append(self._outcome(session, text)))
        return slow or (found[0] if found else None)

    def _outcome(self, session: Session, text: str) -> str | None:
        try:
            for result in session.stream(text):
                if any(len(row) != len(result.columns) for row in result.rows):
                    return "the number of values in a row differs from the number of columns"
            self._count("right")
        except SinkqlError as error:
            self._count(error.code)
            return mistaken(error, text)
        except SparkAskedError:
            self._count("spark")
        except Exception:
            return traceback.format_exc()
        return None

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


@contextmanager
def _begun(path: Path) -> Iterator[Session]:
    with FuzzedSession(path) as session:
        session.execute(ITEMS)
        yield session


def mistaken(error: SinkqlError, text: str) -> str | None:
    """Return why an error is itself wrong; None if it is correct."""
    if error.code not in error_codes:
        return f"{error.code} is not declared"
    if not error.message.strip() or error.code not in error.shown():
        return f"{error.code} has no message"
    if error.span is not None and not 0 <= error.span.start <= error.span.end <= len(text):
        return f"{error.code} is at {error.span} of {len(text)} characters: {error.message}"
    return None


def lost(session: Session) -> str | None:
    """Return how a session fails after its statements; None if it answers."""
    try:
        session.execute("ROLLBACK")
        (result,) = session.execute("SELECT 1")
    except Exception:
        return f"the session no longer answers\n{traceback.format_exc()}"
    return None if result.rows == ((1,),) else f"SELECT 1 is {result.rows}"


def script(random: Random) -> str:
    """Return one or two statements, correct or damaged."""
    text = _renamed(_seed(random), random)
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        text = random.choice(_CHANGES)(text, random)
    if random.random() < 0.05:
        text += ";\n" + _renamed(_seed(random), random)
    return text


def _seed(random: Random) -> str:
    kind = random.random()
    if kind < 0.5:
        return random.choice(forms())
    if kind < 0.6:
        return sentence(random)[0]
    if kind < 0.7:
        schema, name = random.choice(sorted(RELATIONS))
        columns = random.choices(RELATIONS[schema, name].names, k=2)
        return f"SELECT {columns[0]} FROM {schema}.{name} WHERE {columns[1]} = '1' ORDER BY 1 LIMIT 5"
    return random.choice(_OWN)


@cache
def forms() -> tuple[str, ...]:
    """Return the forms of the dialect."""
    text = Path(__file__).with_name("dialect.sql").read_text("utf-8")
    return tuple(text[each.span.start : each.span.end] for each in parse(text, WORDS))


def _words(text: str) -> list[lexer.Lexeme]:
    try:
        return [each for each in lexer.scan(text) if each.end > each.start]
    except SinkqlError:
        return []


def _renamed(text: str, random: Random) -> str:
    """Replace some short names by names of existing items and columns."""
    for word in reversed(_words(text)):
        if word.kind == "WORD" and len(word.text) <= 2 and word.text.islower() and random.random() < 0.5:
            other = random.choice(_NAMES if random.random() < 0.7 else _COLUMNS)
            text = text[: word.start] + other + text[word.end :]
    return text


def _of_numbers(text: str, random: Random) -> str:
    numbers = [each for each in _words(text) if each.kind == "NUMBER"]
    if not numbers:
        return changed(text, random)
    word = random.choice(numbers)
    return text[: word.start] + random.choice(_NUMBERS) + text[word.end :]


def _of_brackets(text: str, random: Random) -> str:
    brackets = [each for each in _words(text) if each.kind in ("(", ")", "[", "]")]
    if not brackets:
        return f"({text})"
    word = random.choice(brackets)
    return text[: word.start] + random.choice(("", "((", "))", "[", "]", "()")) + text[word.end :]


def _of_clauses(text: str, random: Random) -> str:
    """Double, delete or swap the part of a statement that begins with a clause's keyword."""
    starts = [each.start for each in _words(text) if each.keyword in _CLAUSES]
    if not starts:
        return hurt(text, random)
    bounds = [0, *(start for start in starts if start), len(text)]
    parts = [text[first:last] for first, last in pairwise(bounds)]
    place = random.randrange(len(parts))
    match random.randrange(3):
        case 0:
            parts.insert(place, f"{parts[place]} ")
        case 1:
            del parts[place]
        case _:
            other = random.randrange(len(parts))
            parts[place], parts[other] = f"{parts[other]} ", f"{parts[place]} "
    return "".join(parts)


def _of_names(text: str, random: Random) -> str:
    names = [each for each in _words(text) if each.kind in ("WORD", "QUOTED")]
    if not names:
        return text
    word, other = random.choice(names), random.choice((*_NAMES, *_COLUMNS, '"Q q"', "größe", "x.y.z", "SELECT"))
    return text[: word.start] + other + text[word.end :]


def _spliced(text: str, random: Random) -> str:
    """Join the first words of one statement and the last words of another."""
    other = _seed(random)
    ends = [each.end for each in _words(text)] or [0]
    starts = [each.start for each in _words(other)] or [0]
    return f"{text[: random.choice(ends)]} {other[random.choice(starts) :]}"


_CHANGES = (changed, changed, changed, hurt, _of_numbers, _of_brackets, _of_clauses, _of_names, _spliced)
