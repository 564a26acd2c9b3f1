"""Sinks running in a real Spark session: the contents of their tables, and how each sink ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from sinkql import physical
from sinkql.connector_api import requests
from sinkql.connector_api.registry import discover
from sinkql.errors import LateError
from sinkql.logical import Reference, Type
from sinkql.logical.function import SINGLE, call
from sinkql.logical.type import parse_type
from sinkql.runtime.batch.events import Event, SinkCommitted, SinkStalled
from sinkql.runtime.batch.maintenance import TableMaintenance
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.runtime.sink.workload import Workload
from support.command import ONLY_LATE
from support.patience import PATIENCE_S, joined
from support.readers import duckdb_folder
from support.running import FixedWorkload, MemoryControl, contexts, counter, csv_files, job, output, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sinkql.runtime.sink.host import SinkOutcome

pytestmark = pytest.mark.spark

TEXT = "CREATE VIEW v AS SELECT 100 / (counter - 77) AS q FROM c"
BIGINT = "bigint"


def run_sinks(
    spark: SparkSession,
    jobs: Sequence[physical.Job],
    folder: Path,
    *,
    control: MemoryControl | None = None,
    once: bool = True,
    takeover: bool = False,
    tell: Callable[[Event], None] = lambda event: None,
    workload: Workload | None = None,
) -> list[SinkOutcome]:
    from sinkql.runtime.sink.host import SharedSpark, SinkHost
    from sinkql.runtime.sink.runner import SinkRunner

    workload = workload or FixedWorkload(jobs)
    host = SinkHost(
        SharedSpark(lambda: spark, 2, folder / f"lanes-{uuid4().hex}", most_workers=2),
        discover(),
        control or MemoryControl(),
        tell,
        workload,
        lambda each: contexts(folder, each),
        once=once,
    )
    runs = [SinkRunner(host, work, takeover=takeover) for work in workload.now()]
    try:
        with ThreadPoolExecutor(len(runs)) as threads:
            return list(threads.map(lambda each: each.run(), runs))
    finally:
        host.scheduler.close()


def endings(outcomes: Sequence[SinkOutcome]) -> list[tuple[str, str | None]]:
    return [(outcome.ending, outcome.error.code if outcome.error else None) for outcome in outcomes]


def aggregate(read: physical.Read, arrangement: str = "a1") -> physical.Aggregate:
    """Return `SELECT counter % 7, count(*), sum(counter), count(DISTINCT …), max(counter) GROUP BY 1`."""
    inner = physical.Map(read, (output("g", "`counter` % 7"), output("v", "`counter`"), output("w", "`counter` % 5")))
    calls = (
        physical.AggregateCall("n", "count", None, False, parse_type(BIGINT)),
        physical.AggregateCall("s", "sum", "v", False, parse_type("numeric(38,0)")),
        physical.AggregateCall("d", "count", "w", True, parse_type(BIGINT)),
        physical.AggregateCall("m", "max", "v", False, parse_type(BIGINT)),
    )
    return physical.Aggregate(inner, arrangement, (physical.Column("g", parse_type(BIGINT)),), calls, read.change)


def expected_groups(numbers: range) -> list[tuple[int, ...]]:
    groups = ([number for number in numbers if number % 7 == group] for group in range(7))
    return [
        (group, len(each), sum(each), len({number % 5 for number in each}), max(each))
        for group, each in enumerate(groups)
    ]


def test_sinks_of_one_cluster_run_at_once_and_each_table_is_right(spark: SparkSession, tmp_path: Path) -> None:
    renamed = physical.Map(counter("c3", up_to=40), (output("n", "`counter`"),))
    odd = physical.Map(
        counter("c4", up_to=40), (output("n", "-`counter`"),), output("w", "`counter` % 2 = 1", "boolean")
    )
    latest = physical.Map(counter("c5", up_to=1000), (output("k", "`counter` % 10"), output("v", "`counter`")))
    jobs = [
        job(aggregate(counter("c1", up_to=1000)), tmp_path, table="grouped", key=("g",), max_rows=300),
        job(aggregate(counter("c2", up_to=1000, cardinality=50)), tmp_path, table="going", key=("g",), max_rows=600),
        job(physical.Union((renamed, odd)), tmp_path, table="both"),
        job(latest, tmp_path, table="latest", key=("k",), max_rows=300),
    ]
    assert endings(run_sinks(spark, jobs, tmp_path)) == [("caught up", None)] * 4
    assert expected_groups(range(1, 1001)) == rows(tmp_path, "grouped")
    assert expected_groups(range(951, 1001)) == rows(tmp_path, "going")
    assert sorted([(n,) for n in range(1, 41)] + [(-n,) for n in range(1, 41, 2)]) == rows(tmp_path, "both")
    assert sorted((n % 10, n) for n in range(991, 1001)) == rows(tmp_path, "latest")


def test_a_promised_key_shows_one_of_its_rows_and_tells_that_there_are_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    control = MemoryControl()
    moving = physical.Map(
        counter(up_to=1000, cardinality=50), (output("k", "`counter` % 45"), output("v", "`counter`"))
    )
    each = job(physical.Pick(moving, "a1", ("k",)), tmp_path, key=("k",), max_rows=300)
    assert endings(run_sinks(spark, [each], tmp_path, control=control)) == [("caught up", None)]
    assert len(control.commits) > 5
    found = rows(tmp_path)
    assert [k for k, _ in found] == list(range(45))
    assert [(k, v) for k, v in found if v % 45 != k or not 951 <= v <= 1000] == []
    assert control.details == {each.sink_id: {"conflicting_keys": 5}}


def test_an_append_sink_runs_fused_and_in_batches(spark: SparkSession, tmp_path: Path) -> None:
    events: list[Event] = []
    each = job(counter(up_to=2500), tmp_path, max_rows=1000)
    assert endings(run_sinks(spark, [each], tmp_path, tell=events.append)) == [("caught up", None)]
    assert [(n,) for n in range(1, 2501)] == rows(tmp_path)
    assert [event.rows for event in events if isinstance(event, SinkCommitted)] == [1000, 1000, 500]


def test_records_that_do_not_decode_are_kept_by_the_tasks_that_read_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(f"id\n{number}\nx{number}\n")
    read = csv_files(tmp_path)
    tuning = {**read.options["tuning"], "on_error": "dead letter"}
    read = msgspec.structs.replace(read, options={**read.options, "tuning": tuning})
    each = job(physical.Map(read, (), output("", "`id` > 0", "boolean")), tmp_path)
    assert endings(run_sinks(spark, [each], tmp_path)) == [("caught up", None)]
    assert rows(tmp_path) == [(1,), (2,)]
    letters = duckdb_folder(tmp_path / "lake" / "n" / "t__errors", "position, raw")
    assert letters == [(f"{number}.csv:3", f"x{number}".encode()) for number in range(3)]


@pytest.mark.parametrize("count", [3, 1100])
def test_records_that_were_corrected_are_put_in_by_tasks(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """A few records are replayed in the driver, more by Spark, through the sink's own operators."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n7\n" + "".join(f"x{number}\n" for number in range(count)))
    read = csv_files(tmp_path)
    tuning = {**read.options["tuning"], "on_error": "dead letter"}
    read = msgspec.structs.replace(read, options={**read.options, "tuning": tuning})
    each = job(physical.Map(read, (), output("", "`id` > 0", "boolean")), tmp_path)
    assert endings(run_sinks(spark, [each], tmp_path)) == [("caught up", None)]
    assert rows(tmp_path) == [(7,)]
    lake = f"file://{tmp_path}/lake"
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=lake)
    table = catalog.load_table("n.t__errors")
    kept = table.scan().to_arrow()
    place = kept.schema.get_field_index("raw")
    raw = pa.array([value.removeprefix(b"x") for value in kept.column("raw").to_pylist()], kept.field(place).type)
    table.overwrite(kept.set_column(place, kept.field(place), raw))
    notes = contexts(tmp_path, each).notes
    asked = requests.request_replay(notes, read.source)
    assert endings(run_sinks(spark, [each], tmp_path)) == [("caught up", None)]
    answer = requests.replay_result(notes, read.source, asked)
    assert answer is not None
    assert (answer.replayed, answer.left, answer.error) == (count, 0, None)
    assert rows(tmp_path) == sorted([(7,), *((number,) for number in range(1, count))])


