"""SQL text → effects: the one object that builds the catalog and all else, and hands each part what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sinkql import ast, physical
from sinkql.catalog.store import Broken, Catalog
from sinkql.codegen import lower
from sinkql.connector.registry import Registry, discover
from sinkql.connector.stream import Context
from sinkql.errors import Notice, SinkqlError, too_deep
from sinkql.mask import mask
from sinkql.parser import parse
from sinkql.planner import transaction as transactions
from sinkql.planner.name import find, short_name, split_name
from sinkql.session import drop as dropping
from sinkql.session import running
from sinkql.session.perform import perform
from sinkql.session.query import preview
from sinkql.session.result import Result
from sinkql.session.transaction import Transaction
from sinkql.session.world import CatalogWorld

if TYPE_CHECKING:
    from sinkql.runtime.adhoc import AdhocSpark
    from sinkql.runtime.progress import Progress

FOLDER = ".sinkql"
FILE = "catalog.db"


class Session:
    """Run statements against one catalog, and the sinks in it.

    `path` is the catalog's file, its URL (`sqlite:///…`) or the project's folder; None is the working folder.
    """

    def __init__(self, path: str | Path | None = None, *, registry: Registry | None = None) -> None:
        self._committed = Catalog(catalog_file(path), registry if registry is not None else discover())
        self._transaction: Transaction | None = None
        self.world = CatalogWorld(self._committed)
        self._spark: AdhocSpark | None = None
        dropping.finish(self._committed)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Return what is wrong with items of the catalog, which then can only be dropped."""
        return tuple(self._notice(broken) for broken in self.catalog.broken.values())

    def _notice(self, broken: Broken) -> Notice:
        kind, name = broken.entry.kind, short_name(broken.entry.name, self.catalog.reader())
        return Notice(
            broken.error.code,
            f'{kind.lower()} "{name}" cannot be used: {broken.error.message}',
            hint=f"Run DROP {kind} {name}; and create it again.",
        )

    # --- statements --------------------------------------------------------------------------------------------------

    def execute(self, text: str, path: str | None = None) -> list[Result]:
        """Run all statements of a text; what ran before one that fails stays. `path` names the text in errors."""
        return list(self.stream(text, path))

    def stream(self, text: str, path: str | None = None) -> Iterator[Result]:
        """Yield the result of each statement as it is done; nothing runs if the text does not parse."""
        masked = mask(text)
        try:
            for statement in parse(text):
                yield self.run_statement(statement)
        except SinkqlError as error:
            raise masked.cover(error.within(path=path, text=masked.text)) from error.__cause__

    def run_statement(self, statement: ast.Statement) -> Result:
        """Run one statement; errors have spans in its text, but no text."""
        try:
            if isinstance(statement, ast.Transaction):
                return self.transact(statement)
            if self._transaction is not None:
                return self._transaction.run(statement, self._run)
            return self._run(statement)
        except RecursionError:
            raise too_deep(statement.span) from None

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as statements see it: while a transaction is open, its draft."""
        return self._transaction.draft if self._transaction is not None else self._committed

    @property
    def transaction(self) -> Literal["open", "failed"] | None:
        """Say whether a transaction is open, and whether a statement failed in it."""
        if self._transaction is None:
            return None
        return "failed" if self._transaction.failed else "open"

    def end_script(self) -> None:
        """Say that a script is over; raises SQ2655 if it leaves a transaction open, which is rolled back."""
        if self._transaction is not None:
            self._rollback()
            raise transactions.not_ended()

    def _rollback(self) -> None:
        if self._transaction is not None:
            self._transaction.rollback()
        self._transaction = None

    def transact(self, statement: ast.Transaction) -> Result:
        """Begin, end or change the transaction."""
        transaction = self._transaction
        if statement.action == "BEGIN":
            if transaction is not None:
                return Result("BEGIN", (transactions.already(statement),))
            self._transaction = Transaction(self._committed, statement.modes)
            return Result("BEGIN")
        if transaction is None:
            tag = "SET" if statement.action == "SET" else statement.action
            return Result(tag, (transactions.none(statement),))
        if statement.action == "SET":
            transaction.modes = statement.modes
            return Result("SET")
        self._transaction = None
        if statement.action == "COMMIT":
            done = transaction.commit(statement)
        else:
            transaction.rollback()
            done = Result("ROLLBACK")
        if statement.chain:
            self._transaction = Transaction(self._committed, transaction.modes)
        return done

    def _run(self, statement: ast.Statement) -> Result:
        self.catalog.refresh()
        try:
            return perform(statement, self)
        except SinkqlError as error:
            if error.span is None and isinstance(statement, ast.Select | ast.Change):
                error.span = statement.span
            raise

    # --- sinks -------------------------------------------------------------------------------------------------------

    def sinks(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the full names of the sinks of these names, or of all; raises SQ2001 for one that is not there."""
        self._committed.refresh()
        plans = self._committed.plans
        if names is None:
            return plans.names("SINK")
        return tuple(find(plans, _name(name), "SINK").name for name in names)

    def jobs(self, names: Sequence[str] | None = None) -> list[physical.Job]:
        """Return the jobs of the sinks of these names, or of all."""
        return [lower(name, self._committed.plans) for name in self.sinks(names)]

    def run(self, jobs: Sequence[physical.Job], *, once: bool, takeover: bool, progress: Progress) -> int:
        """Run jobs until each has ended or was stopped; return the exit code that fits all of them."""
        self._end_queries()
        return running.run(self, jobs, once=once, takeover=takeover, progress=progress)

    def up(self, names: Sequence[str] | None = None, *, once: bool, takeover: bool, progress: Progress) -> int:
        """Run the sinks of these names, or all that users want to run, also those that come later, until stopped."""
        jobs = self.jobs(names) if names is not None else None
        self._end_queries()
        return running.up(self, jobs, once=once, takeover=takeover, progress=progress)

    def start(self, *names: str) -> tuple[str, ...]:
        """Say that users want the sinks (all, without names) to run, for who runs sinks; return their full names."""
        sinks = self.sinks(names or None)
        for sink_id in dropping.sink_ids(sinks, self._committed).values():
            self._committed.control.resume(sink_id)
        return sinks

    def stop(self, *names: str) -> tuple[str, ...]:
        """Tell whoever runs the sinks (all, without names) to finish the batch and stop; return their full names."""
        sinks = self.sinks(names or None)
        for sink_id in dropping.sink_ids(sinks, self._committed).values():
            self._committed.control.set_desired(sink_id, "stopped")
        return sinks

    def status(self, names: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Return columns and rows that tell what the sinks are doing, and how far they are."""
        return running.status(self._committed, self.sinks(names or None))

    def reading(self, job: physical.Job) -> list[str]:
        """Return lines that tell how to read what a sink wrote."""
        kind = self._committed.registry.sinks[job.write.connector]
        return kind.reading(job.write, self.context(job)) if kind.reading is not None else []

    def preview(self, name: str, *, limit: int = 10) -> Result:
        """Return some rows of a source, a view, a table, or of what a sink wrote; as SELECT * FROM name LIMIT n."""
        self._committed.refresh()
        return preview(_name(name), self, limit)

    @property
    def spark(self) -> AdhocSpark:
        """Return what runs queries; it starts Spark at the first one."""
        from sinkql.runtime.adhoc import AdhocSpark  # Spark, only where something runs

        if self._spark is None:
            self._spark = AdhocSpark(self._committed.database.path.parent / "spark")
        return self._spark

    def context(self, job: physical.Job) -> Context:
        """Return what the parts of a job may use: its folder, secrets' values, object stores."""
        folder = dropping.sink_folder(self._committed, job.sink_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Context(job.sink, job.sink_id, folder, self.world.secret, self.world.job_store)

    def close(self) -> None:
        """Stop the Spark that queries started, and roll back the transaction that is open, if one is."""
        self._rollback()
        self._end_queries()

    def _end_queries(self) -> None:
        """Stop the Spark that queries started; a process holds one."""
        if self._spark is not None:
            self._spark.close()
            self._spark = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def catalog_file(path: str | Path | None) -> Path:
    """Return the catalog file that a path, a URL or nothing names."""
    if path is None:
        return Path.cwd() / FOLDER / FILE
    if isinstance(path, str) and "://" in path:
        scheme, _, file = path.partition(":///")
        if scheme != "sqlite" or not file:
            raise SinkqlError(
                "SQ4113",
                f'catalogs at "{path.partition("://")[0]}://" are not supported',
                hint="Name a file, or write sqlite:///path/to/catalog.db.",
            )
        return Path(file)
    found = Path(path)
    return found / FOLDER / FILE if found.is_dir() else found


def _name(text: str) -> ast.Name:
    return ast.Name(tuple(ast.Ident(part) for part in split_name(text)))
