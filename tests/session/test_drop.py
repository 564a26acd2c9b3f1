"""DROP: dependent items, running sinks, and processes that are killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from session.script import NAME, PIPELINE, fails, sink_id
from sinkql import ast
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.system import LAYOUT
from sinkql.connector_api.stream import ClaimRequest, Context
from sinkql.connectors.iceberg.write.writer import IcebergWriter
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.drop import drop, sink_folder
from sinkql.statement.plan import plan_drop
from support.fault import armed
from support.patience import Deadline, ended, joined
from support.started import start

_DROP = "DROP SINK user_activity_iceberg;"


@pytest.fixture
def piped(session: Session) -> Session:
    session.execute(PIPELINE)
    sink_folder(session.catalog, sink_id(session)).mkdir(parents=True)
    return session


def _statement() -> ast.Drop:
    (statement,) = parse(_DROP)
    assert isinstance(statement, ast.Drop)
    return statement


def _open_request_log(session: Session) -> int:
    with session.catalog.database.read() as connection:
        return int(connection.scalar("SELECT count(*) FROM journal WHERE done_at IS NULL"))


def test_restrict_is_the_default_and_cascade_drops_the_rest(piped: Session) -> None:
    assert fails(piped, "DROP SOURCE n;").code == "SQ2006"
    assert fails(piped, "DROP CONNECTION lake RESTRICT;").code == "SQ2006"
    (result,) = piped.execute("DROP CONNECTION lake CASCADE;")
    assert result.names == (NAME, "materialize.public.lake")
    assert piped.execute("SHOW SINKS")[0].rows == ()
    piped.execute("DROP SOURCE n;")


def test_cluster_in_use_is_not_dropped(piped: Session) -> None:
    piped.execute(f"CREATE CLUSTER c (SIZE = 'local[1]'); {_DROP} SET cluster = c;" + PIPELINE)
    assert fails(piped, "DROP CLUSTER c;").code == "SQ2006"
    assert fails(piped, "DROP CLUSTER quickstart;").code == "SQ2007"


def test_if_exists_is_a_notice(session: Session) -> None:
    (result,) = session.execute("DROP SINK IF EXISTS nope;")
    assert (len(result.notices), result.names) == (1, ())


def test_dropped_sink_leaves_no_state_folder(piped: Session) -> None:
    folder = sink_folder(piped.catalog, sink_id(piped))
    piped.execute(_DROP)
    assert not folder.exists()
    assert _open_request_log(piped) == 0


def test_drop_of_a_running_sink_waits_for_its_runner(piped: Session) -> None:
    control, sink = piped.catalog.control, sink_id(piped)
    control.acquire(sink, owner="runner", takeover=False)
    dropping = threading.Thread(target=piped.execute, args=(_DROP,), daemon=True)
    dropping.start()
    deadline = Deadline()
    while control.desired(sink) != "dropped":
        assert dropping.is_alive()
        deadline.check("the request to drop the sink")
    assert Session().sinks() == (NAME,)
    control.release(sink, owner="runner")
    joined(dropping)
    assert Session().sinks() == ()


def test_drop_that_waits_too_long_leaves_the_sink_as_it_was(piped: Session) -> None:
    control, sink = piped.catalog.control, sink_id(piped)
    control.set_desired(sink, "stopped")
    control.acquire(sink, owner="runner", takeover=False)
    with pytest.raises(SinkqlError) as raised:
        drop(plan_drop(_statement(), piped.catalog), piped.catalog, wait_seconds=0)
    assert (raised.value.code, control.desired(sink), _open_request_log(piped)) == ("SQ5204", "stopped", 0)
    assert f"(pid {os.getpid()} on " in raised.value.message
    control.renew(sink, owner="runner")


def _killed_drop(folder: Path, point: str) -> None:
    os.chdir(folder)
    os.environ.update(armed(f"{point}=kill"))
    Session().execute(_DROP)


@pytest.mark.parametrize("point", ["drop-wished", "drop-removed"])
def test_drop_of_a_killed_process_is_finished_by_the_next(piped: Session, folder: Path, point: str) -> None:
    state = sink_folder(piped.catalog, sink_id(piped))
    child = start(_killed_drop, folder, point)
    assert ended(child) == [-signal.SIGKILL]
    assert state.exists()
    assert _open_request_log(piped) == 1
    again = Session()
    assert again.sinks() == ()
    assert _open_request_log(again) == 0
    assert not state.exists()


def test_drop_of_a_killed_process_waits_while_the_sink_runs(piped: Session, folder: Path) -> None:
    sink = sink_id(piped)
    # The runner starts after the drop's request is stored, so that the drop is killed while it waits.
    control = Control(Database(piped.catalog.database.folder / "catalog.db", LAYOUT))
    control.acquire(sink, owner="runner", takeover=False)
    child = start(_killed_drop, folder, "drop-wished")
    assert ended(child) == [-signal.SIGKILL]
    assert Session().sinks() == (NAME,)
    assert control.desired(sink) == "dropped"
    control.release(sink, owner="runner")
    # The session above took over the drop without finishing it, and belongs to this process.
    _disown(piped)
    assert Session().sinks() == ()


def _killed_drop_of(session: Session, name: str) -> None:
    """Leave the intent log of a process that was killed while it dropped a table."""
    entry = session.catalog.plans.entry(name)
    assert entry is not None
    tables = [entry.facts["table_id"]]
    session.catalog.intent_log.begin(
        "drop", {"names": [name], "ids": [entry.id], "sinks": {}, "tables": tables, "captured": [], "wishes": {}}
    )
    _disown(session)


def test_unfinished_drop_of_what_others_came_to_use_is_given_up(session: Session) -> None:
    session.execute("CREATE TABLE t (a integer); INSERT INTO t VALUES (1)")
    _killed_drop_of(session, "materialize.public.t")
    session.execute("CREATE VIEW v AS SELECT a FROM t")
    again = Session()
    assert again.execute("SELECT * FROM v")[0].rows == ((1,),)
    assert _open_request_log(again) == 0


def test_unfinished_drop_goes_by_ids_whatever_has_the_name_now(session: Session) -> None:
    session.execute("CREATE TABLE t (a integer)")
    _killed_drop_of(session, "materialize.public.t")
    session.execute("ALTER TABLE t RENAME TO old; CREATE TABLE t (b integer); INSERT INTO t VALUES (5)")
    again = Session()
    assert again.execute("SHOW TABLES")[0].rows == (("t", ""),)
    assert again.execute("SELECT * FROM t")[0].rows == ((5,),)
    assert _open_request_log(again) == 0


def _disown(session: Session) -> None:
    """Change the owner of the stored intents to a process that has ended."""
    with session.catalog.database.write() as connection:
        connection.execute("UPDATE journal SET process = 'another start'")


def test_a_drop_ends_the_lease_and_takes_the_tag_of_the_table_along(session: Session) -> None:
    session.execute(PIPELINE)
    id_ = sink_id(session)
    control = session.catalog.control
    epoch = control.acquire(id_, owner="run", takeover=False)
    (job,) = session.jobs([NAME])
    access = CatalogAccess(session.catalog)
    context = Context(NAME, id_, sink_folder(session.catalog, id_), access.secret, access.job_store)
    writer = session.catalog.registry.writer(job.write, context)
    writer.open()
    writer.claim(ClaimRequest({}, epoch=epoch))
    control.release(id_, owner="run")
    assert isinstance(writer, IcebergWriter)
    target = writer.table.target
    assert [name for name in target.load().metadata.refs if name.startswith("sinkql_")]
    (result,) = session.execute(_DROP)
    assert result.notices == ()
    assert not control.is_held(id_)
    assert set(target.load().metadata.refs) == {"main"}
