"""Items without owners → each with one; comments; what was done to items."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give every item its owner, and make the tables of comments and of what was done."""
    op.add_column("items", sa.Column("owner", sa.Text, nullable=False, server_default="materialize"))
    op.create_table(
        "comments",
        sa.Column("item_id", sa.Text, nullable=False),
        sa.Column("sub_id", sa.Integer, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "sub_id"),
    )
    op.create_table(
        "audit_events",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("object_type", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("occurred_at", sa.Text, nullable=False),
    )
