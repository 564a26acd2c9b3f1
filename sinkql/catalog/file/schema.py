"""The tables of the catalog file. Whoever changes them adds an upgrade to `layout`."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

metadata = MetaData()

# One row a catalog: its id (part of what secrets are bound to), a number that grows with every change of items or
# settings, by which other processes see that what they have read is old, and the digest of the views that the items'
# details were written for.
identity = Table(
    "identity",
    metadata,
    Column("catalog_id", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("detailed_for", Text, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("database_name", Text),
    Column("schema_name", Text),
    Column("name", Text, nullable=False),
    Column("full_name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("create_sql", Text, nullable=False),
    Column("redacted_sql", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("owner", Text, nullable=False),
    sqlite_autoincrement=True,
)

# `sub_id` is a column's position, from 1, and 0 for the item itself. Built-in items, which have no row, have ids too.
comments = Table(
    "comments",
    metadata,
    Column("item_id", Text, nullable=False),
    Column("sub_id", Integer, nullable=False),
    Column("comment", Text, nullable=False),
    PrimaryKeyConstraint("item_id", "sub_id"),
)

# Filled by triggers, which `system` has: no writer of items can forget it.
audit_events = Table(
    "audit_events",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("event_type", Text, nullable=False),
    Column("object_type", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("occurred_at", Text, nullable=False),
)

dependencies = Table(
    "dependencies",
    metadata,
    Column("item_id", Text, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("referenced_id", Text, ForeignKey("items.id"), nullable=False),
    PrimaryKeyConstraint("item_id", "referenced_id"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("item_id", Text, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("reference", Text),
    Column("nonce", LargeBinary),
    Column("ciphertext", LargeBinary),
)

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

journal = Table(
    "journal",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("intent", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("done_at", Text),
    sqlite_autoincrement=True,
)

desired = Table(
    "desired",
    metadata,
    Column("sink_id", Text, primary_key=True),
    Column("desired", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
)

# `expires` is in seconds since 1970; `process` tells processes of one pid apart. A released lease has no owner, but
# keeps its epoch.
leases = Table(
    "leases",
    metadata,
    Column("sink_id", Text, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("owner", Text),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process", Text, nullable=False),
    Column("expires", Float, nullable=False),
)

statuses = Table(
    "statuses",
    metadata,
    Column("sink_id", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("hint", Text),
    Column("details", Text),
    Column("changed_at", Text, nullable=False),
)

status_history = Table(
    "status_history",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("sink_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("hint", Text),
    Column("details", Text),
    Column("occurred_at", Text, nullable=False),
    Index("status_history_by_sink", "sink_id", "number"),
)

progress = Table(
    "progress",
    metadata,
    Column("sink_id", Text, primary_key=True),
    Column("messages", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("failed_rows", Integer, nullable=False),
    Column("commits", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("snapshot", Integer),
    Column("lag", Float),
    Column("offsets", Text, nullable=False),
    Column("committed_at", Text, nullable=False),
)
