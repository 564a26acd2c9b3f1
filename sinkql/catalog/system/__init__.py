"""The system relations `mz_*`, `pg_*` and `information_schema`, as views of the catalog file, and queries over them.

* `relation`: Defines a system relation, with its columns and the SQL behind them.
* `pg_type`: The types of the dialect as Postgres clients know them.
* `mz_catalog`: The relations of `mz_catalog`.
* `mz_internal`: The relations of `mz_internal`.
* `pg_catalog`: The relations of `pg_catalog`.
* `information_schema`: The relations of `information_schema`.
* `properties`: Extracts the details of a planned item that the relations show.
* `audit`: Records changes of items.
* `system_names`: Finds out whether a query reads system relations.
* `query`: Runs a SELECT over system relations in SQLite.
* `resolve`: Rewrites Postgres-only syntax, and resolves names to views and columns.
* `to_sqlite`: Converts the clauses of a query to SQLite's SQL.
* `expression`: Converts expressions to SQLite's, or to functions that SQLite calls.
* `function`: The functions of a query that SQLite calls, including the functions of Postgres clients.
* `general`: Runs a query that SQLite cannot run like any other query.
* `item`: System relations as items that any query can read.
* `show`: The queries and conditions of SHOW.
* `view`: Runs SinkQL's SQLite queries over the views.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from sinkql.catalog.sqlite.schema import Layout
from sinkql.catalog.system.information_schema import INFORMATION
from sinkql.catalog.system.mz_catalog import ITEMS
from sinkql.catalog.system.mz_internal import INTERNAL
from sinkql.catalog.system.pg_catalog import POSTGRES
from sinkql.catalog.system.relation import SYSTEM_ITEMS, SYSTEM_SCHEMAS, Relation, literal

_FIRST_OID = 30_000
ON_PATH = ("mz_catalog", "pg_catalog")
"""The schemas whose relations need no schema name."""

RELATIONS: Mapping[tuple[str, str], Relation] = MappingProxyType(
    {(entry.schema, entry.name): entry for entry in (*ITEMS, *INTERNAL, *POSTGRES, *INFORMATION)}
)
"""All system relations by schema and name."""


def relation_id(relation: Relation) -> str:
    """Return the id of a system relation."""
    return f"s{_FIRST_OID + list(RELATIONS).index((relation.schema, relation.name))}"


def _system_items_view() -> str:
    rows = [
        [
            relation_id(system_relation),
            _FIRST_OID + number,
            SYSTEM_SCHEMAS[system_relation.schema],
            system_relation.name,
            [{"name": column.name, "type": column.type} for column in system_relation.columns],
        ]
        for number, system_relation in enumerate(RELATIONS.values())
    ]
    names = ("id", "oid", "schema_id", "name", "columns")
    outputs = ", ".join(f"json_extract(r.value, '$[{place}]') AS {name}" for place, name in enumerate(names))
    return f"CREATE VIEW {SYSTEM_ITEMS} AS\nSELECT {outputs}\nFROM json_each({literal(json.dumps(rows))}) AS r"


LAYOUT = Layout(
    {
        SYSTEM_ITEMS.strip('"'): _system_items_view(),
        **{relation.view: relation.create() for relation in RELATIONS.values()},
    }
)
"""The tables, views and triggers of this release's catalog files."""