def test_no_sink_ends_because_it_cannot_tell_how_far_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **more: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(ProgressMeter, "sample", fails)
    each = job(counter(up_to=3, rows_per_second=None), tmp_path)
    assert endings(run_sinks(spark, [each], tmp_path)) == [("caught up", None)]
    assert len(rows(tmp_path)) == 3


def test_a_running_sink_compacts_its_table_when_asked_to_and_keeps_its_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = threading.Event()
    monkeypatch.setattr(TableMaintenance, "maintain", lambda maintenance, before, targets: None)
    monkeypatch.setattr(TableMaintenance, "refresh_files", lambda maintenance: kept.set())
    control = MemoryControl()
    each = job(counter(rows_per_second=20), tmp_path)

    def ask(event: Event) -> None:
        if isinstance(event, SinkCommitted) and len(control.commits) == 2:
            control.asking[each.sink_id] = 1

    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(run_sinks, spark, [each], tmp_path, control=control, once=False, tell=ask)
        assert control.optimized_once.wait(PATIENCE_S)
        assert kept.wait(PATIENCE_S)
        control.wanted[each.sink_id] = "stopped"
        assert endings(run.result()) == [("stopped", None)]
    assert control.begun == [1]
    assert control.outcomes[1].files_before > control.outcomes[1].files_after
    found = rows(tmp_path)
    assert [(n,) for n in range(1, len(found) + 1)] == found


