"""Random pairs of a catalog and a script over real tables: applying is refused where planning said so, nowhere else."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from sinkql import logical
from sinkql.connectors.iceberg.table.types import table_schema
from sinkql.errors import SinkqlError
from sinkql.physical import Column
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script

from .test_random_pairs import _items

_PAIRS = 72
_GROUPS = 6
_OUTPUTS = ("counter", "counter", "counter + 1 AS counter", "counter, counter AS more", "counter::text AS counter")


def _script(chance: random.Random) -> str:
    """Return statements that plan, with few tables, so that what one sink left another finds."""
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
    for name in chance.sample(["v1", "v2"], chance.randint(1, 2)):
        statements.append(f"CREATE MATERIALIZED VIEW {name} AS SELECT {chance.choice(_OUTPUTS)} FROM n;")
        for sink in chance.sample(["k1", "k2"], chance.randint(0, 1)):
            table = chance.choice(["t1", "t2", "t3"])
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
    found = tuple(Column(each.name, str(each.type), each.nullable) for each in sink.shape.columns)
    if chance.random() < 0.2:
        found = chance.choice([found[:-1], (*found, Column("extra", "text"))]) or found
    return table_schema(found, changelog=sink.changelog)


def _live(session: Session, chance: random.Random) -> None:
    """Let sinks have made their tables, some of them with rows, and strangers theirs."""
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
