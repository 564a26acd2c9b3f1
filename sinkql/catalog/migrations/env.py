"""An open transaction on a catalog file → the same, with all steps applied. Alembic runs this module."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
