"""144 random pairs of a catalog and a script: apply does what the plan says, and the next plan is empty."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

import sinkql
from sinkql.planner.item.secret import without_literal
from sinkql.printer import to_sql
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script
from sinkql.session.deploy.step import Step

pytestmark = pytest.mark.long

_PAIRS = 144
_GROUPS = 12


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of the catalog."""

    id: str
    kind: str
    sql: str
    value: str | None


def _script(chance: random.Random) -> str:
    """Return statements that plan, with few names, so that two scripts have many in common."""
    statements: list[str] = []
    relations: list[str] = []
    exported: list[str] = []
    clusters = chance.sample(["c1", "c2"], chance.randint(0, 2))
    statements.extend(f"CREATE CLUSTER {name} (SIZE = 'local[{chance.randint(1, 2)}]');" for name in clusters)
    clusters.append("quickstart")
    secrets = chance.sample(["k1", "k2"], chance.randint(0, 2))
    statements.extend(f"CREATE SECRET {name} AS '{chance.choice(['one', 'two'])}{name}';" for name in secrets)
    for name in chance.sample(["s1", "s2", "s3"], chance.randint(1, 3)):
        statements.append(f"CREATE SOURCE {name} FROM LOAD GENERATOR COUNTER (UP TO {chance.randint(1, 2)});")
        relations.append(name)
        exported.append(name)
    for name in chance.sample(["v1", "v2", "v3", "v4"], chance.randint(0, 4)):
        kind = chance.choice(["VIEW", "MATERIALIZED VIEW"])
        outputs = chance.choice(["counter", "counter + 0 AS counter", "counter, counter AS more"])
        condition = chance.choice(["", " WHERE counter > 1", " WHERE  counter > 1"])
        statements.append(f"CREATE {kind} {name} AS SELECT {outputs} FROM {chance.choice(relations)}{condition};")
        relations.append(name)
        if kind == "MATERIALIZED VIEW":
            exported.append(name)
    if chance.random() < 0.9:
        place = chance.choice(["one", "one", "two"])
        statements.append(f"CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{place}');")
        tables: set[str] = set()
        for name in chance.sample(["a1", "a2", "a3"], chance.randint(0, 3)):
            desired = chance.choice([name, name, "t"])
            table = name if desired in tables else desired
            tables.add(table)
            statements.append(
                f"CREATE SINK {name} IN CLUSTER {chance.choice(clusters)} FROM {chance.choice(exported)}"
                f" INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = '{table}') ENVELOPE NONE"
                f" WITH (COMMIT INTERVAL = '{chance.randint(1, 3)}s');"
            )
    if chance.random() < 0.3:
        statements.append(
            f"ALTER SYSTEM SET enable_default_connection_validation = {chance.choice(['true', 'false'])};"
        )
    return "\n".join(statements)


def _items(session: Session) -> dict[str, _Item]:
    session.catalog.refresh()
    found = {}
    for entry in session.catalog.plans.entries():
        if entry.id.startswith("u"):
            value = session.catalog.secret(entry.name).reveal() if entry.kind == "SECRET" else None
            found[entry.name] = _Item(entry.id, entry.kind, to_sql(without_literal(entry.statement)), value)
    return found


def _check(before: dict[str, _Item], after: dict[str, _Item], steps: tuple[Step, ...]) -> None:
    """Check the change of each item against its step."""
    said = {step.name: step.action for step in steps if step.kind != "SETTING"}
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        match said.get(name):
            case None:
                assert old == new
            case "create":
                assert old is None
                assert new is not None
            case "drop":
                assert old is not None
                assert new is None
            case "alter":
                assert old is not None
                assert new is not None
                assert (old.id, old.kind) == (new.id, new.kind)
                assert (old.sql, old.value) != (new.sql, new.value)
            case "replace":
                assert old is not None
                assert new is not None
                assert old.id != new.id


@pytest.mark.share(12)
@pytest.mark.parametrize("group", range(_GROUPS))
def test_apply_does_what_plan_said(group: int, session: Session) -> None:
    """Each script is applied to the catalog that the previous script left."""
    for pair in range(group, _PAIRS, _GROUPS):
        text = _script(random.Random(pair))
        script = [Script("pipeline.sql", text)]
        before = _items(session)
        deployment = plan_deployment(script, session)
        apply(deployment, session)
        after = _items(session)
        _check(before, after, deployment.steps)
        assert plan_deployment(script, session).steps == ()
        compiled = sinkql.compile(text).items
        described = {item.name: item.sql for item in compiled}
        # a secret stays after its last script drops it
        assert {
            name: item.sql for name, item in after.items() if name in described or item.kind != "SECRET"
        } == described
