"""Generate the pages of statements from their help, their syntax, and forms that run in a small catalog."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

from docs import error_page
from docs.links import link
from docs.markdown_parts import bullets, cell, code, escaped, front_matter, paragraph, table, text_block
from docs.statement_names import PAGES, StatementPage, page_of
from sinkql.connector_api.registry import discover
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.kafka.admin import Admin, Topic
from sinkql.connectors.mysql import purify as mysql_facts
from sinkql.connectors.postgres import facts as postgres_facts
from sinkql.errors import SinkqlError
from sinkql.parser.assist.syntax_help import syntax
from sinkql.script.format import format_script
from sinkql.session import Session

_FORMS = Path(__file__).with_name("forms.sql")
_SECTION = "--# "
_RUNS = "runs"
_BASE = """
CREATE SECRET s AS 'x';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = SECRET s, SECRET ACCESS KEY = SECRET s, REGION = 'us-east-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'u') WITH (VALIDATE = false);
CREATE CONNECTION my TO MYSQL (HOST 'db', USER 'u') WITH (VALIDATE = false);
CREATE CONNECTION brokers TO KAFKA (BROKER 'broker:9092', SECURITY PROTOCOL = PLAINTEXT) WITH (VALIDATE = false);
CREATE CONNECTION schemas TO CONFLUENT SCHEMA REGISTRY (URL 'http://registry:8081') WITH (VALIDATE = false);
CREATE CLUSTER c (SIZE = 'local[2]');
CREATE SCHEMA sc;
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE SOURCE h FROM LOAD GENERATOR AUCTION (UP TO 10);
CREATE SOURCE d FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (public.users AS buyers);
CREATE TABLE t (id bigint PRIMARY KEY, name text);
CREATE VIEW v AS SELECT counter FROM n;
CREATE MATERIALIZED VIEW m AS SELECT counter FROM n;
CREATE MATERIALIZED VIEW tens AS SELECT counter / 10 AS ten, count(*) AS n FROM n GROUP BY 1;
CREATE INDEX i ON tens (ten);
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = 'k')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '10s', BRANCH = 'audit');
"""
_COLUMNS = [{"name": "id", "type": {"oid": 20, "name": "bigint"}, "nullable": False}]
_USERS = {"schema": "public", "name": "users", "oid": 1, "identity": "default", "columns": _COLUMNS, "key": ["id"]}
_PUBLICATION = {"postgres": {"version": 180000, "system": "1", "tables": [_USERS]}}
_ORDERS = {
    "database": "shop",
    "name": "orders",
    "columns": [{"name": "id", "type": "int(11)", "nullable": False}],
    "key": ["id"],
}
_TOPIC = Topic("orders", "1", (0,))
_SHOP = {"mysql": {"mariadb": True, "version": "10.11", "tables": [_ORDERS]}}
_ITEMS = {
    "lake_key": "CREATE SECRET lake_key AS 'x';",
    "lake": "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');",
    "small": "CREATE CLUSTER small (SIZE = 'local[2]');",
    "orders": "CREATE SOURCE orders (id bigint, customer bigint, amount numeric(12, 2), placed_at timestamp)\n"
    "  FROM FILES (PATH = 'orders', GLOB = '*.json') FORMAT JSON;",
    "auction_house": "CREATE SOURCE auction_house FROM LOAD GENERATOR AUCTION (UP TO 100);",
    "market": "CREATE SOURCE market FROM LOAD GENERATOR AUCTION (UP TO 100) FOR ALL TABLES;",
    "storage": "CREATE CONNECTION storage TO AWS\n"
    "  (ACCESS KEY ID = SECRET lake_key, SECRET ACCESS KEY = SECRET lake_key, REGION = 'us-east-1');",
    "customers": "CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL);",
    "daily": "CREATE MATERIALIZED VIEW daily AS\n"
    "SELECT customer, date_trunc('day', placed_at) AS day, count(*) AS orders, sum(amount) AS revenue\n"
    "FROM orders GROUP BY customer, date_trunc('day', placed_at);",
    "recent": "CREATE VIEW recent AS SELECT id FROM orders;",
    "daily_sink": "CREATE SINK daily_sink FROM daily\n"
    "  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'daily')\n"
    "  KEY (customer, day) MODE UPSERT WITH (COMMIT INTERVAL = '10s');",
    "audited_sink": "CREATE SINK audited_sink FROM daily\n"
    "  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'shop', TABLE = 'audited')\n"
    "  KEY (customer, day) MODE UPSERT WITH (COMMIT INTERVAL = '10s', BRANCH = 'audit');",
    "daily_by_customer": "CREATE INDEX daily_by_customer ON daily (customer);",
    "shop": "CREATE SCHEMA shop;",
    "staging": "CREATE DATABASE staging;",
}
"""Items that examples may name: a page creates the items that its examples name before they run."""
_ERRORS = {"ALTER SINK PUBLISH": "SQ3522"}
"""Examples that need a sink which has run, each with its error without that sink."""
_KIND = "(?:SECRET|CONNECTION|CLUSTER|SOURCE|TABLE|VIEW|MATERIALIZED VIEW|SINK|INDEX|SCHEMA|DATABASE)"
_OFFLINE = ("SUBSCRIBE",)
"""Statements whose examples need Spark."""
_MOST_ERRORS = 12
_INDEX = """# Statements

