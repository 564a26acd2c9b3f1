"""The pages of statements, and the page for the text of a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatementPage:
    """A page in docs/sql: its title, its file, and the names of its statements in statements.toml."""

    title: str
    file: str
    topics: tuple[str, ...]


PAGES = (
    StatementPage("CREATE SECRET", "create-secret.md", ("CREATE SECRET",)),
    StatementPage("CREATE CONNECTION", "create-connection.md", ("CREATE CONNECTION",)),
    StatementPage("CREATE CLUSTER", "create-cluster.md", ("CREATE CLUSTER",)),
    StatementPage("CREATE SOURCE", "create-source.md", ("CREATE SOURCE", "CREATE SUBSOURCE")),
    StatementPage("CREATE TABLE", "create-table.md", ("CREATE TABLE",)),
    StatementPage("CREATE TABLE FROM SOURCE", "create-table-from-source.md", ("CREATE TABLE FROM SOURCE",)),
    StatementPage("CREATE VIEW", "create-view.md", ("CREATE VIEW",)),
    StatementPage("CREATE MATERIALIZED VIEW", "create-materialized-view.md", ("CREATE MATERIALIZED VIEW",)),
    StatementPage("CREATE SINK", "create-sink.md", ("CREATE SINK",)),
    StatementPage("CREATE SINKS", "create-sinks.md", ("CREATE SINKS",)),
    StatementPage("CREATE INDEX", "create-index.md", ("CREATE INDEX",)),
    StatementPage("CREATE SCHEMA, CREATE DATABASE", "create-schema-database.md", ("CREATE SCHEMA", "CREATE DATABASE")),
    StatementPage("ALTER SINK", "alter-sink.md", ("ALTER SINK", "ALTER SINK PUBLISH")),
    StatementPage("ALTER SOURCE", "alter-source.md", ("ALTER SOURCE",)),
    StatementPage("ALTER TABLE", "alter-table.md", ("ALTER TABLE",)),
    StatementPage(
        "ALTER VIEW, ALTER MATERIALIZED VIEW",
        "alter-view-materialized-view.md",
        ("ALTER VIEW", "ALTER MATERIALIZED VIEW"),
    ),
    StatementPage("ALTER CONNECTION", "alter-connection.md", ("ALTER CONNECTION",)),
    StatementPage("ALTER SECRET", "alter-secret.md", ("ALTER SECRET",)),
    StatementPage("ALTER CLUSTER", "alter-cluster.md", ("ALTER CLUSTER",)),
    StatementPage(
        "ALTER INDEX, ALTER SCHEMA, ALTER DATABASE",
        "alter-index-schema-database.md",
        ("ALTER INDEX", "ALTER SCHEMA", "ALTER DATABASE"),
    ),
    StatementPage("ALTER SYSTEM, SET", "alter-system-set.md", ("ALTER SYSTEM", "SET")),
    StatementPage("DROP", "drop.md", ("DROP",)),
    StatementPage("INSERT, UPDATE, DELETE", "insert-update-delete.md", ("INSERT", "UPDATE", "DELETE")),
    StatementPage("SELECT", "select.md", ("SELECT",)),
    StatementPage("SUBSCRIBE", "subscribe.md", ("SUBSCRIBE",)),
    StatementPage("EXPLAIN", "explain.md", ("EXPLAIN",)),
    StatementPage("SHOW", "show.md", ("SHOW", "SHOW CREATE", "SHOW VARIABLE")),
    StatementPage("COMMENT ON", "comment-on.md", ("COMMENT ON",)),
    StatementPage("Transactions", "transactions.md", ("BEGIN", "COMMIT", "ROLLBACK", "SET TRANSACTION")),
    StatementPage(
        "Maintenance statements", "maintenance.md", ("OPTIMIZE SINK", "REPLAY ERRORS", "VALIDATE CONNECTION")
    ),
)
_BEGINNINGS = {
    **{topic: (page.title, page.file) for page in PAGES for topic in page.topics},
    "START TRANSACTION": ("Transactions", "transactions.md"),
    "RESET": ("ALTER SYSTEM, SET", "alter-system-set.md"),
    "VALUES": ("SELECT", "select.md"),
    "WITH": ("SELECT", "select.md"),
    "TABLE": ("SELECT", "select.md"),
}


def page_of(text: str) -> tuple[str, str] | None:
    """Return the title and the file of the page for a script's last statement; None if no page describes it."""
    statements = [each.strip() for each in re.split(r";\s*(?:\n|$)", text) if each.strip()]
    if not statements:
        return None
    text = re.sub(r"^(?:--[^\n]*\n)+", "", statements[-1]).upper()
    words = (
        re.sub(r"^CREATE (OR REPLACE |TEMPORARY |TEMP |DEFAULT |REPLACEMENT )+", "CREATE ", text)
        .replace(";", " ")
        .split()
    )
    if words[:2] == ["CREATE", "TABLE"] and words[3:4] == ["FROM"]:
        return _BEGINNINGS["CREATE TABLE FROM SOURCE"]
    for length in range(5, 0, -1):
        if found := _BEGINNINGS.get(" ".join(words[:length])):
            return found
    return None
