"""`DROP SINK … WITH TABLE` drops the table only if the sink created it, it has no rows, and nothing else uses it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from sinkql.connector_api.stream import ClaimRequest, Context
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from sinkql.session.item.connector_access import CatalogAccess
from support.dropping import check_dropping
from support.lake import Lake

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT counter FROM n;
CREATE SINK k FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '10s');
"""
_SAME_LAKE = """
CREATE CONNECTION pond TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);
"""
_OTHER = _SAME_LAKE + _SCRIPT[_SCRIPT.index("CREATE SINK") :].replace("SINK k", "SINK l").replace(
    "CONNECTION lake", "CONNECTION pond"
)
_NAME = "materialize.public.k"
_DROP = "DROP SINK k WITH TABLE;"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session() as opened:
        opened.execute(_SCRIPT)
        yield opened


def _claimed(session: Session, name: str = _NAME) -> None:
    """Create and claim the sink's table without writing rows, like a start of the sink."""
    (job,) = session.jobs([name])
    control, access = session.catalog.control, CatalogAccess(session.catalog)
    epoch = control.acquire(job.sink_id, owner="run", takeover=False)
    folder = session.catalog.database.folder / "sinks" / job.sink_id
    context = Context(name, job.sink_id, folder, access.secret, access.job_store)
    writer = session.catalog.registry.writer(job.write, context)
    writer.open()
    writer.claim(ClaimRequest({}, epoch=epoch))
    control.release(job.sink_id, owner="run")


def _catalog(session: Session) -> Catalog:
    (job,) = session.jobs([_NAME])
    return open_catalog(job.write.connection.name, job.write.connection.options, session.access)


def _append(table: Table) -> None:
    table.append(pa.table({"counter": pa.array([1, 2], pa.int64())}, table.schema().as_arrow()))


def _refused(session: Session) -> SinkqlError:
    """Return the error of the DROP, after checking that it changed nothing."""
    (job,) = session.jobs([_NAME])
    before = session.catalog.control.desired(job.sink_id)
    with pytest.raises(SinkqlError) as raised:
        session.execute(_DROP, "drop.sql")
    assert "DROP SINK k WITH TABLE" in str(raised.value)
    assert _catalog(session).table_exists("a.t")
    assert _NAME in session.sinks()
    assert session.catalog.control.desired(job.sink_id) == before
    assert not session.catalog.control.is_held(job.sink_id)
    return raised.value


def test_a_table_without_rows_goes_with_its_sink(session: Session) -> None:
    catalog = _catalog(session)
    _claimed(session)
    assert catalog.table_exists("a.t")
    session.execute(_DROP)
    assert not catalog.table_exists("a.t")
    assert session.sinks() == ()
    session.execute(_SCRIPT)  # the names can be used again
    _claimed(session)
    assert catalog.table_exists("a.t")


def test_a_sink_without_a_table_is_dropped(session: Session) -> None:
    session.execute(_DROP)
    assert session.sinks() == ()


def test_a_table_whose_rows_are_deleted_has_none(session: Session) -> None:
    catalog = _catalog(session)
    _claimed(session)
    table = catalog.load_table("a.t")
    _append(table)
    assert _refused(session).code == "SQ3570"
    table.delete("counter = 1")
    assert _refused(session).code == "SQ3570"
    catalog.load_table("a.t").delete("counter = 2")
    session.execute(_DROP)
    assert not catalog.table_exists("a.t")


def test_a_table_that_was_there_before_stays(session: Session) -> None:
    catalog = _catalog(session)
    catalog.create_namespace("a")
    catalog.create_table("a.t", pa.schema([pa.field("counter", pa.int64(), nullable=False)]))
    _claimed(session)
    assert _refused(session).code == "SQ3571"


def test_a_table_in_the_place_of_the_sinks_own_stays(session: Session) -> None:
    catalog = _catalog(session)
    _claimed(session)
    table = catalog.load_table("a.t")
    catalog.drop_table("a.t")
    shutil.rmtree(table.location().removeprefix("file://"))
    catalog.create_table("a.t", table.schema())
    assert _refused(session).code == "SQ3571"


def _second_sink(session: Session, table: Table) -> None:
    session.execute(_OTHER)


def _former_sink(session: Session, table: Table) -> None:
    session.execute(_OTHER)
    _claimed(session, "materialize.public.l")
    session.execute("DROP SINK l")


def _tag(session: Session, table: Table) -> None:
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_tag(head.snapshot_id, "audit").commit()


def _branch_with_rows(session: Session, table: Table) -> None:
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    rows = pa.table({"counter": pa.array([1], pa.int64())}, table.schema().as_arrow())
    table.append(rows, branch="audit")


@pytest.mark.parametrize(
    ("use", "code"),
    [(_second_sink, "SQ3572"), (_former_sink, "SQ3572"), (_tag, "SQ3572"), (_branch_with_rows, "SQ3570")],
)
def test_what_others_use_stays(session: Session, use: Callable[[Session, Table], None], code: str) -> None:
    _claimed(session)
    use(session, _catalog(session).load_table("a.t"))
    assert _refused(session).code == code


def test_a_table_that_changes_while_it_is_looked_at_stays(session: Session) -> None:
    catalog = _catalog(session)
    _claimed(session)
    table = catalog.load_table("a.t")
    _append(catalog.load_table("a.t"))
    assert isinstance(catalog, CachingCatalog)
    with pytest.raises(CommitFailedException):
        catalog.drop_unchanged(table)
    assert catalog.table_exists("a.t")


def test_it_is_not_done_in_a_transaction(session: Session) -> None:
    with pytest.raises(SinkqlError) as raised:
        session.execute(f"BEGIN; {_DROP} COMMIT;")
    assert raised.value.code == "SQ2961"


@pytest.mark.long
def test_plan_offers_it_where_the_table_is_in_the_way(session: Session) -> None:
    other = _SCRIPT.replace("SELECT counter", "SELECT counter::text AS counter")

    def effect() -> str:
        return next(step.effect for step in plan_deployment([Script("p.sql", other)], session).steps if step.refused)

    _claimed(session)
    assert effect().endswith(
        "The sink created the table, which has no rows: DROP SINK k WITH TABLE; drops both, and apply then creates "
        "them again."
    )
    _append(_catalog(session).load_table("a.t"))
    assert "WITH TABLE" not in effect()
    _catalog(session).load_table("a.t").delete()
    session.execute(_DROP)
    deployment = plan_deployment([Script("p.sql", other)], session)
    assert not [step.refused for step in deployment.steps if step.refused]
    apply(deployment, session)
    _claimed(session)
    assert str(_catalog(session).load_table("a.t").schema().find_type("counter")) == "string"


def test_a_table_is_dropped_from_any_catalog(any_lake: Lake, name: str) -> None:
    check_dropping(any_lake, name)
