"""A progress meter reports a sink's position to the catalog and its initial snapshot to users, without repetition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from sinkql.connector_api.stream import FirstSnapshot, Limit, Measure, Offsets, ReadCounts, Reader, Split
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import Event, SinkSnapshotting
from sinkql.runtime.batch.metrics import ProgressMeter
from support.running import MemoryControl


@dataclass
class _Reader(Reader):
    """A source with a configurable measure."""

    says: Measure | SinkqlError = field(default_factory=Measure)
    asked: int = 0

    def initial(self, *, at_end: bool) -> Offsets:
        raise NotImplementedError

    def target(self, start: Offsets) -> Offsets:
        raise NotImplementedError

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        raise NotImplementedError

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        raise NotImplementedError

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def measure(self, offsets: Offsets) -> Measure:
        self.asked += 1
        if isinstance(self.says, SinkqlError):
            raise self.says
        return self.says

    def lag(self, offsets: Offsets) -> float:
        return 12.34


@dataclass
class _Metered:
    """A progress meter, its clock, and the events it emitted."""

    now: float = 0.0
    told: list[Event] = field(default_factory=list)
    control: MemoryControl = field(default_factory=MemoryControl)

    def __post_init__(self) -> None:
        self.meter = ProgressMeter("id", self.control, self.told.append, lambda: self.now)

    def look(self, seconds: float, *, waits: bool = False, last: bool = False, **readers: Reader) -> None:
        self.now += seconds
        self.meter.sample("s", readers, {name: {} for name in readers}, waits=waits, last=last)


def test_sink_is_measured_now_and_then_and_at_its_end() -> None:
    metered, reader = _Metered(), _Reader(Measure(5, 3, "rows"))
    for _ in range(10):
        metered.look(1.0, n=reader)
    assert reader.asked == 2
    assert metered.control.figures == {"id": {"n": {"known": 5, "committed": 3, "unit": "rows"}}}
    reader.says = Measure(5, 5, "rows")
    metered.look(0.1, last=True, n=reader)
    assert metered.control.figures["id"]["n"]["committed"] == 5
    assert not metered.told


def test_first_snapshot_is_told_each_second_and_its_end_at_once() -> None:
    metered = _Metered()
    one, two = _Reader(), _Reader(Measure(snapshot=FirstSnapshot(10, 10, 1, 1, done=True)))
    seen = []
    for rows in (0, 40, 40, 100):
        one.says = Measure(snapshot=FirstSnapshot(rows, 100, rows // 10, 10, rows == 100, seconds_left=7.0))
        metered.look(1.0, one=one, two=two)
        seen.append(metered.control.figures["id"]["one"]["rows"])
    snapshots = [each.snapshot for each in metered.told if isinstance(each, SinkSnapshotting)]
    assert [(each.rows, each.of_rows, each.chunks, each.of_chunks, each.done) for each in snapshots] == [
        (10, 110, 1, 11, False), (50, 110, 5, 11, False), (110, 110, 11, 11, True),
    ]  # fmt: skip
    assert [each.seconds_left for each in snapshots] == [7.0, 7.0, None]
    assert seen == [0, 0, 0, 100]


def test_source_that_does_not_answer_hides_no_other() -> None:
    metered = _Metered()
    metered.look(1.0, waits=True, a=_Reader(SinkqlError("SQ4277", "no answer")), b=_Reader(Measure(2, 1, "files")))
    assert metered.control.figures["id"] == {"b": {"known": 2, "committed": 1, "unit": "files", "lag": 12.3}}
