"""LEDGER connections, sources and sinks: folders of text files, opened with a key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sinkql import ast, logical, physical
from sinkql.connector_api import planning as plan
from sinkql.connector_api import stream
from sinkql.connector_api.options import bind, option_field, reveal, secret_data
from sinkql.connector_api.sink_options import SinkOptions
from sinkql.connector_api.stream import Checkpoint, Context, Offsets, WriteResult
from sinkql.errors import FencedError, SinkqlError, error_codes
from sinkql.errors.code import Code, Family
from sinkql.storage import failpoint, files

if TYPE_CHECKING:
    import pyarrow as pa

OWNER = "ledgers"  # in messages

error_codes.add(
    {"LE4001": Code(Family.ENVIRONMENT, "The key does not open the ledger.", "Give the connection another key.")}
)


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """The options of TO LEDGER: the type of `api_key` makes its literals secrets."""

    folder: str = option_field("where the books are", local_path=True)
    api_key: logical.SecretText = option_field("what the file `key` of the folder says")


@dataclass(frozen=True, slots=True)
class BookOptions:
    """The options of FROM LEDGER CONNECTION and of INTO LEDGER CONNECTION."""

    book: str = option_field("the name of the book")


def _plan_connection(statement: ast.CreateConnection, planning: plan.PlanningContext) -> Mapping[str, Any]:
    options = bind(statement.options, LedgerOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    return {"folder": options.folder, "api_key": secret_data(options.api_key)}


def _plan_source(statement: ast.CreateSource, facts: logical.Facts, planning: plan.PlanningContext) -> plan.SourcePlan:
    options = bind(statement.options, BookOptions, owner=OWNER, span=statement.kind_span)
    line = logical.Column("line", logical.Type("bigint"), nullable=False)
    entry = logical.Column("entry", logical.Type("text"))
    return plan.SourcePlan({"book": options.book}, logical.Shape((line, entry), (frozenset({"line"}),)))


def _plan_sink(
    statement: ast.CreateSink,
    shape: logical.Shape,
    facts: logical.Facts,
    planning: plan.PlanningContext,
) -> plan.SinkPlan:
    options = bind(statement.options, BookOptions, owner=OWNER, span=statement.kind_span)
    common = bind(statement.with_options, SinkOptions, owner=OWNER, span=statement.kind_span)
    return plan.SinkPlan({"book": options.book}, shape.columns, common)


def _check_key(ledger: logical.Connection | physical.Connection, access: plan.OutsideAccess | Context) -> None:
    """Raise LE4001 unless the key opens the ledger."""
    key = (access.path(ledger.options["folder"]) / "key").read_text().strip()
    if key != reveal(ledger.options["api_key"], access.secret):
        raise SinkqlError(
            "LE4001", f'the key of connection "{ledger.name}" does not open its ledger', hint="Give another API KEY."
        )


class LedgerReader(stream.Reader):
    """Read a book: a row for each complete line. Offsets: `line`, the number of lines that were read."""

    def __init__(self, read: physical.Read, context: Context) -> None:
        assert read.connection is not None
        self._path = context.path(read.connection.options["folder"]) / f"{read.options['book']}.txt"

    def initial(self, *, at_end: bool) -> Offsets:
        return {"line": len(self._lines()) if at_end else 0}

    def target(self, start: Offsets) -> Offsets:
        return {"line": len(self._lines())}

    def latest(self, start: Offsets, limit: stream.Limit, until: Offsets | None = None) -> Offsets:
        end = until or self.target(start)
        return {"line": min(end["line"], start["line"] + limit.rows)}

    def splits(self, start: Offsets, end: Offsets) -> list[stream.Split]:
        return [{"from": start["line"], "to": end["line"]}]

    def size(self, splits: Sequence[stream.Split]) -> stream.Size:
        rows = sum(split["to"] - split["from"] for split in splits)
        return stream.Size(rows, rows * 100)  # about: SinkQL decides by it whether to start Spark for a batch

    def read(self, split: stream.Split, read_counts: stream.ReadCounts) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # slow, and SinkQL imports this module to read the options

        lines = self._lines()[split["from"] : split["to"]]
        read_counts.rows += len(lines)
        numbers = pa.array(range(split["from"] + 1, split["to"] + 1), pa.int64())
        yield pa.record_batch([numbers, pa.array(lines, pa.string())], names=["line", "entry"])

    def _lines(self) -> list[str]:
        return self._path.read_text().split("\n")[:-1]


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """Turn rows into the lines of a commit."""

    commit: str
    buckets: int | None = None
    key: tuple[str, ...] = ()

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        rows = [{name: row[name] for name in row if name != "$seq"} for batch in batches for row in batch.to_pylist()]
        return WriteResult(bucket, len(rows), [json.dumps(row, default=str) for row in rows])


class LedgerWriter(stream.Writer):
    """Write a book: a file for each commit, whose first line is the checkpoint. Only one run can create each file."""

    def __init__(self, write: physical.Write, context: Context) -> None:
        self._connection, self._context = write.connection, context
        self._book = context.path(write.connection.options["folder"]) / write.options["book"]
        self._claim, self._number = "", 0

    def open(self) -> None:
        _check_key(self._connection, self._context)
        self._book.mkdir(exist_ok=True)
        current = self.load_checkpoint()
        if current is not None and current.sink != self._context.sink_id:
            raise SinkqlError("SQ3507", f'another sink wrote book "{self._book.name}"', hint="Name another BOOK.")

    def load_checkpoint(self) -> Checkpoint | None:
        last = max(self._book.glob("*.jsonl"), default=None)
        self._number = int(last.stem) if last else 0
        return Checkpoint(**json.loads(last.read_text().partition("\n")[0])) if last else None

    def claim(self, request: stream.ClaimRequest) -> Checkpoint:
        current, self._claim = self.load_checkpoint(), uuid4().hex
        if request.renew is not None:
            request.renew()
        checkpoint = stream.claim_checkpoint(current, request, sink=self._context.sink_id, claim=self._claim)
        self._publish(checkpoint, [])
        return checkpoint

    def refresh(self) -> Checkpoint:
        current = self.load_checkpoint()
        if current is None or current.claim != self._claim:
            raise self._fenced()
        return current

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> stream.WriteTask:
        return LedgerTask(uuid4().hex)

    def commit(
        self, task: stream.WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint
    ) -> stream.Committed:
        lines = [line for result in results for line in result.data]
        failpoint.point("ledger-commit")
        self._publish(checkpoint, lines)
        return stream.Committed(checkpoint, self._number, len(lines), sum(map(len, lines)), files=1)

    def _publish(self, checkpoint: Checkpoint, lines: list[str]) -> None:
        """Create the file of the next commit atomically; raise SQ5101 if another run has created it."""
        text = "".join(f"{line}\n" for line in [json.dumps(asdict(checkpoint)), *lines])
        try:
            files.create_new(self._book / f"{self._number + 1:08}.jsonl", text.encode())
        except FileExistsError:
            raise self._fenced() from None
        self._number += 1

    def _fenced(self) -> FencedError:
        return FencedError("SQ5101", f'another run writes to book "{self._book.name}"', hint="Stop one of the two.")


connector = plan.Connector(
    "ledger",
    connections=(plan.ConnectionKind("LEDGER", _plan_connection, LedgerOptions, OWNER, validate=_check_key),),
    sources=(plan.SourceKind("LEDGER", _plan_source, LedgerReader, BookOptions),),
    sinks=(plan.SinkKind("LEDGER", _plan_sink, LedgerWriter, BookOptions, SinkOptions, OWNER, modes=("append",)),),
    tasks=("sinkql_ledger",),
)
