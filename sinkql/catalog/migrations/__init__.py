"""Steps of the catalog file's schema, run by alembic: `versions` holds one module a step, never changed afterwards."""
