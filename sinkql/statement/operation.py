"""The operations of statements: their meaning, with resolved names and checked rules.

An operation keeps its statement if executing it reports errors or notices in the statement's text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.catalog.replan import Definitions
from sinkql.catalog.row import Stored
from sinkql.connector_api.options import option_field
from sinkql.connector_api.planning import OutsideAccess
from sinkql.errors import Notice

if TYPE_CHECKING:
    from sinkql.planner.edit.dml import Deleted, Inserted, Updated


@dataclass(frozen=True, slots=True)
class SkipStatement:
    """Do nothing, for the reason in the notices. `names` has the full names of items that stay."""

    tag: str
    notices: tuple[Notice, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateItem:
    """Create the item `name`, which does not exist. Its plan needs facts: see `sinkql.statement.plan.plan_item`."""

    statement: ast.Create
    name: str


@dataclass(frozen=True, slots=True)
class ReplaceItem:
    """Replace the definition of an existing view. Its id and its dependents stay."""

    statement: ast.CreateView
    stored: Stored


@dataclass(frozen=True, slots=True)
class CreateSinks:
    """Create several sinks, all or none. Each statement is planned after the sinks before it exist."""

    statements: tuple[ast.CreateSink, ...]


@dataclass(frozen=True, slots=True)
class DropItems:
    """Drop items in this order."""

    statement: ast.Drop
    names: tuple[str, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class AlterItem:
    """Replace the definition of an item by one with full names.

    `follows` says that the rows of a sink come from another relation than before.
    """

    statement: ast.Alter
    name: str
    definition: ast.Create
    facts: logical.Facts
    notices: tuple[Notice, ...]
    follows: bool

    @property
    def changes(self) -> Definitions:
        """Return the change as catalogs take it."""
        return {self.name: (self.definition, self.facts)}


@dataclass(frozen=True, slots=True)
class ChangeReferences:
    """Add, drop or refresh the tables of a source: see `sinkql.statement.references`."""

    statement: ast.Alter
    action: ast.AddReferences | ast.DropReferences | ast.RefreshReferences
    entry: logical.Entry
    definition: ast.CreateSource


@dataclass(frozen=True, slots=True)
class RenameItems:
    """Store definitions under other names."""

    tag: str
    changes: Definitions


@dataclass(frozen=True, slots=True)
class SetOwner:
    """Set the owner of an item."""

    tag: str
    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set or delete the comment of an item (`column` 0) or of a column counted from 1."""

    name: str
    column: int
    text: str | None


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change settings, for the session or for the whole `system`. A statement may have only notices."""

    values: tuple[tuple[str, str], ...]
    notices: tuple[Notice, ...]
    system: bool


@dataclass(frozen=True, slots=True)
class PublishBranch:
    """Publish the branch of a sink."""

    statement: ast.Alter
    sink: logical.Sink


@dataclass(frozen=True, slots=True)
class AcceptLoss:
    """Accept the reported losses of a source."""

    statement: ast.Alter
    entry: logical.Entry


@dataclass(frozen=True, slots=True)
class CompactSink:
    """Compact the table of a sink."""

    statement: ast.OptimizeSink
    name: str


@dataclass(frozen=True, slots=True)
class ReplayRecords:
    """Replay the dead letters of a source: decode them again."""

    statement: ast.ReplayErrors
    entry: logical.Entry


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Insert, update or delete rows of a table."""

    statement: ast.RowChange
    planned: Inserted | Updated | Deleted


@dataclass(frozen=True, slots=True)
class CheckConnection:
    """Check that the server of a connection answers."""

    statement: ast.ValidateConnection
    connection: logical.Connection
    check: Callable[[logical.Connection, OutsideAccess], None]


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of SUBSCRIBE."""

    snapshot: bool = option_field("whether to print the present rows first", default=True)
    progress: bool = option_field("whether to print which times are complete", default=False)


@dataclass(frozen=True, slots=True)
class FollowRelation:
    """Return the rows of a relation and then each committed change."""

    statement: ast.Subscribe
    relation: ast.Name
    entry: logical.Entry
    options: SubscribeOptions


@dataclass(frozen=True, slots=True)
class ShowDefinition:
    """Return the CREATE statement of an item."""

    statement: ast.ShowCreate
    entry: logical.Entry


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Return rows. Executing it plans the query; `sinkql.statement.read` does so without rows."""

    statement: ast.Select | ast.Show | ast.ShowVariable | ast.Explain


Operation = (
    SkipStatement
    | CreateItem
    | ReplaceItem
    | CreateSinks
    | DropItems
    | AlterItem
    | ChangeReferences
    | RenameItems
    | SetOwner
    | SetComment
    | ChangeSettings
    | PublishBranch
    | AcceptLoss
    | CompactSink
    | ReplayRecords
    | ChangeRows
    | CheckConnection
    | FollowRelation
    | ShowDefinition
    | ReadRows
)
