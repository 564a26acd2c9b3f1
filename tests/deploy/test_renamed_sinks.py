"""A script with new names for sinks → ALTER SINK … RENAME; the sinks keep their rows."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from sinkql import ast
from sinkql.cli.main import run_command
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script

pytestmark = pytest.mark.long

_BASE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT counter FROM n WHERE counter > 3;
"""
_SINK = """CREATE SINK {name} FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = '{table}')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '{interval}');
"""


def _script(*sinks: str, interval: str = "10s") -> str:
    """Return a script with sinks written as `name:table`."""
    made = (
        _SINK.format(name=name, table=table, interval=interval) for name, _, table in (s.partition(":") for s in sinks)
    )
    return _BASE + "".join(made)


def _plan(session: Session, text: str, *, keep: bool = False) -> Deployment:
    return plan_deployment([Script("pipeline.sql", text)], session, keep=keep)


def _steps(deployment: Deployment) -> list[tuple[str, str, str | None]]:
    return [
        (step.action, step.name.rpartition(".")[2], step.was.rpartition(".")[2] if step.was is not None else None)
        for step in deployment.steps
    ]


def _ids(session: Session) -> dict[str, str]:
    """Return the ids of the sinks by name."""
    found = {}
    for name in session.catalog.plans.names("SINK"):
        entry = session.catalog.plans.entry(name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSink)
        found[name.rpartition(".")[2]] = str(entry.facts["sink_id"])
    return found


def _with_rows(session: Session, *tables: str) -> None:
    """Append a row to tables of sinks, as the sinks would."""
    job = session.jobs()[0]
    catalog = open_catalog(job.write.connection.name, job.write.connection.options, session.access)
    catalog.create_namespace_if_not_exists("a")
    for name in tables:
        table = catalog.create_table(f"a.{name}", pa.schema([pa.field("counter", pa.int64(), nullable=False)]))
        table.append(pa.table({"counter": pa.array([1], pa.int64())}, table.schema().as_arrow()))


def test_another_name_is_a_rename(session: Session) -> None:
    session.execute(_script("k:t"))
    session.execute("COMMENT ON SINK k IS 'rows'")
    _with_rows(session, "t")
    text = _script("other:t") + "COMMENT ON SINK other IS 'rows';"
    deployment = _plan(session, text)
    (step,) = deployment.steps
    assert (step.action, step.name, step.was) == ("alter", "materialize.public.other", "materialize.public.k")
    assert (step.reason, step.effect) == ('it is renamed from "k"', "it continues where it is")
    before = _ids(session)
    apply(deployment, session)
    assert _ids(session) == {"other": before["k"]}
    assert _plan(session, text).steps == ()


def test_a_rename_with_another_interval_is_one_change(session: Session) -> None:
    session.execute(_script("k:t"))
    deployment = _plan(session, _script("other:t", interval="20s"))
    assert _steps(deployment) == [("alter", "other", "k")]
    assert deployment.steps[0].reason == 'it is renamed from "k"; its definition changes'
    before = _ids(session)
    apply(deployment, session)
    assert _ids(session) == {"other": before["k"]}
    assert _plan(session, _script("other:t", interval="20s")).steps == ()


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        ("l:other", [("create", "l", None), ("drop", "k", None)]),  # it writes to a different table
        ("other_schema.l:t", [("drop", "k", None), ("create", "l", None)]),  # RENAME keeps the schema
    ],
)
def test_what_is_no_rename_is_recreated(session: Session, after: str, steps: list[object]) -> None:
    session.execute("CREATE SCHEMA other_schema;")
    session.execute(_script("k:t"))
    assert _steps(_plan(session, "CREATE SCHEMA other_schema;" + _script(after))) == steps


def test_a_kept_sink_is_not_renamed(session: Session) -> None:
    session.execute(_script("k:t"))
    assert _steps(_plan(session, _script("other:t", "k:t2"), keep=True)) == [
        ("alter", "other", "k"),
        ("create", "k", None),
    ]


