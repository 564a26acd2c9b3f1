"""Sources that are captured: the capture directory, requests to captures, and the effects of dropping a source."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from capture.server import COLUMNS, FakeStream, Server, table
from sinkql import ast, logical
from sinkql.capture import messages, open_reader
from sinkql.capture.control import CaptureProgress
from sinkql.connector_api.cdc import CapturedSource, LogRetention, Reveal, source_options, table_options
from sinkql.connector_api.planning import PlanningContext, SourceKind, SourcePlan
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import SinkqlError, as_data
from sinkql.runtime.process.capture_processes import CaptureAssignment, captures_running
from sinkql.session.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from support.patience import Deadline

_SQL = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM FAKE FOR ALL TABLES;
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
CREATE SINK b FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


def _plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    source = source_options(facts.get("source_id"), planning.catalog.locate(statement.name), {}, LogRetention())
    columns = tuple(logical.Column(each.name, each.type, each.nullable) for each in COLUMNS)
    shape = logical.Shape(columns, (frozenset({"id"}),), logical.Change.UPSERT)
    tables = (logical.SourceTable(("public", "t"), table_options(source, table("t")), shape),)
    return SourcePlan(source, logical.Shape(()), tables)


@pytest.fixture
def forgotten() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, forgotten: list[str]) -> Iterator[Session]:
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", 1, "one")])

    def stream(source: CapturedSource, secret: Reveal) -> FakeStream:
        return FakeStream(server)

    def forget(source: CapturedSource, secret: Reveal) -> None:
        if forgotten:
            raise SinkqlError("SQ4011", "no answer")
        forgotten.append(source.name)

    registry: Registry = discover()
    registry.sources["FAKE"] = SourceKind("FAKE", _plan, open_reader, stream=stream, forget=forget)
    with Session(tmp_path / "catalog.db", registry=registry) as opened:
        opened.execute(_SQL.format(folder=tmp_path))
        yield opened


def _capture_directory(session: Session) -> CatalogCaptureDirectory:
    return CatalogCaptureDirectory(
        session.catalog, CatalogWorkload(session.catalog, every_seconds=0.0), session.access.secret
    )


def test_source_is_captured_for_all_its_sinks_while_one_is_to_run(session: Session) -> None:
    capture_directory = _capture_directory(session)
    session.stop("a")
    (capturing,) = capture_directory.captures()
    host = capture_directory.host(capturing.source)
    assert [each.table.id for each in host.subscribed_sinks()] == ["t", "t"]
    session.stop("b")
    assert not capture_directory.captures()
    assert len(host.subscribed_sinks()) == 2


def test_lease_is_one_captures_alone_and_its_status_is_the_sources(session: Session) -> None:
    capture_directory = _capture_directory(session)
    source = capture_directory.captures()[0].source
    first, second = capture_directory.host(source), capture_directory.host(source)
    assert (first.acquire(), second.acquire()) == (1, None)
    first.report(CaptureProgress("stalled", SinkqlError("SQ3431", "no answer"), {"log_bytes": 5}))
    query = "SELECT status, error FROM mz_internal.mz_source_statuses WHERE name = 's'"
    assert list(session.execute(query)[0].rows) == [("stalled", "SQ3431: no answer")]
    first.release()
    assert list(session.execute(query)[0].rows) == [("created", None)]
    assert second.acquire() == 2


def test_each_sink_is_as_far_behind_as_its_source_s_capture_says(session: Session) -> None:
    capture_directory = _capture_directory(session)
    host = capture_directory.host(capture_directory.captures()[0].source)
    assert host.acquire() == 1
    ids = {name: session.jobs([name])[0].sink_id for name in ("a", "b")}
    far = {ids["a"]: 5 << 20, ids["b"]: (1 << 20) + 17}
    known = {"unit": "bytes", "offset_known": 5 << 20, "offset_committed": (1 << 20) + 17, "retained_bytes": 9 << 20}
    host.report(CaptureProgress("running", None, {**known, "log_bytes": 2048, "kept_by": "server", "sinks": far}))
    query = "SELECT k.name, p.behind, p.unit FROM mz_internal.mz_sink_progress AS p JOIN mz_sinks AS k ON k.id = p.id"
    assert sorted(session.execute(query)[0].rows) == [("a", 0, "bytes"), ("b", 4194287, "bytes")]
    columns, rows = session.status()
    assert [(row[0], row[columns.index("behind")]) for row in rows] == [("a", "0 bytes"), ("b", "4194287 bytes")]
    columns, rows = session.source_status(["a"])
    assert [dict(zip(columns, row, strict=True)) for row in rows] == [
        {"source": "s", "status": "created", "behind": "4194287 bytes", "lag_seconds": None, "error": None,
         "retained": "9437184 bytes", "log": "2048 bytes", "kept_by": "server"},
    ]  # fmt: skip
    ((details,),) = session.execute("SELECT details FROM mz_internal.mz_source_statuses WHERE name = 's'")[0].rows
    assert "sinks" not in str(details)


def test_capture_is_a_process_that_comes_again_and_ends_with_the_last_sink(session: Session) -> None:
    capture_directory = _capture_directory(session)
    source = capture_directory.captures()[0].source
    control = session.catalog.control
    log = capture_directory.folder(capture_directory.captures()[0])
    with captures_running(capture_directory):
        deadline = Deadline()
        pids = set()
        for _ in range(2):
            while (holder := control.holder(source.id)) is None or holder.process.pid in pids or not log.numbers():
                deadline.check("a capture")
            pids.add(holder.process.pid)
            os.kill(holder.process.pid, 9)
        session.stop("a", "b")
        while control.holder(source.id) is not None:
            deadline.check("the end of the capture")
    assert os.getpid() not in pids


def test_captures_continue_after_a_failure_that_nobody_foresaw(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken(CatalogCaptureDirectory):
        def captures(self) -> Sequence[CaptureAssignment]:
            if broken.is_set():
                raise RuntimeError("unforeseen")
            return super().captures()

    broken = multiprocessing.get_context("fork").Event()
    capture_directory = Broken(
        session.catalog, CatalogWorkload(session.catalog, every_seconds=0.0), session.access.secret
    )
    source = capture_directory.captures()[0].source
    control, log, deadline = (
        session.catalog.control,
        capture_directory.folder(capture_directory.captures()[0]),
        Deadline(),
    )
    with captures_running(capture_directory):
        while (holder := control.holder(source.id)) is None or not log.numbers():
            deadline.check("a capture")
        broken.set()
        said = ""
        while "unforeseen" not in said:
            said += capfd.readouterr().err
            deadline.check("the failure")
        os.kill(holder.process.pid, 9)
        broken.clear()
        while (now := control.holder(source.id)) is None or now.process.pid == holder.process.pid:
            deadline.check("another capture")


def test_process_that_keeps_captures_comes_again(session: Session) -> None:
    capture_directory = _capture_directory(session)
    source = capture_directory.captures()[0].source
    control, log, deadline = (
        session.catalog.control,
        capture_directory.folder(capture_directory.captures()[0]),
        Deadline(),
    )
    with captures_running(capture_directory) as captures:
        while (holder := control.holder(source.id)) is None or not log.numbers():
            deadline.check("a capture")
        keeper = captures._keeper
        assert keeper is not None
        keeper.kill()
        while (now := control.holder(source.id)) is None or now.process.pid == holder.process.pid:
            captures.look()
            deadline.check("another capture")


def test_loss_that_a_capture_reports_is_skipped_and_no_other(session: Session) -> None:
    (capturing,) = _capture_directory(session).captures()
    notes = _capture_directory(session).folder(capturing).messages
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2354"]
    messages.send(
        notes,
        "word",
        messages.CaptureStatus(
            1, 0.0, trouble=messages.CaptureError(as_data(SinkqlError("SQ4011", "no answer")), 0.0, 0.0)
        ),
    )
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2354"]
    assert notes.read("skip") is None
    messages.send(
        notes,
        "word",
        messages.CaptureStatus(
            1, 0.0, trouble=messages.CaptureError(as_data(SinkqlError("SQ3436", "the log is lost")), 0.0, 0.0)
        ),
    )
    (notice,) = session.execute("ALTER SOURCE s SKIP;")[0].notices
    assert (notice.code, notice.message) == ("SQ2353", "skipped: the log is lost")
    assert messages.receive(notes, "skip", messages.LossAcceptance) == messages.LossAcceptance("SQ3436")


def test_loss_that_a_sink_reports_is_skipped_for_it_alone(session: Session) -> None:
    (capturing,) = _capture_directory(session).captures()
    notes = _capture_directory(session).folder(capturing).messages
    job = next(each for each in session.jobs() if each.sink.endswith(".a"))
    session.catalog.control.status(job.sink_id, "failed", error="SQ3434: it is gone")
    session.stop("a")
    (notice,) = session.execute("ALTER SOURCE s SKIP;")[0].notices
    assert notice.message == "skipped: it is gone"
    (read,) = job.reads()
    assert notes.names("skip") == [messages.reader_name(job.sink_id, read.options["table"]["id"])]
    assert session.catalog.control.desired(job.sink_id) == "running"


def test_dropped_source_leaves_nothing(session: Session, forgotten: list[str]) -> None:
    capture_directory = _capture_directory(session)
    log = capture_directory.folder(capture_directory.captures()[0])
    log.folder.mkdir(parents=True)
    session.execute("DROP SOURCE s CASCADE;")
    assert forgotten == ["materialize.public.s"]
    assert not log.folder.exists()


def test_what_a_server_keeps_of_a_dropped_source_is_told(session: Session, forgotten: list[str]) -> None:
    forgotten.append("before")
    (done,) = session.execute("BEGIN; DROP SINK a; DROP SOURCE s CASCADE; COMMIT;")[-1:]
    assert [each.code for each in done.notices] == ["SQ4309"]
    assert not session.sinks()