Find the page of a statement.

A test runs the forms of each page in a catalog. "Refused forms" counts the forms of Materialize's dialect that SinkQL
refuses with an error. `\\h CREATE SINK` in the shell shows the same help.
"""
_GROUPS: dict[str, tuple[str, ...]] = {
    "Create": ("CREATE ",),
    "Change": ("ALTER ",),
    "Query and inspect": ("SELECT", "SUBSCRIBE", "EXPLAIN", "SHOW"),
    "Other": ("",),
}


def pages(folder: Path) -> dict[str, str]:
    """Return the pages by their paths under docs/; `folder` must be empty, and the catalogs are written to it."""
    outcomes = _outcomes(folder)
    found = {f"sql/{each.file}": _page(each, outcomes[each.file]) for each in PAGES}
    return {**found, "sql/index.md": _index(outcomes)}


def _page(page: StatementPage, outcomes: Sequence[tuple[str, str]]) -> str:
    entries = _entries()
    topics = [(name, entries[name]) for name in page.topics]
    main = topics[0][1]
    parts = [
        front_matter(*_keywords(page)),
        f"# {page.title}\n",
        f"{cell(main['meaning'].partition('. ')[0].rstrip('.'))}.\n",
    ]
    if rest := main["meaning"].partition(". ")[2]:
        parts.append(paragraph(escaped(rest)))
    if options := [f"{link(path, 'sql')[:-1]}#options)" for _, each in topics for path in each.get("options", ())]:
        parts.append(paragraph(f"For the options, see {' and '.join(options)}."))
    examples = [(name, text) for name, each in topics for text in (each["example"], *each.get("examples", ()))]
    if made := _made(examples):
        parts.insert(2, f"<!-- setup: sinkql\n{made}\n-->\n")
        parts[1], parts[2], parts[3] = parts[1], parts[3], parts[2]
    parts.append("## Examples\n")
    parts += [_example(name, text) for name, text in examples]
    written = "\n\n".join(dict.fromkeys(_syntaxes(page, topics)))
    if written == "query":
        parts += ["## Syntax\n", "[Queries](queries.md) lists the clauses.\n"]
    else:
        parts += [
            "## Syntax\n",
            "Keywords are in upper case, `[ ]` is optional, `{ | }` is a choice, and `…` repeats.\n",
        ]
        parts.append(text_block(written))
    if clauses := [clause for _, each in topics for clause in each.get("clauses", ())]:
        parts += ["## Clauses\n", table(("clause", "meaning"), [(code(a), cell(b)) for a, b in clauses])]
    if notes := [escaped(note) for _, each in topics for note in each.get("notes", ())]:
        parts += [
            "## Details\n",
            bullets(note.replace("\\[", "[").replace("\\]", "]").replace("\\_", "_") for note in notes),
        ]
    if running := next((each["running"] for _, each in topics if "running" in each), None):
        parts += ["## While sinks run\n", paragraph(escaped(running))]
    if errors := _errors(page):
        parts += ["## Errors\n", "The most frequent errors of this statement:\n", table(("code", "cause"), errors)]
    parts += _forms(outcomes)
    see = [path for _, each in topics for path in each.get("see", ())]
    parts += ["## See also\n", bullets(link(path, "sql") for path in dict.fromkeys([*see, "sql/index.md"]))]
    return "\n".join(parts)


def _keywords(page: StatementPage) -> list[str]:
    return [*(topic.lower() for topic in page.topics), "statement", "syntax"]


def _entries() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((files("sinkql.shell.command") / "statements.toml").read_text("utf-8"))


def _syntaxes(page: StatementPage, topics: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    for name, each in topics:
        # ALTER SINK has the forms of ALTER SINK PUBLISH
        if not any(name.startswith(f"{other} ") and each["rule"] == entry["rule"] for other, entry in topics):
            yield syntax(each["rule"], name)


def _made(examples: Sequence[tuple[str, str]]) -> str:
    """Return statements that create the items which the examples name but do not create, with their dependencies."""
    texts = " ".join(text for _, text in examples)
    made = {name for name in _ITEMS if any(re.match(rf"CREATE {_KIND} {name}\b", text.strip()) for _, text in examples)}
    wanted = {name for name in _ITEMS if re.search(rf"\b{name}\b", re.sub(r"'[^']*'", "", texts))} - made
    while True:
        more = {
            name
            for name in set(_ITEMS) - wanted - made
            if any(re.search(rf"\b{name}\b", re.sub(r"'[^']*'", "", _ITEMS[each])) for each in wanted)
        }
        if not more - {"shop"}:
            break
        wanted |= more - {"shop"}
    return "\n".join(text for name, text in _ITEMS.items() if name in wanted)


def _example(name: str, text: str) -> str:
    text = format_script(text.strip() + "\n", discover().keywords)
    mark = ""
    if name in _ERRORS:
        mark = f"<!-- error: {_ERRORS[name]} -->\n"
    elif name in _OFFLINE:
        mark = "<!-- offline -->\n"
    return f"{mark}```sql\n{text}```\n"


def _errors(page: StatementPage) -> list[tuple[str, str]]:
    # syntax errors are not specific to this statement
    codes = [name for name, _ in error_page.codes_of(page.file) if not name.startswith("SQ1")][:_MOST_ERRORS]
    return [(f"[{name}](../errors/{name}.md)", cell(error_page.summary(name))) for name in sorted(codes)]


def _forms(outcomes: Sequence[tuple[str, str]]) -> Iterator[str]:
    runs = [statement for statement, outcome in outcomes if outcome == _RUNS]
    refused = [(statement, outcome) for statement, outcome in outcomes if outcome != _RUNS]
    if runs:
        yield "## Forms that run\n"
        yield "A test runs each of these forms in a catalog that has the items.\n"
        yield text_block("\n".join(runs))
    if refused:
        yield "## Refused forms\n"
        yield "The error shows a form that works.\n"
        yield table(("statement", "error"), [(code(statement), outcome) for statement, outcome in refused])


def _index(outcomes: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    entries = _entries()
    parts = [front_matter("sql", "ddl", "grammar", "support"), _INDEX]
    left = list(PAGES)
    for title, begin in _GROUPS.items():
        mine = [each for each in left if each.title.startswith(begin)]
        left = [each for each in left if each not in mine]
        rows = []
        for each in mine:
            refused = sum(outcome != _RUNS for _, outcome in outcomes[each.file])
            meaning = entries[each.topics[0]]["meaning"].partition(". ")[0].rstrip(".")
            rows.append((f"[{each.title}]({each.file})", f"{cell(meaning)}.", str(refused or "")))
        parts += [f"## {title}\n", table(("statement", "use", "refused forms"), rows)]
    parts += [
        "## Parts of statements\n",
        bullets(
            [
                "[Names, literals and comments](lexical.md)",
                "[Queries](queries.md)",
                "[Differences from Postgres and Materialize](differences.md)",
                "[Functions and operators](../functions/index.md)",
                "[Types](../reference/types.md)",
                "[Options](../reference/options.md)",
            ]
        ),
    ]
    return "\n".join(parts)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def _outcomes(folder: Path) -> Mapping[str, list[tuple[str, str]]]:
    """Return the forms of each page, each with its outcome in a copy of the catalog."""
    base = folder / "base"
    base.mkdir()
    with _offline(), Session(base / "catalog.db") as session:
        session.execute(_BASE)
    found: dict[str, list[tuple[str, str]]] = {each.file: [] for each in PAGES}
    for number, statement in enumerate(_statements()):
        copy = folder / str(number)
        shutil.copytree(base, copy)
        page = page_of(statement)
        assert page is not None, statement
        found[page[1]].append((statement, _outcome(statement, copy / "catalog.db")))
        shutil.rmtree(copy)
    return found


def _statements() -> Iterator[str]:
    for text in _FORMS.read_text().split(_SECTION)[1:]:
        yield from text.partition("\n")[2].splitlines()


@contextmanager
def _offline() -> Iterator[None]:
    """Keep statements from reaching other machines."""
    with (
        patch.object(Bucket, "list", lambda _: iter(())),
        patch.object(Admin, "check", lambda _: None),
        patch.object(Admin, "topic", lambda _, name: _TOPIC),
        patch.object(mysql_facts, "find", lambda planned, access: _SHOP),
        patch.object(postgres_facts, "find", lambda login, publication: _PUBLICATION),
    ):
        yield


def _outcome(text: str, catalog: Path) -> str:
    with _offline(), Session(catalog) as session:
        try:
            session.execute(text)
        except SinkqlError as error:
            return f"[{error.code}](../errors/{error.code}.md): {cell(error_page.summary(error.code))}"
    return _RUNS
