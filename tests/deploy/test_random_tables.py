"""Random pairs of a catalog and a script over real tables: apply refuses only what the plan says it will refuse."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from sinkql import logical
from sinkql.connector_api.registry import discover
from sinkql.connectors.iceberg.table.schema import table_schema
from sinkql.errors import SinkqlError
from sinkql.logical.type import TEXT
from sinkql.physical import Column
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script
from support.running import drain, loop_of

from .test_random_pairs import _items

pytestmark = pytest.mark.long

_PAIRS = 72
_GROUPS = 6
_LAKES = 4
_GROUPED = "counter % 3 AS counter, count(*) AS n FROM n GROUP BY counter % 3"
_OUTPUTS = ("counter", "counter", "counter + 1 AS counter", "counter, counter AS more", "counter::text AS counter")


def _script(chance: random.Random) -> str:
    """Return statements that plan, with few tables, so that new sinks find tables of earlier ones."""
    statements = [
        f"CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{chance.choice('aaab')}');",
        f"CREATE CLUSTER c (SIZE = 'local[{chance.randint(1, 2)}]');",
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 9);",
    ]
    if chance.random() < 0.2:
        statements.append("CREATE SOURCE f (a bigint) FROM FILES (PATH = 'absent') FORMAT JSON;")
    if chance.random() < 0.1:
        statements.append(
            "CREATE CONNECTION away TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'nope://h/d', WAREHOUSE = 'w');"
        )
    tables = ["t1", "t2", "t3"]
    for name in chance.sample(["v1", "v2"], chance.randint(1, 2)):
        query = _GROUPED if chance.random() < 0.2 else f"{chance.choice(_OUTPUTS)} FROM n"
        statements.append(f"CREATE MATERIALIZED VIEW {name} AS SELECT {query};")
        for sink in chance.sample(["k1", "k2"], chance.randint(0, 1)):
            table = tables.pop(chance.randrange(len(tables)))  # two sinks of one table are refused earlier
            mode = chance.choice(["MODE APPEND", "MODE APPEND", "KEY (counter) NOT ENFORCED MODE UPSERT"])
            keep = chance.choice(["", "", ", EXISTING ROWS = KEEP"])
            cluster = chance.choice(["", "IN CLUSTER c "])
            statements.append(
                f"CREATE SINK {sink}_{name} {cluster}FROM {name} INTO ICEBERG CATALOG CONNECTION lake "
                f"(NAMESPACE = 'x', TABLE = '{table}') {mode} "
                f"WITH (COMMIT INTERVAL = '{chance.randint(1, 2)}s'{keep});"
            )
    return "\n".join(statements)


def _lake(place: str) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")


def _schema(chance: random.Random, sink: logical.Sink) -> Schema:
    found = tuple(Column(each.name, each.type, each.nullable) for each in sink.shape.columns)
    if chance.random() < 0.2:
        found = chance.choice([found[:-1], (*found, Column("extra", TEXT))]) or found
    return table_schema(found, changelog=sink.changelog)


def _live(session: Session, chance: random.Random) -> None:
    """Create tables of sinks, some with rows or by other programs; drop or rename some tables."""
    plans = session.catalog.plans
    for name in plans.names("SINK"):
        sink = plans.item(name)
        assert isinstance(sink, logical.Sink)
        connection = plans.item(sink.connection)
        assert isinstance(connection, logical.Connection)
        lake = _lake(str(connection.options["warehouse"]))
        identifier = ("x", str(sink.options["table"]))
        if not lake.namespace_exists("x"):
            lake.create_namespace("x")
        if chance.random() < 0.15 and lake.table_exists(identifier):
            lake.drop_table(identifier)
        elif chance.random() < 0.1 and lake.table_exists(identifier):
            lake.rename_table(identifier, ("x", f"moved_{chance.randrange(10**9)}"))
        if not lake.table_exists(identifier):
            schema = _schema(chance, sink)
            by = (PartitionField(1, 1000, IdentityTransform(), "p"),) if chance.random() < 0.1 else ()
            version = chance.choice(["1", "2", "2", "2", "2", "2"])
            lake.create_table(identifier, schema, None, PartitionSpec(*by), properties={"format-version": version})
        table = lake.load_table(identifier)
        if chance.random() < 0.4:
            schema = table.schema().as_arrow()
            filled = [pa.array(["1" if pa.types.is_large_string(each.type) else 1], each.type) for each in schema]
            table.append(pa.Table.from_arrays(filled, schema=schema))


def _applied(deployment: Deployment, session: Session) -> SinkqlError | None:
    try:
        apply(deployment, session)
    except SinkqlError as error:
        return error
    return None


@pytest.mark.share(3)
@pytest.mark.parametrize("group", range(_GROUPS))
def test_apply_is_refused_where_planning_says_so(group: int, session: Session) -> None:
    outcomes = {True: 0, False: 0}
    for pair in range(group, _PAIRS, _GROUPS):
        chance = random.Random(pair)
        _live(session, chance)
        script = [Script("pipeline.sql", _script(chance))]
        before = _items(session)
        deployment = plan_deployment(script, session)
        refused = [step for step in deployment.steps if "refused" in step.effect]
        outcomes[bool(refused)] += 1
        error = _applied(deployment, session)
        if error is not None:
            assert refused, error.message
            assert _items(session) == before
        else:
            assert refused == []
            assert plan_deployment(script, session).steps == ()
    assert all(outcomes.values())


def _run(session: Session) -> dict[str, SinkqlError | None]:
    """Start the sinks as a process would, and commit all available data; return the error of each sink, or None."""
    found: dict[str, SinkqlError | None] = {}
    for job in session.jobs():
        if any(read.connector == "FILES" for read in job.reads()):
            continue  # its folder does not exist
        context, registry = session.context(job), discover()
        loop = loop_of(job, context, registry, engine=LocalEngine(1))
        try:
            loop.start(epoch=1, once=True)
            drain(loop)
        except SinkqlError as error:
            found[job.sink] = error
        else:
            found[job.sink] = None
    return found


@pytest.mark.share(3)
@pytest.mark.parametrize("part", range(3))
def test_a_sink_that_was_not_refused_starts_and_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """If plan and apply accept a sink, so does its first start, unless the plan says otherwise."""
    started = 0
    for lake in range(part * _LAKES, (part + 1) * _LAKES):
        (tmp_path / str(lake)).mkdir()
        monkeypatch.chdir(tmp_path / str(lake))
        with Session() as session:
            for pair in range(3):
                started += _started(session, random.Random(10 * lake + pair))
    assert started > _LAKES // 2


def _started(session: Session, chance: random.Random) -> int:
    """Deploy once, and run the sinks; return the number of sinks that committed."""
    if chance.random() < 0.3:
        _live(session, chance)
    deployment = plan_deployment([Script("pipeline.sql", _script(chance))], session)
    made = {step.name for step in deployment.steps if step.action in ("create", "replace")}
    if _applied(deployment, session) is not None:
        return 0
    found = _run(session)
    said = {step.name for step in deployment.steps if "does not run" in step.effect}
    failed = {name: str(error) for name, error in found.items() if error is not None and name in made - said}
    assert failed == {}, "\n".join(f"{step.name} {step.action}: {step.effect}" for step in deployment.steps)
    return sum(error is None for error in found.values())
