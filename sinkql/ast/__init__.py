"""The syntax of statements as frozen dataclasses: what was written and where, nothing that it means.

* `value`: names and the values that options take.
* `part`: what statements are made of.
* `statement`: the statements.
"""

from sinkql.ast.part import Call as Call
from sinkql.ast.part import ColumnDef as ColumnDef
from sinkql.ast.part import Format as Format
from sinkql.ast.part import Include as Include
from sinkql.ast.part import Key as Key
from sinkql.ast.part import Mode as Mode
from sinkql.ast.part import Query as Query
from sinkql.ast.part import SecretValue as SecretValue
from sinkql.ast.part import Transform as Transform
from sinkql.ast.part import TypeName as TypeName
from sinkql.ast.statement import AlterSystem as AlterSystem
from sinkql.ast.statement import Create as Create
from sinkql.ast.statement import CreateCluster as CreateCluster
from sinkql.ast.statement import CreateConnection as CreateConnection
from sinkql.ast.statement import CreateSecret as CreateSecret
from sinkql.ast.statement import CreateSink as CreateSink
from sinkql.ast.statement import CreateSource as CreateSource
from sinkql.ast.statement import CreateView as CreateView
from sinkql.ast.statement import Drop as Drop
from sinkql.ast.statement import Explain as Explain
from sinkql.ast.statement import ItemRef as ItemRef
from sinkql.ast.statement import Select as Select
from sinkql.ast.statement import SetVariable as SetVariable
from sinkql.ast.statement import Show as Show
from sinkql.ast.statement import ShowCreate as ShowCreate
from sinkql.ast.statement import ShowVariable as ShowVariable
from sinkql.ast.statement import Statement as Statement
from sinkql.ast.value import Boolean as Boolean
from sinkql.ast.value import Concat as Concat
from sinkql.ast.value import Ident as Ident
from sinkql.ast.value import Interval as Interval
from sinkql.ast.value import Map as Map
from sinkql.ast.value import MapEntry as MapEntry
from sinkql.ast.value import Name as Name
from sinkql.ast.value import Null as Null
from sinkql.ast.value import Number as Number
from sinkql.ast.value import Option as Option
from sinkql.ast.value import SecretRef as SecretRef
from sinkql.ast.value import Sequence as Sequence
from sinkql.ast.value import Text as Text
from sinkql.ast.value import Value as Value
from sinkql.ast.value import Word as Word
