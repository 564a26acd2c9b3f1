"""A query folder → the start and end offsets of each batch, as Spark's one streaming source of all jobs.

It runs in a Python process of its own, which shares nothing with the driver but the query folder: job.json, written
once, and the orders, which are read at each poll. What goes wrong in it comes back as a file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.types import StructType

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.explain.word import without_literals
from sinkql.extension.registry import Registry, discover
from sinkql.extension.stream import Context, JobOffsets
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.pacing import Looking, Orders, Pacer, give, take
from sinkql.runtime.spark.asking import Asking, asked

FORMAT = "sinkql_splits"
READY = "ready"
"""A file that says that a query folder's source has its process; its text is the process id."""
_LOOK_SECONDS = 0.05
_WAIT_SECONDS = 2.0


class JobFolders(msgspec.Struct, frozen=True):
    """Where a job's parts find their things: the content of `place.json` of a query folder."""

    sink: str
    sink_id: str
    folder: str


class SplitSource(DataSource):  # type: ignore[misc]  # pyspark is not followed by the type checker
    """Offer batches of a job. The one option, `folder`, is the query folder."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the schema: one row a batch, offsets of all sources as JSON."""
        return "start STRING, end STRING, more BOOLEAN"

    def streamReader(self, schema: StructType) -> _SimpleStreamReaderWrapper:  # noqa: N802  # Spark's name
        """Return the reader that keeps only batches that were offered."""
        return _Offers(_Splits(Path(self.options["folder"])))


class _Offers(_SimpleStreamReaderWrapper):  # type: ignore[misc]  # as above
    """Forget polls that found nothing: the wrapper of Spark 4.0.1 keeps an entry for each until a commit."""

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        end: dict[str, Any] = super().latestOffset()
        if self.cache and self.cache[-1].start == end:
            self.cache.pop()
        return end


class _Splits(SimpleDataSourceStreamReader):  # type: ignore[misc]  # as above
    """Look for new input in the source's process; Spark makes one in another process for each batch, to no end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def pacer(self) -> Pacer:
        """Return what reads the sources; only the source's process asks."""
        return Pacer(open_readers(self.folder))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        (self.folder / READY).write_text(str(os.getpid()))  # only the source's process is asked for it
        return dict(take(self.folder).begin)

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        try:
            end = self._wait(start)
        except Exception as error:
            failure.leave(self.folder, "source", error)
            raise
        if end == start:
            return iter(()), start
        return iter([_row(start, end, more=self.pacer.cut)]), dict(end)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802  # Spark's name
        return iter([_row(start, end, more=False)])

    def _wait(self, start: JobOffsets) -> JobOffsets:
        """Wait here for what is due: each return to Spark costs more than a look at the orders."""
        waited_until = time.monotonic() + _WAIT_SECONDS
        while True:
            orders = take(self.folder)
            if orders.stop:
                return start
            now_ms = time.time_ns() // 1_000_000
            if self.pacer.due(orders, now_ms):
                end = self.pacer.offer(start, orders, now_ms)
                if end != start or orders.targets is not None:
                    return end
            if time.monotonic() > waited_until:
                return start
            time.sleep(min(_LOOK_SECONDS, max(0.002, self.pacer.left_ms(orders, now_ms) / 1000)))


def _row(start: JobOffsets, end: JobOffsets, *, more: bool) -> tuple[Any, ...]:
    return json.dumps(start), json.dumps(end), more


def open_readers(folder: Path, registry: Registry | None = None) -> Mapping[str, Looking]:
    """Return what looks for new input of the job whose query folder this is, by source; secrets are not to be had here.

    Sources behind connections are asked for in the driver, which has them.
    """
    place = msgspec.json.decode((folder / "place.json").read_bytes(), type=JobFolders)
    job = physical.decode((folder / "job.json").read_bytes())
    context = Context(place.sink, place.sink_id, Path(place.folder), _no_secret)
    found = registry or discover()
    return {
        read.source: Asking(folder, read.source) if asked(read) else found.reader(read, context) for read in job.reads()
    }


def _no_secret(name: str) -> str:
    raise SinkqlError("SQ3392", f'secret "{name}" is not available to the process that looks for new input')


def lay_out(folder: Path, job: physical.Job, context: Context, orders: Orders) -> None:
    """Write what the source's process needs into a new query folder; no literal of a secret is in it."""
    folder.mkdir(parents=True, mode=0o700)
    (folder / "job.json").write_bytes(msgspec.json.encode(without_literals(physical.to_data(job))))
    place = JobFolders(context.sink, context.sink_id, str(context.folder))
    (folder / "place.json").write_bytes(msgspec.json.encode(place))
    give(folder, orders)
