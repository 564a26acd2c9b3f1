"""One table of one catalog: load it, post a commit, and what a catalog leaves undone after one."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from sinkql.connectors.iceberg.storage import local_folder, missing, of_storage, sync
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.failure import explain, transient
from sinkql.connectors.iceberg.table.tag import TagState
from sinkql.errors import DroppedTableError, SinkqlError, UnfitTableError
from sinkql.storage import failpoint, files

T = TypeVar("T")
_METADATA = ".metadata.json"


@dataclass(frozen=True, slots=True)
class Patience:
    """Say how often to try again, and how long to wait: `first` seconds, doubled each time up to `longest`."""

    tries: int = 8
    first: float = 0.2
    longest: float = 10.0

    def wait(self, failures: int) -> None:
        """Wait before the next try, with jitter, so that two writers do not keep meeting."""
        time.sleep(min(self.longest, self.first * 2 ** (failures - 1)) * random.uniform(0.5, 1.0))


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that a sink writes to, on a branch if it has one; `connection` is the name that errors show."""

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
        """Return the table's identifier; dots part the levels of a namespace."""
        return (*self.namespace.split("."), self.table)

    def load(self) -> Table:
        """Return the table as it is now; raises NoSuchTableError, SQ3521, or SQ42xx and SQ3556 once patience is out."""
        try:
            table = self.patiently(lambda: self.catalog.load_table(self.identifier))
        except SinkqlError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self.lost_file(error.__cause__) from error.__cause__
            raise
        return table if self.branch is None else BranchTable(table, self.branch)

    def patiently(self, request: Callable[[], T]) -> T:
        """Return what a harmless request returns, trying again while the catalog does not answer."""
        failures = 0
        while True:
            try:
                return request()
            except NoSuchTableError:
                raise
            except Exception as error:
                failures += 1
                if failures >= self.patience.tries or not transient(error):
                    raise explain(error, self.connection) from error
            self.patience.wait(failures)

    def settle(self, locations: Iterable[str]) -> None:
        """Make the local files among these durable; raises SQ43xx where one may not be, and FileNotFoundError."""
        try:
            sync(locations)
        except FileNotFoundError:
            raise
        except OSError as error:
            cause = f"{type(error).__name__}: {error}"
            raise of_storage(error, f'the storage of table "{self.namespace}.{self.table}"', cause) from error

    def post(self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> Table:
        """Post one commit, once, and return the table as the reply has it; if it raises, the outcome is unknown."""
        whole = table
        if isinstance(table, BranchTable):
            whole, requirements, updates = table.whole, table.requirements(requirements), table.updates(updates)
        reply = self.catalog.commit_table(whole, requirements, updates)
        after = Table(table.name(), reply.metadata, reply.metadata_location, table.io, self.catalog, table.config)
        return BranchTable(after, table.branch) if isinstance(table, BranchTable) else after

    def check_branch(self, before: Table, after: Table) -> None:
        """Refuse a catalog that has put a commit to the branch on main (SQ3524): Nessie's tables have no branches.

        The first commit of a run tells, which has no rows.
        """
        if not isinstance(before, BranchTable) or not isinstance(after, BranchTable):
            return
        heads = [each.whole.metadata.current_snapshot_id for each in (before, after)]
        if after.branch not in after.whole.metadata.refs and heads[0] != heads[1]:
            raise UnfitTableError(
                "SQ3524",
                f'the Iceberg catalog of connection "{self.connection}" has no branches of tables',
                hint="Drop the sink and create it again, without BRANCH. With Nessie, add the name of one of its own "
                "branches to the URL of another connection, and write through that.",
            )

    def tidy(self, before: Table, after: Table) -> None:
        """Do what pyiceberg's own commits do besides: remove old metadata files; and point DuckDB to the new one."""
        with suppress(Exception):  # the commit stands whether or not this works
            self.catalog._delete_old_metadata(after.io, before.metadata, after.metadata)
        folder = local_folder(after.metadata_location) if self.hint_file else None
        if folder is not None:
            with suppress(OSError):
                failpoint.point("version-hint")
                _point_to(folder, str(after.metadata.table_uuid))

    def gone(self) -> SinkqlError:
        """Return the error for a table that was there and is no more."""
        return DroppedTableError(
            "SQ3503",
            f'table "{self.namespace}.{self.table}" was dropped',
            hint="Register the table again from its metadata: a running sink goes on by itself. Or drop the sink and "
            "create it again.",
        )

    def lost_file(self, error: FileNotFoundError) -> SinkqlError:
        """Return the error for a table of which a file is missing that its metadata, or its catalog, names."""
        return missing(f"{self.namespace}.{self.table}", error)


def _point_to(metadata: Path, table_uuid: str) -> None:
    """Name the metadata file in the hint beside it, unless the hint is further on: an older run may be late."""
    hint = metadata.with_name("version-hint.text")
    version = metadata.name.removesuffix(_METADATA)
    try:
        present = hint.read_text()
        if _number(present) > _number(version):
            told = json.loads((metadata.parent / f"{present}{_METADATA}").read_bytes())
            if told["table-uuid"] == table_uuid:  # not of a table that was here before
                return
    except (OSError, ValueError):
        pass  # none there, or not one of ours
    files.write_atomic(hint, version.encode())


def _number(version: str) -> int:
    return int(version.partition("-")[0])
