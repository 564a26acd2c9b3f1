"""Nothing → the first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _items()
    _running()


def _items() -> None:
    op.create_table(
        "identity",
        sa.Column("catalog_id", sa.Text, primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("database_name", sa.Text),
        sa.Column("schema_name", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("full_name", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("create_sql", sa.Text, nullable=False),
        sa.Column("redacted_sql", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "dependencies",
        sa.Column("item_id", sa.Text, sa.ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
        sa.Column("referenced_id", sa.Text, sa.ForeignKey("items.id"), nullable=False),
        sa.PrimaryKeyConstraint("item_id", "referenced_id"),
    )
    op.create_table(
        "secrets",
        sa.Column("item_id", sa.Text, sa.ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reference", sa.Text),
        sa.Column("nonce", sa.LargeBinary),
        sa.Column("ciphertext", sa.LargeBinary),
    )
    op.create_table(
        "settings", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "journal",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("intent", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("done_at", sa.Text),
        sqlite_autoincrement=True,
    )


def _running() -> None:
    op.create_table(
        "desired",
        sa.Column("sink_id", sa.Text, primary_key=True),
        sa.Column("desired", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Text, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("sink_id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_table(
        "statuses",
        sa.Column("sink_id", sa.Text, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("hint", sa.Text),
        sa.Column("details", sa.Text),
        sa.Column("changed_at", sa.Text, nullable=False),
    )
    op.create_table(
        "status_history",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("sink_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("hint", sa.Text),
        sa.Column("details", sa.Text),
        sa.Column("occurred_at", sa.Text, nullable=False),
    )
    op.create_index("status_history_by_sink", "status_history", ["sink_id", "number"])
    op.create_table(
        "progress",
        sa.Column("sink_id", sa.Text, primary_key=True),
        sa.Column("messages", sa.Integer, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("failed_rows", sa.Integer, nullable=False),
        sa.Column("commits", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("snapshot", sa.Integer),
        sa.Column("lag", sa.Float),
        sa.Column("offsets", sa.Text, nullable=False),
        sa.Column("committed_at", sa.Text, nullable=False),
    )
