"""Define a system relation: its columns with their types, and the SQL over the catalog's tables that returns its rows.

This module also has the SQL of databases and schemas with their ids, oids and owners.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column with a type of the dialect and an expression of SQLite."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A system relation; `source` is the FROM clause and the rest of its view in the catalog file."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    source: str

    @property
    def view(self) -> str:
        """Return the name of its view in the file; ambiguous names of information_schema get a prefix."""
        return f"information_schema_{self.name}" if self.schema == "information_schema" else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its columns."""
        return tuple(column.name for column in self.columns)

    def type_of(self, name: str) -> str | None:
        """Return the type of a column; None if the column does not exist."""
        return next((column.type for column in self.columns if column.name == name), None)

    def create(self) -> str:
        """Return SQLite's CREATE VIEW statement."""
        outputs = ",\n  ".join(f'{column.expression} AS "{column.name}"' for column in self.columns)
        return f'CREATE VIEW "{self.view}" AS\nSELECT\n  {outputs}\n{self.source}'


def relation(full_name: str, columns: str, source: str) -> Relation:
    """Return a relation by a list of columns, one per line: name, type (blanks as `_`), expression.

    The default expression is `i.` and the name; `-` is NULL, for columns that SinkQL does not fill. A line that begins
    with a blank continues the previous line.
    """
    schema, name = full_name.split(".")
    lines = [line for line in columns.replace("\n ", " ").splitlines() if line]
    return Relation(schema, name, tuple(_column(line) for line in lines), source)


def _column(line: str) -> Column:
    name, written, *rest = line.split(maxsplit=2)
    type_ = written if written.startswith("mz_") else written.replace("_", " ")
    expression = rest[0] if rest else f'i."{name}"'
    return Column(name, type_, "NULL" if expression == "-" else expression)


def literal(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


QUICKSTART = "quickstart"
QUICKSTART_ID = "s1"
PUBLIC_SCHEMA_ID = "s5"
DATABASE_ID = "s6"

SYSTEM_ITEMS = '"sinkql relations"'
"""The view of the system relations: id, oid, schema_id, name, columns (JSON)."""

SYSTEM_SCHEMAS = {"mz_catalog": "s7", "mz_internal": "s8", "pg_catalog": "s9", "information_schema": "s10"}
"""The ids of schemas; ids are unique over all kinds of items, because comments refer to them."""

ITEM_OID = "i.number + 20000"
OWNER = "coalesce(i.owner, 'materialize')"

_BUILT_IN_SCHEMAS = "\n".join(
    f"  UNION ALL SELECT '{schema_id}', {16660 + place}, NULL, '{name}', 'mz_system'"
    for place, (name, schema_id) in enumerate(SYSTEM_SCHEMAS.items())
)

DATABASES = (
    "FROM (\n"
    f"  SELECT '{DATABASE_ID}' AS id, 16650 AS oid, 'materialize' AS name, NULL AS owner\n"
    f"  UNION ALL SELECT i.id, {ITEM_OID}, i.name, i.owner FROM items AS i WHERE i.kind = 'DATABASE'\n"
    ") AS i"
)

SCHEMAS = (
    "FROM (\n"
    f"  SELECT '{PUBLIC_SCHEMA_ID}' AS id, 16670 AS oid, '{DATABASE_ID}' AS database_id,\n"
    "    'public' AS name, NULL AS owner\n"
    f"{_BUILT_IN_SCHEMAS}\n"
    f"  UNION ALL SELECT i.id, {ITEM_OID}, d.id, i.name, i.owner\n"
    "  FROM items AS i JOIN mz_databases AS d ON d.name = i.database_name WHERE i.kind = 'SCHEMA'\n"
    ") AS i"
)

SCHEMA_ID = (
    "(SELECT s.id FROM mz_schemas AS s JOIN mz_databases AS d ON d.id = s.database_id\n"
    "    WHERE s.name = i.schema_name AND d.name = i.database_name)"
)
"""The id of the schema of an item `i`."""
