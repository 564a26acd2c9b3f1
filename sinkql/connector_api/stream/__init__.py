"""The interface between a running job and its connectors: read splits, write and commit batches, without Spark.

* `context`: Gives readers and writers their folders, secrets, stores and formats.
* `checkpoint`: Describes offsets, splits and the checkpoint that a table stores.
* `reader`: Plans batches as offsets and splits, and reads the rows of a split.
* `decoding`: Decodes files and messages into rows, and encodes rows as messages.
* `row_error`: Describes records that do not decode, and counts the records of a read task.
* `write_task`: Writes the rows of one bucket of a batch.
* `writer`: Commits batches and maintains the target table.
"""

from __future__ import annotations

from sinkql.connector_api.stream.checkpoint import NO_PLAN as NO_PLAN
from sinkql.connector_api.stream.checkpoint import Checkpoint as Checkpoint
from sinkql.connector_api.stream.checkpoint import ClaimRequest as ClaimRequest
from sinkql.connector_api.stream.checkpoint import JobOffsets as JobOffsets
from sinkql.connector_api.stream.checkpoint import Limit as Limit
from sinkql.connector_api.stream.checkpoint import Offsets as Offsets
from sinkql.connector_api.stream.checkpoint import PlanChange as PlanChange
from sinkql.connector_api.stream.checkpoint import Split as Split
from sinkql.connector_api.stream.checkpoint import claim_checkpoint as claim_checkpoint
from sinkql.connector_api.stream.checkpoint import is_same as is_same
from sinkql.connector_api.stream.checkpoint import plan_change_of as plan_change_of
from sinkql.connector_api.stream.context import Context as Context
from sinkql.connector_api.stream.context import MessageDecoding as MessageDecoding
from sinkql.connector_api.stream.context import MessageEncoding as MessageEncoding
from sinkql.connector_api.stream.context import OpenReader as OpenReader
from sinkql.connector_api.stream.context import OpenWriter as OpenWriter
from sinkql.connector_api.stream.decoding import ChangeDecoder as ChangeDecoder
from sinkql.connector_api.stream.decoding import Decoded as Decoded
from sinkql.connector_api.stream.decoding import DecodedMessages as DecodedMessages
from sinkql.connector_api.stream.decoding import Decoder as Decoder
from sinkql.connector_api.stream.decoding import Decoding as Decoding
from sinkql.connector_api.stream.decoding import MessageDecoder as MessageDecoder
from sinkql.connector_api.stream.decoding import MessageEncoder as MessageEncoder
from sinkql.connector_api.stream.decoding import QuotedDecoder as QuotedDecoder
from sinkql.connector_api.stream.decoding import StoredDecoder as StoredDecoder
from sinkql.connector_api.stream.decoding import UndecodableError as UndecodableError
from sinkql.connector_api.stream.decoding import WideError as WideError
from sinkql.connector_api.stream.reader import FileBackedReader as FileBackedReader
from sinkql.connector_api.stream.reader import FirstSnapshot as FirstSnapshot
from sinkql.connector_api.stream.reader import Measure as Measure
from sinkql.connector_api.stream.reader import Reader as Reader
from sinkql.connector_api.stream.reader import RefreshableReader as RefreshableReader
from sinkql.connector_api.stream.reader import Size as Size
from sinkql.connector_api.stream.reader import SnapshotReader as SnapshotReader
from sinkql.connector_api.stream.reader import ViewLogReader as ViewLogReader
from sinkql.connector_api.stream.row_error import ReadCounts as ReadCounts
from sinkql.connector_api.stream.row_error import RowError as RowError
from sinkql.connector_api.stream.row_error import RowFailure as RowFailure
from sinkql.connector_api.stream.row_error import invalid_row_error as invalid_row_error
from sinkql.connector_api.stream.row_error import not_replayable_error as not_replayable_error
from sinkql.connector_api.stream.row_error import shown_record as shown_record
from sinkql.connector_api.stream.write_task import WriteResult as WriteResult
from sinkql.connector_api.stream.write_task import WriteTask as WriteTask
from sinkql.connector_api.stream.writer import Committed as Committed
from sinkql.connector_api.stream.writer import Compacted as Compacted
from sinkql.connector_api.stream.writer import FileKeeper as FileKeeper
from sinkql.connector_api.stream.writer import Maintainable as Maintainable
from sinkql.connector_api.stream.writer import Published as Published
from sinkql.connector_api.stream.writer import RefreshableWriter as RefreshableWriter
from sinkql.connector_api.stream.writer import ReplaceableFiles as ReplaceableFiles
from sinkql.connector_api.stream.writer import StaleFilesError as StaleFilesError
from sinkql.connector_api.stream.writer import ViewLogWriter as ViewLogWriter
from sinkql.connector_api.stream.writer import Writer as Writer
