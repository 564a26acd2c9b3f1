"""A session: opens the catalog, runs SQL text against it, and runs its sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sinkql import ast, logical, physical
from sinkql.catalog.address import ServerUrl, address_of
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.coordination.shared_store import TickTable, open_notes
from sinkql.catalog.memory import Broken
from sinkql.catalog.secret.hash_key import hash_key
from sinkql.catalog.sqlite.private_file import make_private_folder
from sinkql.connector_api.registry import Registry, discover
from sinkql.connector_api.requests import wait_store
from sinkql.connector_api.stream import Context
from sinkql.errors import Notice, SinkqlError, too_deep
from sinkql.hash_key import HashKey
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import readers_of, view_id, view_jobs
from sinkql.parser import parse
from sinkql.planner.edit import transaction as transactions
from sinkql.planner.name import as_name, find, short_name, sql_name
from sinkql.script.redaction import mask
from sinkql.session.dispatch import dispatch
from sinkql.session.item import drop as dropping
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.result import Result
from sinkql.session.row.query import preview
from sinkql.session.sink import run
from sinkql.session.sink.process import RunningSinks
from sinkql.session.sink.wait_for_target import TargetWait
from sinkql.session.transaction import Transaction
from sinkql.statement.plan import errors_of_rows

if TYPE_CHECKING:
    from sinkql.runtime.batch.events import Progress
    from sinkql.runtime.spark.adhoc import AdhocSpark


class Session:
    """A session with one catalog, which runs statements and sinks.

    `path` is the catalog's file, its URL (`sqlite:///…`, `postgresql+psycopg://…`) or the project's folder. If it is
    None, SINKQL_CATALOG names the catalog, by default the working folder. A missing catalog is created unless
    `existing` is set. Relative paths of items start in `project`, by default the folder that contains `.sinkql`.

    Use a session in the thread that opened it, from one task at a time.

    Large: it is the API for embedders, and most of its methods only call another module.
    """

    def __init__(
        self,
        path: str | Path | ServerUrl | None = None,
        *,
        registry: Registry | None = None,
        existing: bool = False,
        project: Path | None = None,
    ) -> None:
        connectors = registry if registry is not None else discover()
        self._committed = Catalog(address_of(path), connectors, existing=existing, project=project)
        self._transaction: Transaction | None = None
        self.access = CatalogAccess(self._committed)
        self._spark: AdhocSpark | None = None
        self.progress_listener: Callable[[str], None] | None = None
        """The listener for progress lines of slow statements."""
        dropping.finish_interrupted_drop(self._committed)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Return the errors of broken items of the catalog. Broken items can only be dropped."""
        return tuple(self._notice(broken) for broken in self.catalog.broken.values())

    def _notice(self, broken: Broken) -> Notice:
        kind, full_name, reader = broken.entry.kind, broken.entry.name, self.catalog.reader()
        return Notice(
            broken.error.code,
            f'{kind.lower()} "{short_name(full_name, reader)}" cannot be used: {broken.error.message}',
            hint=broken.error.hint
            if kind == "TABLE"
            else f"Correct that, or run DROP {kind} {sql_name(full_name, reader)}; and create it again.",
        )

    # --- statements --------------------------------------------------------------------------------------------------

    def execute(self, text: str, path: str | None = None) -> list[Result]:
        """Run all statements of a text, and return their results. `path` names the text in errors.

        If a statement fails, the changes of earlier statements stay.
        """
        return list(self.stream(text, path))

    def stream(self, text: str, path: str | None = None) -> Iterator[Result]:
        """Run the statements one by one, and yield each result. Nothing runs if the text does not parse."""
        words = self._committed.registry.keywords
        try:
            for statement in parse(text, words):
                yield self.run_statement(statement)
        except SinkqlError as error:
            masked = mask(text, words)  # parses the text again, which only an error needs
            raise masked.cover(error.within(path=path, text=masked.text)) from error.__cause__

    def report_progress(self, text: str) -> None:
        """Report the progress of a slow statement."""
        if self.progress_listener is not None:
            self.progress_listener(text)

    def run_statement(self, statement: ast.Statement) -> Result:
        """Run one statement. Errors have spans in its text but no text."""
        try:
            if isinstance(statement, ast.Transaction):
                return self._run_transaction_statement(statement)
            if self._transaction is not None:
                return self._transaction.run(statement, self._run)
            if isinstance(statement, ast.CreateSinks):
                return self._run_in_transaction(statement)
            return self._run(statement)
        except RecursionError:
            raise too_deep(statement.span) from None

    @property
    def catalog(self) -> Catalog:
        """Return the catalog that statements see: the draft of an open transaction, else the committed one."""
        return self._transaction.draft if self._transaction is not None else self._committed

    @property
    def transaction(self) -> Literal["open", "failed"] | None:
        """Return "open" or "failed" for an open transaction, None without one."""
        if self._transaction is None:
            return None
        return "failed" if self._transaction.failed else "open"

    def end_script(self) -> None:
        """End a script. If it leaves a transaction open, roll it back and raise SQ2655."""
        if self._transaction is not None:
            self._rollback()
            raise transactions.not_ended()

    def _run_in_transaction(self, statement: ast.Statement) -> Result:
        """Run a statement that changes the catalog several times in one transaction."""
        self._run_transaction_statement(ast.Transaction("BEGIN"))
        assert self._transaction is not None
        try:
            result = self._transaction.run(statement, self._run)
        except BaseException:
            self._rollback()
            raise
        self._run_transaction_statement(ast.Transaction("COMMIT"))
        return result

    def _rollback(self) -> None:
        if self._transaction is not None:
            self._transaction.rollback()
        self._transaction = None

    def _run_transaction_statement(self, statement: ast.Transaction) -> Result:
        """Begin, end or change the transaction."""
        transaction = self._transaction
        skipped = transactions.without_effect(statement, in_progress=transaction is not None)
        if skipped is not None:
            return Result(statement.action, (skipped,))
        if transaction is None:
            self._transaction = Transaction(self._committed, statement.modes)
            return Result("BEGIN")
        if statement.action == "SET":
            transaction.modes = statement.modes
            return Result("SET")
        self._transaction = None
        if statement.action == "COMMIT":
            result = transaction.commit(statement)
        else:
            transaction.rollback()
            result = Result("ROLLBACK")
        if statement.chain:
            self._transaction = Transaction(self._committed, transaction.modes)
        return result

    def _run(self, statement: ast.Statement) -> Result:
        with errors_of_rows(statement):
            return dispatch(statement, self)

    # --- sinks -------------------------------------------------------------------------------------------------------

    def sinks(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the full names of these sinks, or of all. Raise SQ2001 for a missing sink.

        A name may also be a materialized view with a separate job.
        """
        self._committed.refresh()
        if names is None:
            return self._committed.plans.names("SINK")
        return tuple(self._sink(name) for name in names)

    def _sink(self, name: str) -> str:
        """Return the full name of a sink or materialized view job. A sink that exists is not planned for it."""
        plans = self._committed.plans
        full_name = plans.resolve(as_name(name))
        return full_name if full_name in self._jobs() else find(plans, as_name(name), "SINK").name

    def kind(self, name: str) -> str:
        """Return the kind of an item in lower case, for example `sink`. Raise KeyError if it does not exist."""
        plans = self._committed.plans
        return plans.present()[plans.resolve(as_name(name))].kind.lower()

    def jobs_among(self, names: Sequence[str]) -> list[str]:
        """Return the sinks and materialized view jobs among full names, without duplicates."""
        self._committed.refresh()
        jobs = frozenset(self._jobs())
        return [name for name in dict.fromkeys(names) if name in jobs]

    def unread_among(self, names: Sequence[str]) -> list[str]:
        """Return the materialized views among full names that no job computes."""
        plans = self._committed.plans
        views = [name for name in dict.fromkeys(names) if isinstance(plans.item(name), logical.View)]
        return [name for name in views if view_id(name, plans) is None and not readers_of(name, plans)]

    def _jobs(self) -> tuple[str, ...]:
        """Return the full names of all sinks and materialized view jobs."""
        plans = self._committed.plans
        views = plans.names("MATERIALIZED VIEW")
        return (*plans.names("SINK"), *dropping.sink_ids(views, self._committed))

    def _job_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the full names of the named jobs, or of all jobs."""
        sinks = self.sinks(names or None)
        return sinks if names else self._jobs()

    def jobs(self, names: Sequence[str] | None = None) -> list[physical.Job]:
        """Return the jobs of these sinks, or of all, followed by the jobs of the views that they read."""
        wanted, plans = self.sinks(names), self._committed.plans
        for name in names or ():
            find(plans, as_name(name), "SINK", "MATERIALIZED VIEW")
        wanted = (*wanted, *view_jobs(plans)) if names is None else wanted
        jobs = [lower(name, plans) for name in wanted if plans.entry(name) is not None]
        for job in jobs:  # the list grows while it adds the views that they read
            for read in job.reads():
                if read.connector == physical.VIEW and all(listed.sink != read.name for listed in jobs):
                    jobs.append(lower(read.name, plans))
        return jobs

    def run(
        self,
        jobs: Sequence[physical.Job],
        *,
        once: bool = False,
        takeover: bool = False,
        progress: Progress | None = None,
        in_spark: bool = False,
    ) -> int:
        """Run jobs until each has ended or was stopped, and return the exit code: 0 if all succeeded.

        With `once`, they process the data that is available now, and stop. With `takeover`, they take sinks over from
        a process that runs them. The function `progress` receives each event of `sinkql.runtime.batch.events`. If
        `in_spark`, Spark runs all batches, also on clusters with EXECUTION = AUTO.
        """
        self._end_queries()
        return run.run_jobs(self, jobs, once=once, takeover=takeover, progress=progress, in_spark=in_spark)

    def up(
        self,
        names: Sequence[str] | None = None,
        *,
        once: bool = False,
        takeover: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Run these sinks, or all that are not stopped, including sinks that are created later, until stopped.

        The other arguments are as in `run`.
        """
        jobs = self.jobs(names) if names is not None else None
        self._end_queries()
        return run.run_catalog(self, jobs, once=once, takeover=takeover, progress=progress)

    def running(self, *names: str) -> RunningSinks:
        """Return a context manager that runs these sinks, or all, in a separate process.

        The process has the working folder and the environment of this one, and ends with it.
        """
        database, sinks = self._committed.database, self.sinks(names or None)
        jobs, notes = self.jobs(sinks), wait_store(partial(open_notes, database), database.folder)
        return RunningSinks(database.address, sinks, reaching=lambda: TargetWait(jobs, notes))

    def start(self, *names: str) -> tuple[str, ...]:
        """Allow these sinks and views, or all, to run again, and return their names. `up` runs them."""
        sinks = self._job_names(names)
        for sink_id in dropping.sink_ids(sinks, self._committed).values():
            self._committed.control.resume(sink_id)
        return sinks

    def stop(self, *names: str) -> tuple[str, ...]:
        """Stop these sinks and views, or all, after their batches, and return their names."""
        sinks = self._job_names(names)
        for sink_id in dropping.sink_ids(sinks, self._committed).values():
            self._committed.control.set_desired(sink_id, "stopped")
        return sinks

    def status(self, names: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Return columns and rows with the status and progress of sinks, and of views with a separate job."""
        return run.status(self._committed, self._job_names(names))

    def source_status(self, names: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Return columns and rows with the progress of the sinks' sources, and the bytes retained for them."""
        return run.source_status(self._committed, self._job_names(names))

    def reading(self, job: physical.Job) -> list[str]:
        """Return lines that show how to read the table of a sink."""
        if job.view:
            return []
        kind = self._committed.registry.sinks[job.write.connector]
        return kind.reading_help(job.write, self.context(job)) if kind.reading_help is not None else []

    def preview(self, name: str, *, limit: int = 10) -> Result:
        """Return rows of a source, view or table, or of a sink's table, as SELECT * FROM name LIMIT n does."""
        self._committed.refresh()
        return preview(as_name(name), self, limit)

    @property
    def spark(self) -> AdhocSpark:
        """Return the query engine, which starts Spark on the first query."""
        from sinkql.runtime.spark.adhoc import AdhocSpark  # Spark is loaded on the first query

        if self._spark is None:
            self._spark = AdhocSpark(self._committed.database.folder / "spark")
        return self._spark

    def context(self, job: physical.Job) -> Context:
        """Return the context of a job: its folder, the values of secrets and the object stores."""
        folder = dropping.sink_folder(self._committed, job.sink_id)
        make_private_folder(self._committed.database.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Context(
            job.sink, job.sink_id, folder, self.access.secret, self.access.job_store, state=job.state,
            remote=job.remote, ticks=TickTable(self._committed.database),
            open_notes=partial(open_notes, self._committed.database),
            hash_key=self._hash_key, project=self._committed.project,
        )  # fmt: skip

    @cached_property
    def _hash_key(self) -> HashKey:
        """Return the catalog's key, which never changes, for the contexts of all sinks."""
        return hash_key(self._committed.database)

    def close(self) -> None:
        """Stop the Spark that queries started, and roll back an open transaction."""
        self._rollback()
        self._end_queries()
        self._committed.database.close()

    def _end_queries(self) -> None:
        """Stop the Spark that queries started, because a process can have only one."""
        if self._spark is not None:
            self._spark.close()
            self._spark = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
