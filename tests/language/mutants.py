"""Mutants of queries, compiled programs and catalogs; each ends in an answer or a coded error.

A mutant is identified by a number, which always gives the same mutant, so that a failing one can be run again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from evaluate import wire
from expressions import vectors
from language.damage import hurt
from language.postgres_grammar import changed
from language.session_fuzz import ITEMS, FuzzedSession, SparkAskedError, mistaken
from sinkql import evaluate
from sinkql.catalog.verify import problems
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type
from sinkql.parser.read import lexer
from sinkql.planner.function.call import AGGREGATES, NAMES, WINDOW_FUNCTIONS
from sinkql.planner.syntax.grammar.tokens import RESERVED
from sinkql.program import Program, compile_text

Run = Callable[[Random], str]
"""Run one mutant and return its text; any error is raised."""
_ROWS = 2
_JUNK: tuple[Any, ...] = (
    None, "", "x", "0", "-1", 0, 1, -1, 2**63, 1e300, True, [], {}, [[]], {"": None}, "\0", "\ud800", "integer",
    "numeric(99,99)", "SELECT", "é" * 300,
)  # fmt: skip
_CELLS: tuple[Any, ...] = (
    None,
    "",
    "x",
    0,
    -1,
    2**62,
    1.5,
    b"\xff\x00",
    "{}",
    "[]",
    "{",
    "u1",
    "CREATE VIEW x AS SELECT 1",
)
_ASKED = (
    "SHOW SINKS", "SHOW SOURCES", "SHOW CREATE SINK k", "SELECT * FROM mz_sinks", "SELECT * FROM mz_objects",
    "SELECT * FROM mz_columns", "SELECT * FROM u ORDER BY id", "SELECT 1", "EXPLAIN SINK k", "EXPLAIN SELECT * FROM m",
    "CREATE VIEW w AS SELECT a FROM v", "DROP VIEW w", "INSERT INTO u VALUES (7, 1.5, 'z')",
    "ALTER SINK k SET (COMMIT INTERVAL = '20s')", "DROP SINK k", "DROP TABLE u", "SHOW ALL",
)  # fmt: skip
"""Statements for a session with a damaged catalog."""


@dataclass
class Mutants:
    """Mutants of one kind, with counts of their outcomes."""

    run: Run
    outcomes: Counter[str] = field(default_factory=Counter)

    def failures(self, numbers: range) -> Iterator[str]:
        """Run mutants; yield the number, the error and the text of each failure."""
        for number in numbers:
            wrong = self._outcome(number)
            if wrong is not None:
                yield f"mutant {number}: {wrong}"

    def _outcome(self, number: int) -> str | None:
        try:
            self.run(Random(number))
            self.outcomes["right"] += 1
        except SinkqlError as error:
            self.outcomes[error.code] += 1
            wrong = mistaken(error, error.text if error.text is not None else "\n" * 1_000_000)
            return wrong and f"{wrong}\n{traceback.format_exc()}"
        except SparkAskedError:
            self.outcomes["spark"] += 1
        except Exception:
            return traceback.format_exc()
        return None


# --- queries ------------------------------------------------------------------------------------------------------


@cache
def _vectors() -> tuple[dict[str, Any], ...]:
    return tuple(each for each in vectors.load() if isinstance(each["columns"], dict))


def query(random: Random) -> str:
    """Plan a query with changed words or characters, and evaluate it over rows if Python can."""
    vector = random.choice(_vectors())
    text = vectors.text_of(vector)
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice((changed, hurt, _meant, _meant, _meant, _meant))(text, random)
    tables = vectors.table(vector["columns"])
    try:
        run = evaluate.rows_of(vectors.query(text, tables).relation, tables)
    except SinkqlError as error:
        raise error.within(path=None, text=text) from None
    except Exception as error:
        error.add_note(text)
        raise
    types = [parse_type(type_) for type_ in vector["columns"].values()]
    for row in random.choices(vector["rows"], k=_ROWS) if run is not None and vector["rows"] else ():
        _evaluated(run, row, types, text)
    return text


def _evaluated(run: Any, row: Any, types: Any, text: str) -> None:
    try:
        values = tuple(map(wire.value, row, types))
    except ValueError:
        return  # a time before Python's first year
    try:
        list(run(lambda _: [values]))
    except evaluate.NotEvaluableError:
        return
    except SinkqlError as error:
        raise error.within(path=None, text=text) from None
    except Exception as error:
        error.add_note(f"{text} over {values}")
        raise


_LITERALS = (
    "0", "-1", "2147483648", "9223372036854775807", "-9223372036854775808", "1e300", "1e-300", "0.5", "''", "'a'",
    "'\\'", "'infinity'", "'NaN'", "'24:00'", "'9999-12-31'", "'0001-01-01 BC'", "'294276-12-31 23:59:59'", "'{}'",
    "'{1,NULL}'", "'[1,2)'", "'{\"a\":1}'", "NULL", "true", "'$'", "'^('", "'(a|b)+?$'", "INTERVAL '1000000 years'",
    "DATE '2024-02-30'", "9" * 38, "'é\U0010ffff'",
)  # fmt: skip


def _meant(text: str, random: Random) -> str:
    """Replace a name, function or value by another one; the result is usually still a query."""
    try:
        found = list(lexer.scan(text))
    except SinkqlError:
        return text
    places = [place for place, each in enumerate(found) if _named(each)]
    if not places:
        return text
    place = random.choice(places)
    lexeme, called = found[place], found[place + 1].kind == "("
    other = random.choice(_functions() if called else (*_LITERALS, *_words(found), *_words(found)))
    return text[: lexeme.start] + other + text[lexeme.end :]


def _named(lexeme: lexer.Lexeme) -> bool:
    word = lexeme.kind == "WORD" and lexeme.keyword not in RESERVED and lexeme.keyword not in ("T", "X")
    return word or lexeme.kind in ("STRING", "NUMBER")


def _words(found: list[lexer.Lexeme]) -> list[str]:
    return [each.text for each in found if each.kind == "WORD" and each.keyword not in RESERVED] or ["a"]


@cache
def _functions() -> tuple[str, ...]:
    return (*sorted(set(NAMES)), *AGGREGATES, *WINDOW_FUNCTIONS)


# --- compiled programs ----------------------------------------------------------------------------------------------

_PROGRAM = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE t (a int, b int, name text, at timestamp, j jsonb) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE TABLE u (id bigint PRIMARY KEY, n numeric(5,2), s text);
CREATE MATERIALIZED VIEW m AS SELECT name, count(*) AS n, max(at) AS last FROM t WHERE a > 1 GROUP BY name;
CREATE MATERIALIZED VIEW w AS SELECT id, sum(n) OVER (PARTITION BY s ORDER BY id) AS total FROM u;
CREATE MATERIALIZED VIEW x AS SELECT t.name, u.n FROM t JOIN u ON t.a = u.id WHERE j ->> 'k' = 'v' ORDER BY 2 LIMIT 3;
CREATE SINK km FROM m INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'm') KEY (name) MODE UPSERT
  WITH (COMMIT INTERVAL = '10s');
CREATE SINK kw FROM w INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'w') MODE APPEND
  WITH (COMMIT INTERVAL = '10s');
CREATE SINK kx FROM x INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'x') MODE APPEND
  WITH (COMMIT INTERVAL = '10s');
"""


