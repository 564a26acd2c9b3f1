"""The system relations: views of the catalog file that answer for the dialect's mz_*, pg_* and information_schema.

* `relation`: one relation, its columns and the SQL behind them.
* `types`: the dialect's types as clients know them.
* `audit`: what writes down every change of items.
* `place`: databases, schemas and owners as SQL.
* `items`: mz_catalog. `internal`: mz_internal. `postgres`: pg_catalog. `information`: information_schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy.engine import Connection

from sinkql.catalog.system.audit import TRIGGERS
from sinkql.catalog.system.information import INFORMATION
from sinkql.catalog.system.internal import INTERNAL
from sinkql.catalog.system.items import ITEMS
from sinkql.catalog.system.place import SYSTEM_ITEMS, SYSTEM_SCHEMAS
from sinkql.catalog.system.postgres import POSTGRES
from sinkql.catalog.system.relation import Relation, text

_FIRST_OID = 30_000

RELATIONS: Mapping[tuple[str, str], Relation] = MappingProxyType(
    {(each.schema, each.name): each for each in (*ITEMS, *INTERNAL, *POSTGRES, *INFORMATION)}
)
"""All system relations by schema and name."""


def create_views(connection: Connection) -> None:
    """Make the system relations anew in a catalog file, and what keeps the record of changes."""
    for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'view'").all():
        connection.exec_driver_sql(f'DROP VIEW "{name}"')
    connection.exec_driver_sql(_relations_themselves())
    for relation in RELATIONS.values():
        connection.exec_driver_sql(relation.create())
    for name, trigger in TRIGGERS.items():
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
        connection.exec_driver_sql(trigger)


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
    return f"CREATE VIEW {SYSTEM_ITEMS} AS\nSELECT {outputs}\nFROM json_each({text(json.dumps(rows))}) AS r"
