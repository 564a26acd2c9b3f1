"""Changes of items → rows of audit_events, by triggers: in the same transaction, whoever writes."""

from __future__ import annotations

_TYPE = "replace(lower({row}.kind), ' ', '-')"
_NAMES = "'id', {row}.id, 'database', {row}.database_name, 'schema', {row}.schema_name, 'name', {row}.name"
_NOW = "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now')"


def _event(event: str, row: str) -> str:
    return (
        "INSERT INTO audit_events (event_type, object_type, details, user, occurred_at) VALUES"
        f" ('{event}', {_TYPE.format(row=row)}, json_object({_NAMES.format(row=row)}), {row}.owner, {_NOW});"
    )


TRIGGERS = {
    "audit_create": f"CREATE TRIGGER audit_create AFTER INSERT ON items BEGIN {_event('create', 'NEW')} END",
    "audit_drop": f"CREATE TRIGGER audit_drop AFTER DELETE ON items BEGIN {_event('drop', 'OLD')} END",
    "audit_alter": (
        "CREATE TRIGGER audit_alter AFTER UPDATE OF create_sql, owner ON items"
        " WHEN OLD.create_sql <> NEW.create_sql OR OLD.owner <> NEW.owner"
        f" BEGIN {_event('alter', 'NEW')} END"
    ),
}
"""Statements by the names of the triggers."""