@cache
def _program() -> str:
    return json.dumps(json.loads(compile_text(_PROGRAM).to_json()))


def program(random: Random) -> str:
    """Read a changed compiled program, and explain it."""
    if random.random() < 0.2:
        text = hurt(_program(), random)
    else:
        tree = json.loads(_program())
        for _ in range(random.choice((1, 1, 2))):
            _change(tree, random)
        text = json.dumps(tree, ensure_ascii=random.random() < 0.9)
    read = Program.from_json(text.encode("utf-8", "surrogatepass"))
    read.explain()
    read.explain("spark-sql")
    read.to_json()
    return text


def _change(tree: Any, random: Random) -> None:
    """Change one node of a JSON tree."""
    node, key = tree, None
    while isinstance(node, dict | list) and node and (key is None or random.random() < 0.9):
        holder, key = node, random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node = holder[key]
    if key is None:
        return
    match random.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[random.randrange(len(holder))])
        case 2:
            holder[key] = random.choice(list(holder.values()) if isinstance(holder, dict) else holder)
        case _:
            holder[key] = random.choice(_JUNK)


# --- catalogs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Catalogs:
    """Mutants of one catalog's file. The caller's working folder must be empty."""

    folder: Path

    def __post_init__(self) -> None:
        with FuzzedSession(self.folder / "whole.db") as session:
            session.execute(ITEMS)

    def __call__(self, random: Random) -> str:
        """Change a cell or delete a row of the catalog's file, then run statements in a session on it."""
        path = self.folder / "damaged.db"
        for each in self.folder.glob("damaged.db*"):
            each.unlink() if each.is_file() else shutil.rmtree(each)
        shutil.copy(self.folder / "whole.db", path)
        said = "; ".join(_damage(path, random) for _ in range(random.choice((1, 1, 2))))
        failed: SinkqlError | None = None
        try:
            with FuzzedSession(path) as session:
                for text in random.sample(_ASKED, 6):
                    try:
                        session.execute(text)
                    except SparkAskedError:
                        continue
                    except SinkqlError as error:
                        failed = error
                list(problems(session.catalog))
        except SinkqlError as error:
            failed = error
        except Exception as error:
            error.add_note(said)
            raise
        if failed is not None:
            raise failed
        return said


def _damage(path: Path, random: Random) -> str:
    """Change a cell of a table or delete a row, as an SQLite editor can; describe the change."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA ignore_check_constraints = on")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = random.choice([each for each in tables if not each.startswith("sqlite_")])
        rows = [row for (row,) in connection.execute(f'SELECT rowid FROM "{table}"')]
        columns = [each[1] for each in connection.execute(f'PRAGMA table_info("{table}")')]
        column = random.choice(columns)
        if not rows or random.random() < 0.1:
            connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (random.choice(rows or [0]),))
            return f"a row of {table} deleted"
        row = random.choice(rows)
        ((value,),) = connection.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,))
        other: Any = random.choice(_CELLS)
        if isinstance(value, str) and random.random() < 0.6:
            other = hurt(value, random).replace("\ud800", "?") if value else "x"
        elif random.random() < 0.2:
            ((other,),) = connection.execute(
                f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (random.choice(rows),)
            )
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (other, row))
        return f"{table}.{column} of row {row} = {other!r}"
    except sqlite3.IntegrityError:
        return "nothing"
    finally:
        connection.close()
