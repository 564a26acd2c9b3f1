"""ALTER and its actions."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql.ast.clause import ColumnDef, SecretValue
from sinkql.ast.create import Reference
from sinkql.ast.value import Ident, Name, Option, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class Rename:
    to: Ident
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Swap:
    """SWAP WITH another item of the same kind."""

    other: Ident
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetOwner:
    role: Ident
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetOptions:
    """`SET (option = value, …)`; `wait` has the options of a cluster's WITH (…) after it."""

    options: tuple[Option, ...]
    wait: tuple[Option, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class OptionName:
    """An option's name in upper case, without a value."""

    name: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """`RESET (option, …)`, or DROP, which means the same."""

    names: tuple[OptionName, ...]
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetCluster:
    cluster: Ident
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetFrom:
    relation: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Publish:
    """PUBLISH: moves the main branch of a sink's table to the head of the sink's own branch."""

    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetSecret:
    value: SecretValue = field(repr=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class RotateKeys:
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ChangeConnection:
    """SET, DROP and RESET of a connection's options, and ROTATE KEYS, in the order written."""

    actions: tuple[SetOptions | ResetOptions | RotateKeys, ...]
    validate: bool | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class AddReferences:
    """ADD SUBSOURCE or ADD TABLE of a source."""

    references: tuple[Reference, ...]
    with_options: tuple[Option, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class DropReferences:
    """DROP SUBSOURCE or DROP TABLE of a source."""

    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class RefreshReferences:
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Skip:
    """SKIP: continue after the rows that a source reported as lost."""

    span: Span = at()


@dataclass(frozen=True, slots=True)
class AddColumn:
    column: ColumnDef
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ApplyReplacement:
    name: Name
    span: Span = at()


AlterAction = (
    Rename
    | Swap
    | SetOwner
    | SetOptions
    | ResetOptions
    | SetCluster
    | SetFrom
    | Publish
    | SetSecret
    | ChangeConnection
    | AddReferences
    | DropReferences
    | RefreshReferences
    | Skip
    | AddColumn
    | ApplyReplacement
)


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER of an item; `kind` is in upper case, as in DROP."""

    kind: str
    name: Name
    action: AlterAction
    if_exists: bool = False
    span: Span = at()
