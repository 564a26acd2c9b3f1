"""One system relation: its columns with their types, and the SQL over the catalog's tables that gives its rows.

Where items are and whose they are, as SQL: databases and schemas with their ids, oids, owners.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type is that of the dialect, its expression is SQLite's."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A system relation; `source` is the FROM clause, and what follows it, of the view in the catalog file."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    source: str

    @property
    def view(self) -> str:
        """Return the name of its view in the file: those of information_schema are too ordinary to stand alone."""
        return f"information_schema_{self.name}" if self.schema == "information_schema" else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its columns."""
        return tuple(column.name for column in self.columns)

    def type_of(self, name: str) -> str | None:
        """Return the type of a column, None where there is none of that name."""
        return next((column.type for column in self.columns if column.name == name), None)

    def create(self) -> str:
        """Return the CREATE VIEW statement of SQLite."""
        outputs = ",\n  ".join(f'{column.expression} AS "{column.name}"' for column in self.columns)
        return f'CREATE VIEW "{self.view}" AS\nSELECT\n  {outputs}\n{self.source}'


def relation(full_name: str, columns: str, source: str) -> Relation:
    """Return the relation of a list of columns, one a line: name, type (blanks as `_`), expression.

    Without an expression it is `i.` and the name; `-` is NULL, for columns that nothing here fills. A line that begins
    with a blank continues the one before it.
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
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


QUICKSTART = "quickstart"
QUICKSTART_ID = "s1"
PUBLIC_SCHEMA_ID = "s5"
DATABASE_ID = "s6"

SYSTEM_ITEMS = '"sinkql relations"'
"""The view of the system relations themselves: id, oid, schema_id, name, columns (JSON)."""

SYSTEM_SCHEMAS = {"mz_catalog": "s7", "mz_internal": "s8", "pg_catalog": "s9", "information_schema": "s10"}
"""Ids of schemas are unique among all ids too: comments go by ids."""

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