def test_a_view_in_the_way_of_the_name_stays_in_the_way(session: Session) -> None:
    session.execute(_script("k:t"))
    session.execute("CREATE VIEW l AS SELECT counter FROM n")
    assert _steps(_plan(session, _script("l:t"))) == [("drop", "k", None), ("replace", "l", None)]


def test_sinks_change_names_among_each_other(session: Session) -> None:
    """Whatever the new names are, each remaining sink keeps its table."""
    chance = random.Random(7)
    names = [f"s{number}" for number in range(5)]
    tables = dict(zip(names[:4], ("t0", "t1", "t2", "t3"), strict=True))
    session.execute(_script(*(f"{name}:{table}" for name, table in tables.items())))
    for _ in range(8):
        before = {tables[name]: sink_id for name, sink_id in _ids(session).items()}
        moved = dict(zip(chance.sample(names, 4), tables.values(), strict=True))
        text = _script(*(f"{name}:{table}" for name, table in moved.items()))
        deployment = _plan(session, text)
        assert all(step.action == "alter" for step in deployment.steps)
        apply(deployment, session)
        assert _plan(session, text).steps == ()
        assert {moved[name]: sink_id for name, sink_id in _ids(session).items()} == before
        tables = moved


def test_a_sink_that_is_to_be_created_again_is_not_renamed(session: Session) -> None:
    session.execute(_script("k:t"))
    steps = _plan(session, _script("l:t").replace("UP TO 10", "UP TO 20")).steps
    assert [(step.action, step.was) for step in steps if step.kind == "SINK"] == [("drop", None), ("create", None)]


def test_the_exit_code_is_that_of_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_script("k:t"))
        _with_rows(session, "t", "u")
    Path("p.sql").write_text(_script("k:t", "l:v"))
    assert run_command(["plan", "p.sql"]) == 0
    assert run_command(["plan", "p.sql", "--detailed-exitcode"]) == 2
    capsys.readouterr()
    Path("p.sql").write_text(_script("k:t", "l:u"))  # its table has rows
    for more in ([], ["--detailed-exitcode"], ["--output", "json"], ["--out", "saved.json"]):
        assert run_command(["plan", "p.sql", *more]) == 3
        printed = capsys.readouterr().out
        assert "SQ3507" in printed
        assert "carry it out" not in printed
    assert "saved; sinkql apply saved.json fails with SQ3507 in the present state" in printed
    assert run_command(["apply", "saved.json"]) == 3
    assert "error[SQ3507]" in capsys.readouterr().err


def test_a_refusal_by_another_system_has_the_exit_code_of_the_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.sql").write_text("CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1', SECURITY PROTOCOL = 'PLAINTEXT');")
    assert run_command(["plan", "p.sql", "--detailed-exitcode"]) == 4
    assert "refused in the present state (SQ4" in capsys.readouterr().out


def test_notices_name_item_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = _SINK.format(name="k", table="t", interval="10s").replace("ENVELOPE NONE", "KEY (counter) NOT ENFORCED")
    Path("a.sql").write_text(
        _BASE.replace("SELECT counter", "SELECT counter % 2 AS counter").replace("> 3", "> :least ORDER BY 1")
    )
    Path("b.sql").write_text(f"SET zzz = 1;\n{sink.replace('WITH (', 'MODE UPSERT WITH (')}")
    assert run_command(["plan", "a.sql", "b.sql", "-v", "least=3000000"]) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if "notice: " in line] == [
        'b.sql:1:5: notice: setting "zzz" does not exist, skipped',
        'a.sql:4:91: notice: materialized view "v": ORDER BY without LIMIT does nothing in a view: its rows have '
        "no order",
        'b.sql:3:8: notice: sink "k": the key is not proven to be unique: of rows with the same key, '
        "the sink keeps the last",
    ]