def test_rows_that_a_constant_filter_drops_are_read_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    control, events = MemoryControl(), list[Event]()
    none = physical.Map(counter(up_to=40), (output("n", "`counter`"),), output("w", "false", "boolean"))
    run_sinks(spark, [job(none, tmp_path)], tmp_path, control=control, tell=events.append)
    assert [(event.rows, event.read) for event in events if isinstance(event, SinkCommitted)] == [(0, 40)]
    assert rows(tmp_path) == []


def test_an_expression_that_fails_is_told_with_its_place_and_a_row(spark: SparkSession, tmp_path: Path) -> None:
    at = TEXT.index("100")
    origin = physical.Origin("materialize.public.v", at, at + len("100 / (counter - 77)"))
    guarded = output("w", "`counter` <> 33", "boolean")
    body = physical.Map(
        physical.Map(
            counter(up_to=200), (output("counter", "`counter`"), output("r", "1 % (`counter` - 33)")), guarded
        ),
        (output("q", "CAST(100 / (`counter` - 77) AS BIGINT)", origin=origin),),
    )
    control = MemoryControl()
    each = job(body, tmp_path, texts={"materialize.public.v": TEXT})
    fine = job(counter("other", up_to=10), tmp_path, table="fine")
    number = Reference("counter", Type(BIGINT))
    value = call("+(bigint,bigint)", (call(SINGLE, (number, number), type_=number.type), number))
    several = job(physical.Map(counter("third", up_to=10), (physical.Output("q", value),)), tmp_path, table="several")
    failed, caught_up, second = run_sinks(spark, [each, fine, several], tmp_path, control=control)
    assert endings([failed, caught_up, second]) == [("failed", "SQ3201"), ("caught up", None), ("failed", "SQ3212")]
    assert second.error is not None
    assert second.error.detail == 'it fails on the row {"counter": 2}'
    error = failed.error
    assert error is not None
    assert error.span is not None
    assert (error.message, TEXT[error.span.start : error.span.end]) == ("division by zero", "100 / (counter - 77)")
    assert error.detail is not None
    assert '"counter": 77' in error.detail
    assert ("id-t", "failed", "SQ3201: division by zero") in control.statuses
    assert failed.exit_code == 3


