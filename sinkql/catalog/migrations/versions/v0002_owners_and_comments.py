"""Items without owners → each with one; comments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give every item its owner, and make the table of comments."""
    op.add_column("items", sa.Column("owner", sa.Text, nullable=False, server_default="materialize"))
    op.create_table(
        "comments",
        sa.Column("item_id", sa.Text, nullable=False),
        sa.Column("sub_id", sa.Integer, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "sub_id"),
    )
