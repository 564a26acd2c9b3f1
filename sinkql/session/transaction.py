"""Run transactions: statements change a draft of the catalog, and COMMIT applies the draft."""

from __future__ import annotations

from collections.abc import Callable

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import Draft
from sinkql.errors import Notice, SinkqlError
from sinkql.planner.edit.transaction import check_allowed
from sinkql.session.item.drop import WAIT_SECONDS, delete_table_files, stop_sinks
from sinkql.session.result import Result


class Transaction:
    """An open transaction: its draft of the catalog, and whether one of its statements failed.

    Other processes do not see the draft, and it holds no locks. The first of two conflicting transactions to commit
    wins.
    """

    def __init__(self, catalog: Catalog, modes: tuple[str, ...]) -> None:
        self.draft = Draft(catalog)
        self.modes = modes
        self._catalog = catalog
        self._failed = False

    @property
    def failed(self) -> bool:
        """Return whether a statement failed, so that the transaction ignores further statements."""
        return self._failed

    def run(self, statement: ast.Statement, run: Callable[[ast.Statement], Result]) -> Result:
        """Run a statement in the draft.

        Raise SQ2650 after a failure, SQ2654 in a read-only transaction, and SQ2961 if no transaction may contain it.
        """
        if self._failed:
            message = "current transaction is aborted, statements are ignored until its end"
            raise SinkqlError("SQ2650", message, statement.span, hint="Run ROLLBACK;")
        try:
            check_allowed(statement, self.modes)
            return run(statement)
        except BaseException:
            self._failed = True
            raise

    def commit(self, statement: ast.Transaction, *, wait_seconds: float = WAIT_SECONDS) -> Result:
        """Stop the dropped sinks and apply the draft atomically. After a failed statement, roll it back instead."""
        if self._failed:
            self.rollback()
            notice = Notice("SQ2653", "the transaction was rolled back because a statement failed", statement.span)
            return Result("ROLLBACK", (notice,))
        notices: list[Notice] = []
        if self.draft.operations:
            try:
                with stop_sinks(self.draft, self._catalog, wait_seconds=wait_seconds) as notices:
                    self._apply()
            except BaseException:
                self.rollback()
                raise
        for name, value in self.draft.variables.items():
            self._catalog.set_variable(name, value)
        return Result("COMMIT", tuple(notices))

    def rollback(self) -> None:
        """Discard the draft and delete the table files that it created."""
        delete_table_files(self.draft)

    def _apply(self) -> None:
        while True:
            self._catalog.refresh()
            try:
                self.draft.apply(self._catalog)
            except ChangedError:
                continue
            return
