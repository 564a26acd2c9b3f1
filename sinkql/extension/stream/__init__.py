"""What a running job asks of a connector: read splits of a source, write and commit batches. No Spark in it.

* `place`: how far a source was read, and its parts; how much may be read at once.
* `record`: records that are no rows: what is said of each, and how many there were.
* `decoder`: decoders of files: a stream of bytes → batches of rows.
* `message`: decoders and encoders of messages: bytes ↔ rows.
* `reader`: a source's part of a job: places, splits, and their rows.
* `marker`: what a table says of the sink that writes it, and who may go on from there.
* `writer`: a sink's part of a job: it writes batches, commits them, and keeps its table in order.
* `logged`: a sink's part of the job of a view, whose log others read.
* `context`: what the parts of a job may use, how they are opened, and what they decode messages with.
"""

from __future__ import annotations

from sinkql.extension.stream.context import Context as Context
from sinkql.extension.stream.context import MessageDecoding as MessageDecoding
from sinkql.extension.stream.context import MessageEncoding as MessageEncoding
from sinkql.extension.stream.context import OpenReader as OpenReader
from sinkql.extension.stream.context import OpenWriter as OpenWriter
from sinkql.extension.stream.decoder import Decoded as Decoded
from sinkql.extension.stream.decoder import Decoder as Decoder
from sinkql.extension.stream.decoder import Decoding as Decoding
from sinkql.extension.stream.decoder import QuotedDecoder as QuotedDecoder
from sinkql.extension.stream.decoder import StoredDecoder as StoredDecoder
from sinkql.extension.stream.decoder import UndecodableError as UndecodableError
from sinkql.extension.stream.logged import LogWriter as LogWriter
from sinkql.extension.stream.marker import NO_PLAN as NO_PLAN
from sinkql.extension.stream.marker import Marker as Marker
from sinkql.extension.stream.marker import Switch as Switch
from sinkql.extension.stream.marker import claimed as claimed
from sinkql.extension.stream.marker import switch_of as switch_of
from sinkql.extension.stream.message import ChangeDecoder as ChangeDecoder
from sinkql.extension.stream.message import DecodedMessages as DecodedMessages
from sinkql.extension.stream.message import MessageDecoder as MessageDecoder
from sinkql.extension.stream.message import MessageEncoder as MessageEncoder
from sinkql.extension.stream.message import WideError as WideError
from sinkql.extension.stream.place import JobOffsets as JobOffsets
from sinkql.extension.stream.place import Limit as Limit
from sinkql.extension.stream.place import Offsets as Offsets
from sinkql.extension.stream.place import Split as Split
from sinkql.extension.stream.place import same as same
from sinkql.extension.stream.reader import Derived as Derived
from sinkql.extension.stream.reader import FirstSnapshot as FirstSnapshot
from sinkql.extension.stream.reader import Measure as Measure
from sinkql.extension.stream.reader import Reader as Reader
from sinkql.extension.stream.record import Failure as Failure
from sinkql.extension.stream.record import RowError as RowError
from sinkql.extension.stream.record import Tally as Tally
from sinkql.extension.stream.record import invalid_row as invalid_row
from sinkql.extension.stream.record import unkept as unkept
from sinkql.extension.stream.writer import Committed as Committed
from sinkql.extension.stream.writer import Compacted as Compacted
from sinkql.extension.stream.writer import Published as Published
from sinkql.extension.stream.writer import RedoBatchError as RedoBatchError
from sinkql.extension.stream.writer import Writer as Writer
from sinkql.extension.stream.writer import WriteResult as WriteResult
from sinkql.extension.stream.writer import WriteTask as WriteTask
