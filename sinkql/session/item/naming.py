"""ALTER … RENAME TO, SWAP WITH and OWNER TO, and COMMENT ON → names, owners and comments in the catalog."""

from __future__ import annotations

from collections.abc import Callable

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import commenting, owning, redefining
from sinkql.planner.edit.rename import find_altered, find_commented, plan_rename
from sinkql.session.result import Result


def rename(statement: ast.Alter, catalog: Catalog) -> Result:
    """Rename an item, or swap two; whoever runs a sink keeps running it. Raises what `plan_rename` does."""

    def run() -> Result:
        renaming = plan_rename(statement, catalog.reader())
        if renaming.changes:
            catalog.change(redefining(renaming.changes, catalog.reader()))
        skipped = bool(renaming.notices) and not renaming.changes
        return Result(f"ALTER {statement.kind}", renaming.notices, skipped=skipped)

    return retried(run, catalog)


def change_owner(statement: ast.Alter, catalog: Catalog) -> Result:
    """Give an item to a role, of which only the name is kept."""

    def run() -> Result:
        assert isinstance(statement.action, ast.SetOwner)
        entry, notices = find_altered(statement, catalog.reader())
        if entry is not None:
            catalog.change(owning(entry.name, statement.action.role.value))
        return Result(f"ALTER {statement.kind}", notices, skipped=entry is None)

    return retried(run, catalog)


def comment(statement: ast.CommentOn, catalog: Catalog) -> Result:
    """Comment on an item or a column of one; NULL takes the comment away."""

    def run() -> Result:
        entry, column = find_commented(statement, catalog.reader())
        catalog.change(commenting(entry.name, column, statement.text.value if statement.text else None))
        return Result("COMMENT")

    return retried(run, catalog)


def retried(run: Callable[[], Result], catalog: Catalog) -> Result:
    """Run a statement against the catalog as it is now, again if another process changes it on the way."""
    while True:
        catalog.refresh()
        try:
            return run()
        except ChangedError:
            continue
