"""One table of one catalog: load it, post a commit, and tidy up after the commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from sinkql.connectors.iceberg.storage import local_folder, missing_file_error, storage_error, sync
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.failure import catalog_error, is_transient
from sinkql.connectors.iceberg.table.tag import TagState
from sinkql.errors import DroppedTableError, SinkqlError, UnfitTableError
from sinkql.machine import clock
from sinkql.machine.randomness import jitter
from sinkql.storage import failpoint, files

T = TypeVar("T")
_METADATA = ".metadata.json"


@dataclass(frozen=True, slots=True)
class Patience:
    """The number of attempts, and the pauses between them: `first` seconds, doubled each time up to `longest`."""

    tries: int = 8
    first: float = 0.2
    longest: float = 10.0

    def wait(self, failures: int) -> None:
        """Wait before the next attempt, with jitter, so that two writers do not collide repeatedly."""
        clock.sleep(min(self.longest, self.first * 2 ** (failures - 1)) * jitter(0.5, 1.0))


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A sink's target table, on a branch if the sink has one; `connection` is the name in error messages."""

    catalog: Catalog
    namespace: str
    table: str
    connection: str
    hint_file: bool = False
    branch: str | None = None
    patience: Patience = field(default=Patience())
    tags: TagState = field(default_factory=TagState, compare=False)

    @property
    def identifier(self) -> tuple[str, ...]:
        """Return the table's identifier; dots separate the levels of a namespace."""
        return (*self.namespace.split("."), self.table)

    def load(self) -> Table:
        """Return the present table; raises NoSuchTableError, SQ3521, or SQ42xx and SQ3556 after the last attempt."""
        try:
            table = self.patiently(lambda: self.catalog.load_table(self.identifier))
        except SinkqlError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self.lost_file_error(error.__cause__) from error.__cause__
            raise
        return table if self.branch is None else BranchTable(table, self.branch)

    def patiently(self, request: Callable[[], T]) -> T:
        """Return the result of a request without side effects, and retry while the catalog does not answer."""
        failures = 0
        while True:
            try:
                return request()
            except NoSuchTableError:
                raise
            except Exception as error:
                failures += 1
                if failures >= self.patience.tries or not is_transient(error):
                    raise catalog_error(error, self.connection) from error
            self.patience.wait(failures)

    def settle(self, locations: Iterable[str]) -> None:
        """Make the local files among these durable; raises SQ43xx if that fails, and FileNotFoundError."""
        try:
            sync(locations)
        except FileNotFoundError:
            raise
        except OSError as error:
            cause = f"{type(error).__name__}: {error}"
            raise storage_error(error, f'the storage of table "{self.namespace}.{self.table}"', cause) from error

    def post(self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> Table:
        """Post a commit once, and return the table in the reply; after an exception the outcome is unknown."""
        whole = table
        if isinstance(table, BranchTable):
            whole, requirements, updates = table.whole, table.requirements(requirements), table.updates(updates)
        reply = self.catalog.commit_table(whole, requirements, updates)
        after = Table(table.name(), reply.metadata, reply.metadata_location, table.io, self.catalog, table.config)
        return BranchTable(after, table.branch) if isinstance(table, BranchTable) else after

    def check_branch(self, before: Table, after: Table) -> None:
        """Raise SQ3524 if the catalog applied a commit to the branch to main, as Nessie does.

        The first commit of a run, which has no rows, shows that.
        """
        if not isinstance(before, BranchTable) or not isinstance(after, BranchTable):
            return
        heads = [table.whole.metadata.current_snapshot_id for table in (before, after)]
        if after.branch not in after.whole.metadata.refs and heads[0] != heads[1]:
            raise UnfitTableError(
                "SQ3524",
                f'the Iceberg catalog of connection "{self.connection}" does not support branches of tables',
                hint="Drop the sink and create it again without BRANCH. With Nessie, create a connection whose URL "
                "ends with the name of a Nessie branch, and use it for the sink.",
            )

    def tidy(self, before: Table, after: Table) -> None:
        """Delete old metadata files, as pyiceberg's commits do, and update DuckDB's hint file."""
        with suppress(Exception):  # the commit is valid even if this fails
            self.catalog._delete_old_metadata(after.io, before.metadata, after.metadata)
        folder = local_folder(after.metadata_location) if self.hint_file else None
        if folder is not None:
            with suppress(OSError):
                failpoint.point("version-hint")
                _write_hint(folder, str(after.metadata.table_uuid))

    def dropped_error(self) -> SinkqlError:
        """Return the error for a table that was dropped."""
        return DroppedTableError(
            "SQ3503",
            f'table "{self.namespace}.{self.table}" was dropped',
            hint="Register the table again from its metadata. A running sink then continues. Or drop the sink and "
            "create it again.",
        )

    def lost_file_error(self, error: FileNotFoundError) -> SinkqlError:
        """Return the error for a table whose metadata or catalog names a missing file."""
        return missing_file_error(f"{self.namespace}.{self.table}", error)


def _write_hint(metadata: Path, table_uuid: str) -> None:
    """Write the name of the metadata file into the hint file, unless the hint names a later file of this table."""
    hint = metadata.with_name("version-hint.text")
    version = metadata.name.removesuffix(_METADATA)
    try:
        present = hint.read_text()
        if _number(present) > _number(version):
            later = json.loads((metadata.parent / f"{present}{_METADATA}").read_bytes())
            if later["table-uuid"] == table_uuid:  # else an earlier table had this folder
                return
    except (OSError, ValueError):
        pass  # no hint, or another program's
    files.write_atomic(hint, version.encode())


def _number(version: str) -> int:
    return int(version.partition("-")[0])
