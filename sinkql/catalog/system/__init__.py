"""The system relations: views of the catalog file that answer for the dialect's mz_*, pg_* and information_schema.

* `relation`: one relation, its columns and the SQL behind them; `pg_type`: the dialect's types as clients know them.
* `relation`: databases, schemas and owners as SQL.
* `mz_catalog`, `mz_internal`, `pg_catalog`, `information_schema`: the relations of each schema.
* `audit`: what writes down a change of an item.
* `properties`: what of a planned item is written into the file for the relations to show.
* `system_names`: whether a query is over system relations.
* `view`: SQLite's SQL over the views, where SinkQL itself has written it.
* `query`: SELECT over system relations: `resolve` rewrites what only Postgres's tools write, `resolve` ties
  names to views and columns, `to_sqlite` makes SQLite's SQL of its clauses, `expression` of its
  expressions, `function` what SQLite calls to compute them.
* `item`: system relations as items that any query reads; `general`: a query for which `to_sqlite` has no form is any
  query.
* `function`: functions that are computed only here; `function`: those that clients call.
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
"""The schemas whose relations are found by a name alone."""

RELATIONS: Mapping[tuple[str, str], Relation] = MappingProxyType(
    {(each.schema, each.name): each for each in (*ITEMS, *INTERNAL, *POSTGRES, *INFORMATION)}
)
"""All system relations by schema and name."""


def relation_id(relation: Relation) -> str:
    """Return the id of a system relation."""
    return f"s{_FIRST_OID + list(RELATIONS).index((relation.schema, relation.name))}"


def _relations_themselves() -> str:
    rows = [
        [
            relation_id(each),
            _FIRST_OID + number,
            SYSTEM_SCHEMAS[each.schema],
            each.name,
            [{"name": column.name, "type": column.type} for column in each.columns],
        ]
        for number, each in enumerate(RELATIONS.values())
    ]
    names = ("id", "oid", "schema_id", "name", "columns")
    outputs = ", ".join(f"json_extract(r.value, '$[{place}]') AS {name}" for place, name in enumerate(names))
    return f"CREATE VIEW {SYSTEM_ITEMS} AS\nSELECT {outputs}\nFROM json_each({literal(json.dumps(rows))}) AS r"


LAYOUT = Layout(
    {
        SYSTEM_ITEMS.strip('"'): _relations_themselves(),
        **{relation.view: relation.create() for relation in RELATIONS.values()},
    }
)
"""What this release gives to a catalog file: its tables and the system relations."""
