"""Record changes of items as rows of `audit_events`, in the same transaction."""

from __future__ import annotations

import json
from typing import Literal

from sinkql.catalog.coordination.process import now
from sinkql.catalog.store import Connection


def record(connection: Connection, event: Literal["create", "alter", "drop"], item_id: str) -> None:
    """Record that an item was created, that its text or owner changed, or that it will be deleted."""
    row = connection.first("SELECT kind, database_name, schema_name, name, owner FROM items WHERE id = ?", item_id)
    details = {"id": item_id, "database": row.database_name, "schema": row.schema_name, "name": row.name}
    connection.insert(
        "audit_events",
        {
            "event_type": event,
            "object_type": row.kind.lower().replace(" ", "-"),
            "details": json.dumps(details, ensure_ascii=False, separators=(",", ":")),
            "user": row.owner,
            "occurred_at": now(),
        },
    )
