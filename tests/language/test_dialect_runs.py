"""Every form of the dialect runs in a session that has the items it names, or is not supported yet."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session
from support.keywords import WORDS

pytestmark = pytest.mark.long

_FORMS = Path(__file__).with_name("dialect.sql").read_text("utf-8")
_MADE = {
    "cluster": "CREATE CLUSTER {} (SIZE = 'local[1]')",
    "connection": "CREATE CONNECTION {} TO ICEBERG CATALOG (CATALOG TYPE = 'memory')",
    "database": "CREATE DATABASE {}",
    "schema": "CREATE SCHEMA {}",
    "secret": "CREATE SECRET {} AS 'x'",
    "source": "CREATE SOURCE {} (a bigint, b bigint, c text) FROM FILES (PATH = 'in') FORMAT JSON",
    "table": "CREATE TABLE {} (a bigint, b bigint, id bigint)",
    "relation": "CREATE TABLE {} (a bigint, b bigint, c bigint, id bigint, mode text, key text, table text,"
    " namespace text, user text, sink text)",
    "view": "CREATE VIEW {} AS SELECT counter AS a FROM counting",
    "materialized view": "CREATE MATERIALIZED VIEW {} AS SELECT counter AS a, count(*) AS b FROM counting GROUP BY 1",
    "index": "CREATE DEFAULT INDEX {} ON tens",
    "sink": "CREATE SINK {} FROM counting INTO ICEBERG CATALOG CONNECTION memory (NAMESPACE = 'n', TABLE = 't')"
    " MODE APPEND WITH (COMMIT INTERVAL = '10s')",
}
"""Statements that create a missing item, by its kind."""
_BEFORE = (
    "CREATE SOURCE counting FROM LOAD GENERATOR COUNTER; "
    "CREATE MATERIALIZED VIEW tens AS SELECT counter / 10 AS ten, count(*) AS n FROM counting GROUP BY 1; "
    "CREATE CONNECTION memory TO ICEBERG CATALOG (CATALOG TYPE = 'memory');"
)
_MISSING = re.compile(r'([a-z ]+) "([^"]+)" does not exist')
_MOST = 20
_LIMITS = (27, 19, 24)
"""The limits of forms with errors of their examples, by part."""
_PARTS = len(_LIMITS)
_OF_EXAMPLES = frozenset((
    "SQ2001", "SQ2630",  # a function, type, role, network policy or setting that the test does not create
    "SQ2006", "SQ2460", "SQ2464", "SQ2341", "SQ2340", "SQ2602", "SQ2370", "SQ2371",  # an existing item differs
    "SQ2101", "SQ2103", "SQ2104", "SQ2510", "SQ2514", "SQ2519", "SQ2533",  # options
    "SQ2604", "SQ2605", "SQ2614", "SQ2636",  # roles and settings
    "SQ2301", "SQ2302", "SQ2306", "SQ2323", "SQ2365",  # no name, no envelope, no key, no headers
    "SQ2413", "SQ2423", "SQ2426",  # no columns
    "SQ2552",  # an authority
    "SQ2561",  # an address
))  # fmt: skip
"""Errors of the examples in the forms: their values are placeholders, and some options are missing."""
_OF_SERVERS = frozenset(("SQ2501", "SQ4260", "SQ4270", "SQ4401"))
"""Errors of forms that connect to a server: it does not exist, or is of another kind."""


@pytest.mark.share(_PARTS)
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_form_of_the_dialect_runs_or_is_not_supported_yet(tmp_path: Path, part: int) -> None:
    wrong: list[tuple[str, str]] = []
    outcomes: Counter[str] = Counter()
    for number, statement in enumerate(parse(_FORMS, WORDS)[part::_PARTS]):
        text = _FORMS[statement.span.start : statement.span.end]
        error = _run(text, tmp_path / f"{number}.db")
        outcomes["runs" if error is None else error.code] += 1
        if error is not None and not error.code.startswith("SQ29") and error.code not in _OF_EXAMPLES | _OF_SERVERS:
            wrong.append((text, str(error)))
    assert wrong == []
    assert outcomes["runs"] > 150 / _PARTS, outcomes
    assert sum(outcomes[code] for code in _OF_EXAMPLES) < _LIMITS[part], outcomes


def _run(text: str, path: Path) -> SinkqlError | None:
    """Run a form, creating the items it names until none is missing; return its error, if any."""
    with Session(path) as session:
        waiting, prepared = [text], False
        for _ in range(_MOST):
            try:
                session.execute(f"{waiting[-1]};")
                waiting.pop()
                if not waiting:
                    return None
            except SinkqlError as error:
                missing = _MISSING.match(error.message)
                made = _MADE.get(missing[1]) if missing is not None else None
                if missing is None or made is None:
                    return error
                if not prepared:
                    session.execute(_BEFORE)
                    prepared = True
                database = re.search(rf"(\w+)\.{missing[2]}\b", text) if missing[1] == "schema" else None
                name = f"{database[1]}.{missing[2]}" if database is not None else missing[2]
                waiting.append(made.format(".".join(f'"{part}"' for part in name.split("."))))
    raise AssertionError(text)
