"""The meaning of statements as frozen data: read it as `logical.Sink`, `logical.Call`.

* `type`: The types of values.
* `numeric_type`: The ranges and digits of numeric types.
* `function`: The list of functions, each with the version of its meaning.
* `meaning_version`: Later versions for calls with some constants.
* `expression`: Trees of columns, literals, casts, cases and calls.
* `short_circuit`: The conditions of AND and OR that need not be computed.
* `relation`: Queries as relations over relations, with their columns, keys and changes.
* `item`: The items that CREATE statements define.
* `catalog`: The catalog as the planner reads it: stored items and their facts.
* `nested`: The texts of arrays, lists, maps and records.
* `range`: The texts of ranges, their bounds and their order.
* `jsonb`: The canonical text of jsonb, and paths into it.
* `letter_case`: The upper and lower case of letters.
* `pattern`: Regular expressions, their replacements, and the patterns of format().
* `number_format`: The number patterns of to_char().
* `time`: The texts of dates, times and intervals.
* `time_format`: The time patterns of to_char(), to_date() and to_timestamp().
"""

from __future__ import annotations

from sinkql.logical.catalog import CatalogReader as CatalogReader
from sinkql.logical.catalog import Entry as Entry
from sinkql.logical.catalog import Facts as Facts
from sinkql.logical.catalog import get_entry as get_entry
from sinkql.logical.catalog import get_item as get_item
from sinkql.logical.catalog import get_relation as get_relation
from sinkql.logical.catalog import get_statement as get_statement
from sinkql.logical.expression import Branch as Branch
from sinkql.logical.expression import Call as Call
from sinkql.logical.expression import Case as Case
from sinkql.logical.expression import Cast as Cast
from sinkql.logical.expression import Expression as Expression
from sinkql.logical.expression import Interval as Interval
from sinkql.logical.expression import Literal as Literal
from sinkql.logical.expression import Reference as Reference
from sinkql.logical.expression import Value as Value
from sinkql.logical.expression import literal as literal
from sinkql.logical.item import PROGRESS as PROGRESS
from sinkql.logical.item import Cluster as Cluster
from sinkql.logical.item import Connection as Connection
from sinkql.logical.item import Database as Database
from sinkql.logical.item import Destination as Destination
from sinkql.logical.item import Execution as Execution
from sinkql.logical.item import Index as Index
from sinkql.logical.item import Item as Item
from sinkql.logical.item import Schema as Schema
from sinkql.logical.item import Secret as Secret
from sinkql.logical.item import SecretName as SecretName
from sinkql.logical.item import SecretText as SecretText
from sinkql.logical.item import Sink as Sink
from sinkql.logical.item import SinkMode as SinkMode
from sinkql.logical.item import Source as Source
from sinkql.logical.item import SourceTable as SourceTable
from sinkql.logical.item import StatePath as StatePath
from sinkql.logical.item import View as View
from sinkql.logical.relation import ONE as ONE
from sinkql.logical.relation import Aggregate as Aggregate
from sinkql.logical.relation import AggregateCall as AggregateCall
from sinkql.logical.relation import Bound as Bound
from sinkql.logical.relation import Change as Change
from sinkql.logical.relation import Collect as Collect
from sinkql.logical.relation import Column as Column
from sinkql.logical.relation import Comparison as Comparison
from sinkql.logical.relation import Filter as Filter
from sinkql.logical.relation import Flatten as Flatten
from sinkql.logical.relation import Frame as Frame
from sinkql.logical.relation import FrameBound as FrameBound
from sinkql.logical.relation import Get as Get
from sinkql.logical.relation import Join as Join
from sinkql.logical.relation import JoinKey as JoinKey
from sinkql.logical.relation import JoinKind as JoinKind
from sinkql.logical.relation import Output as Output
from sinkql.logical.relation import Project as Project
from sinkql.logical.relation import Rank as Rank
from sinkql.logical.relation import Relation as Relation
from sinkql.logical.relation import Repeat as Repeat
from sinkql.logical.relation import Shape as Shape
from sinkql.logical.relation import Sort as Sort
from sinkql.logical.relation import Threshold as Threshold
from sinkql.logical.relation import Union as Union
from sinkql.logical.relation import Window as Window
from sinkql.logical.relation import WindowCall as WindowCall
from sinkql.logical.relation import expressions_of as expressions_of
from sinkql.logical.relation import inputs_of as inputs_of
from sinkql.logical.relation import one_row as one_row
from sinkql.logical.relation import paired_once as paired_once
from sinkql.logical.relation import row_by_row as row_by_row
from sinkql.logical.relation import threshold_of as threshold_of
from sinkql.logical.relation import with_inputs as with_inputs
from sinkql.logical.type import NUMERIC as NUMERIC
from sinkql.logical.type import Type as Type