def test_an_error_in_a_task_comes_back_as_itself(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\nmany\n")
    doubled = physical.Map(csv_files(tmp_path), (output("id", "`id` * 2"),))
    jobs = [job(csv_files(tmp_path), tmp_path), job(doubled, tmp_path, table="u")]
    outcomes = run_sinks(spark, jobs, tmp_path)
    assert [outcome.error.code[:4] if outcome.error else None for outcome in outcomes] == ["SQ31", "SQ31"]
    assert rows(tmp_path) == []


def test_a_sink_stops_when_it_is_told_and_continues_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    control = MemoryControl()
    each = job(counter(rows_per_second=100_000), tmp_path)

    def stop(event: Event) -> None:
        if isinstance(event, SinkCommitted):
            control.wanted[each.sink_id] = "stopped"

    for _ in range(2):
        control.wanted.clear()
        assert endings(run_sinks(spark, [each], tmp_path, control=control, once=False, tell=stop)) == [
            ("stopped", None)
        ]
        assert control.owners == {}
    found = rows(tmp_path)
    assert [(n,) for n in range(1, len(found) + 1)] == found
    assert len(found) == sum(commit["rows"] for commit in control.commits)


def test_what_does_not_answer_for_a_while_is_waited_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sinkql.runtime.sink import life

    monkeypatch.setattr(life, "_FIRST_WAIT", 0.01)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n")
    control = MemoryControl()
    each = job(csv_files(tmp_path), tmp_path)
    stalls: list[str] = []

    def tell(event: Event) -> None:
        match event:
            case SinkStalled(error=LateError()):
                pass  # the machine is overloaded
            case SinkStalled():
                stalls.append(event.error.code)
                (tmp_path / "out").rename(tmp_path / "in")
            case SinkCommitted() if not stalls:
                (tmp_path / "in").rename(tmp_path / "out")
                (tmp_path / "out" / "b.csv").write_text("id\n2\n")
            case SinkCommitted():
                control.wanted[each.sink_id] = "stopped"
            case _:
                pass

    assert endings(run_sinks(spark, [each], tmp_path, control=control, once=False, tell=tell)) == [("stopped", None)]
    assert stalls == ["SQ3304"]
    assert rows(tmp_path) == [(1,), (2,)]
    statuses = (status for _, status, error in control.statuses if not (error or "").startswith(ONLY_LATE))
    assert [status for status, _ in groupby(statuses)] == ["starting", "running", "stalled", "running", "stopped"]


def test_a_sink_that_was_taken_over_is_fenced_and_writes_nothing_after(spark: SparkSession, tmp_path: Path) -> None:
    control = MemoryControl()
    each = job(counter(rows_per_second=1000), tmp_path)
    outcomes: list[SinkOutcome] = []

    def first() -> None:
        outcomes.extend(run_sinks(spark, [each], tmp_path, control=control, once=False))

    older = threading.Thread(target=first, daemon=True)
    older.start()
    assert control.committed_once.wait(PATIENCE_S)
    assert endings(run_sinks(spark, [each], tmp_path, control=control, once=False)) == [("failed", "SQ5201")]

    def stop(event: Event) -> None:
        if isinstance(event, SinkCommitted):
            joined(older)
            control.wanted[each.sink_id] = "stopped"

    newer = run_sinks(spark, [each], tmp_path, control=control, once=False, takeover=True, tell=stop)
    assert endings(outcomes) == [("fenced", "SQ5101")]
    assert endings(newer) == [("stopped", None)]
    assert outcomes[0].exit_code == 5
    found = rows(tmp_path)
    assert [(n,) for n in range(1, len(found) + 1)] == found


def test_an_endless_source_is_refused_by_a_run_that_is_to_end(spark: SparkSession, tmp_path: Path) -> None:
    assert endings(run_sinks(spark, [job(counter(), tmp_path)], tmp_path)) == [("failed", "SQ2405")]
