"""The syntax of statements as frozen dataclasses: what was written and where, nothing that it means.

* `value`: names and the values that options take.
* `clause`: what statements are made of.
* `dml`: tables, indexes, and the statements that change rows.
* `create`: sources, formats, and tables that are fed by a source.
* `create`: views and sinks.
* `alter`: ALTER, and what it may do.
* `statement`: all other statements, and the union of all.
"""

from sinkql.ast.alter import AddColumn as AddColumn
from sinkql.ast.alter import AddReferences as AddReferences
from sinkql.ast.alter import Alter as Alter
from sinkql.ast.alter import AlterAction as AlterAction
from sinkql.ast.alter import ApplyReplacement as ApplyReplacement
from sinkql.ast.alter import ChangeConnection as ChangeConnection
from sinkql.ast.alter import DropReferences as DropReferences
from sinkql.ast.alter import OptionName as OptionName
from sinkql.ast.alter import Publish as Publish
from sinkql.ast.alter import RefreshReferences as RefreshReferences
from sinkql.ast.alter import Rename as Rename
from sinkql.ast.alter import ResetOptions as ResetOptions
from sinkql.ast.alter import RotateKeys as RotateKeys
from sinkql.ast.alter import SetCluster as SetCluster
from sinkql.ast.alter import SetFrom as SetFrom
from sinkql.ast.alter import SetOptions as SetOptions
from sinkql.ast.alter import SetOwner as SetOwner
from sinkql.ast.alter import SetSecret as SetSecret
from sinkql.ast.alter import Skip as Skip
from sinkql.ast.alter import Swap as Swap
from sinkql.ast.clause import Call as Call
from sinkql.ast.clause import ColumnConstraint as ColumnConstraint
from sinkql.ast.clause import ColumnDef as ColumnDef
from sinkql.ast.clause import Edit as Edit
from sinkql.ast.clause import Joined as Joined
from sinkql.ast.clause import Key as Key
from sinkql.ast.clause import Mode as Mode
from sinkql.ast.clause import Query as Query
from sinkql.ast.clause import SecretValue as SecretValue
from sinkql.ast.clause import Sorting as Sorting
from sinkql.ast.clause import Transform as Transform
from sinkql.ast.clause import TypeName as TypeName
from sinkql.ast.create import Check as Check
from sinkql.ast.create import CheckInput as CheckInput
from sinkql.ast.create import CreateProgress as CreateProgress
from sinkql.ast.create import CreateSink as CreateSink
from sinkql.ast.create import CreateSinks as CreateSinks
from sinkql.ast.create import CreateSource as CreateSource
from sinkql.ast.create import CreateTableFrom as CreateTableFrom
from sinkql.ast.create import CreateView as CreateView
from sinkql.ast.create import Format as Format
from sinkql.ast.create import HeaderFilter as HeaderFilter
from sinkql.ast.create import Include as Include
from sinkql.ast.create import InlineErrors as InlineErrors
from sinkql.ast.create import Reference as Reference
from sinkql.ast.create import Schema as Schema
from sinkql.ast.create import Seed as Seed
from sinkql.ast.create import Subsources as Subsources
from sinkql.ast.create import Using as Using
from sinkql.ast.dml import Assignment as Assignment
from sinkql.ast.dml import CreateIndex as CreateIndex
from sinkql.ast.dml import CreateTable as CreateTable
from sinkql.ast.dml import Delete as Delete
from sinkql.ast.dml import Insert as Insert
from sinkql.ast.dml import TableConstraint as TableConstraint
from sinkql.ast.dml import Update as Update
from sinkql.ast.statement import AlterSystem as AlterSystem
from sinkql.ast.statement import CommentOn as CommentOn
from sinkql.ast.statement import Create as Create
from sinkql.ast.statement import CreateCluster as CreateCluster
from sinkql.ast.statement import CreateConnection as CreateConnection
from sinkql.ast.statement import CreateDatabase as CreateDatabase
from sinkql.ast.statement import CreateSchema as CreateSchema
from sinkql.ast.statement import CreateSecret as CreateSecret
from sinkql.ast.statement import Drop as Drop
from sinkql.ast.statement import Explain as Explain
from sinkql.ast.statement import Explainee as Explainee
from sinkql.ast.statement import ItemRef as ItemRef
from sinkql.ast.statement import OptimizeSink as OptimizeSink
from sinkql.ast.statement import ReplayErrors as ReplayErrors
from sinkql.ast.statement import RowChange as RowChange
from sinkql.ast.statement import Select as Select
from sinkql.ast.statement import SetVariable as SetVariable
from sinkql.ast.statement import Show as Show
from sinkql.ast.statement import ShowCreate as ShowCreate
from sinkql.ast.statement import ShowVariable as ShowVariable
from sinkql.ast.statement import Statement as Statement
from sinkql.ast.statement import Subscribe as Subscribe
from sinkql.ast.statement import Transaction as Transaction
from sinkql.ast.statement import ValidateConnection as ValidateConnection
from sinkql.ast.value import Boolean as Boolean
from sinkql.ast.value import Concat as Concat
from sinkql.ast.value import Expression as Expression
from sinkql.ast.value import Hex as Hex
from sinkql.ast.value import Ident as Ident
from sinkql.ast.value import Interval as Interval
from sinkql.ast.value import Map as Map
from sinkql.ast.value import MapEntry as MapEntry
from sinkql.ast.value import Name as Name
from sinkql.ast.value import Null as Null
from sinkql.ast.value import Number as Number
from sinkql.ast.value import Option as Option
from sinkql.ast.value import Phrase as Phrase
from sinkql.ast.value import SecretRef as SecretRef
from sinkql.ast.value import Sequence as Sequence
from sinkql.ast.value import Text as Text
from sinkql.ast.value import Value as Value
from sinkql.ast.value import Word as Word
