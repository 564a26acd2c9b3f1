"""Define a job as data: what to read, which operators to run, what to write, and when. No Spark; JSON in and out.

* `operator`: Defines the operators, from reads to the write.
* `window`: Defines calls of window functions: order, frame and call.
* `graph`: Defines graphs of operators with shared parts, and co-partitioned sinks.
* `column_pruning`: Finds the columns that are used, and removes others.
* `identity`: Computes the plan hash: the identity of a job.
* `job`: Defines one sink's work, and its JSON.
* `evolution`: Decides whether a changed job may continue in its table.
"""

from __future__ import annotations

from sinkql.physical.column_pruning import columns_read as columns_read
from sinkql.physical.column_pruning import narrowed as narrowed
from sinkql.physical.graph import Copartitioned as Copartitioned
from sinkql.physical.graph import Graph as Graph
from sinkql.physical.graph import Shared as Shared
from sinkql.physical.graph import copartitioned as copartitioned
from sinkql.physical.graph import inputs_of as inputs_of
from sinkql.physical.graph import reads_below as reads_below
from sinkql.physical.graph import with_inputs as with_inputs
from sinkql.physical.identity import arranged_as as arranged_as
from sinkql.physical.job import Earlier as Earlier
from sinkql.physical.job import Job as Job
from sinkql.physical.job import StatePath as StatePath
from sinkql.physical.job import decode as decode
from sinkql.physical.job import encode as encode
from sinkql.physical.job import meant_otherwise as meant_otherwise
from sinkql.physical.job import secrets_in as secrets_in
from sinkql.physical.job import to_data as to_data
from sinkql.physical.operator import CONSTANT as CONSTANT
from sinkql.physical.operator import DIFF as DIFF
from sinkql.physical.operator import SEQ as SEQ
from sinkql.physical.operator import VIEW as VIEW
from sinkql.physical.operator import Aggregate as Aggregate
from sinkql.physical.operator import AggregateCall as AggregateCall
from sinkql.physical.operator import Arrange as Arrange
from sinkql.physical.operator import Bound as Bound
from sinkql.physical.operator import Change as Change
from sinkql.physical.operator import Column as Column
from sinkql.physical.operator import Compared as Compared
from sinkql.physical.operator import Connection as Connection
from sinkql.physical.operator import Flatten as Flatten
from sinkql.physical.operator import Index as Index
from sinkql.physical.operator import Join as Join
from sinkql.physical.operator import JoinKind as JoinKind
from sinkql.physical.operator import Map as Map
from sinkql.physical.operator import Normalize as Normalize
from sinkql.physical.operator import OneInput as OneInput
from sinkql.physical.operator import Operator as Operator
from sinkql.physical.operator import Origin as Origin
from sinkql.physical.operator import Output as Output
from sinkql.physical.operator import Pick as Pick
from sinkql.physical.operator import Rank as Rank
from sinkql.physical.operator import Read as Read
from sinkql.physical.operator import Recompute as Recompute
from sinkql.physical.operator import Repeat as Repeat
from sinkql.physical.operator import Side as Side
from sinkql.physical.operator import Stateful as Stateful
from sinkql.physical.operator import Union as Union
from sinkql.physical.operator import Use as Use
from sinkql.physical.operator import Write as Write
from sinkql.physical.operator import change_of as change_of
from sinkql.physical.operator import columns_of as columns_of
from sinkql.physical.operator import forgets as forgets
from sinkql.physical.operator import internal_of as internal_of
from sinkql.physical.operator import joined_in as joined_in
from sinkql.physical.operator import key_of as key_of
from sinkql.physical.operator import sequenced as sequenced
from sinkql.physical.operator import unchanged_value_columns as unchanged_value_columns
from sinkql.physical.operator import walk as walk
from sinkql.physical.window import Frame as Frame
from sinkql.physical.window import FrameBound as FrameBound
from sinkql.physical.window import Order as Order
from sinkql.physical.window import WindowCall as WindowCall
