"""Scripts are compared with the catalog. The plan lists all steps, and apply does exactly these."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from sinkql import ast
from sinkql.connector_api.registry import discover
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import Deployment, decode, encode, plan_deployment
from sinkql.session.deploy.script_catalog import Script
from support.keywords import WORDS

pytestmark = pytest.mark.long

_BASE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT counter FROM n WHERE counter > 3;
CREATE SINK k FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '2s');
"""


def _plan(session: Session, text: str, *, keep: bool = False) -> Deployment:
    return plan_deployment([Script("pipeline.sql", text)], session, keep=keep)


def _steps(deployment: Deployment) -> list[tuple[str, str, str]]:
    return [(step.action, step.kind, step.name.rpartition(".")[2]) for step in deployment.steps]


def _changed(session: Session, old: str, new: str) -> list[tuple[str, str, str]]:
    """Create the base, plan and apply one change of it, and return the steps."""
    session.execute(_BASE)
    assert old in _BASE
    deployment = _plan(session, _BASE.replace(old, new))
    apply(deployment, session)
    assert _plan(session, _BASE.replace(old, new)).steps == ()
    return _steps(deployment)


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        ("SIZE = 'local[1]', EXECUTION = SPARK", "its sinks continue where they are"),
        ("SIZE = 'local[1]', EXECUTION = AUTO, SPARK IDLE = '1m'", "its sinks continue where they are"),
        ("SIZE = 'local[2]', EXECUTION = SPARK", "its sinks restart and continue where they are"),
    ],
)
def test_a_change_of_when_spark_runs_restarts_no_sink(session: Session, options: str, effect: str) -> None:
    before = "CREATE CLUSTER c (SIZE = 'local[1]');" + _BASE.replace("SINK k FROM", "SINK k IN CLUSTER c FROM")
    after = before.replace("SIZE = 'local[1]'", options)
    session.execute(before)
    (job,) = session.jobs()
    assert (job.execution, job.spark_idle) == ("AUTO", timedelta(minutes=5))
    deployment = _plan(session, after)
    assert [(step.kind, step.action, step.effect) for step in deployment.steps] == [("CLUSTER", "alter", effect)]
    apply(deployment, session)
    assert _plan(session, after).steps == ()
    (changed,) = session.jobs()
    assert changed.execution == ("SPARK" if "SPARK" in options.split(", ")[1] else "AUTO")
    assert changed.spark_idle == timedelta(minutes=1 if "IDLE" in options else 5)
    assert changed.plan == job.plan


def test_everything_is_created_in_an_empty_catalog(session: Session) -> None:
    deployment = _plan(session, _BASE)
    assert _steps(deployment) == [
        ("create", "CONNECTION", "lake"),
        ("create", "SOURCE", "n"),
        ("create", "MATERIALIZED VIEW", "v"),
        ("create", "SINK", "k"),
    ]
    assert deployment.steps[-1].effect == 'reads source "n" from the start, into table "a.t"'
    apply(deployment, session)
    assert _plan(session, _BASE).steps == ()


def test_scripts_may_stand_in_any_order(session: Session) -> None:
    statements = [each + ";" for each in _BASE.strip().split(";") if each]
    scripts = [Script(f"{number}.sql", text) for number, text in enumerate(reversed(statements))]
    deployment = plan_deployment(scripts, session)
    apply(deployment, session)
    assert plan_deployment(scripts, session).steps == ()


def test_an_interval_changes_in_place(session: Session) -> None:
    assert _changed(session, "'2s'", "'5s'") == [("alter", "SINK", "k")]


@pytest.mark.parametrize("interval", ["'2 seconds'", "'2s', MAINTENANCE = true, MAX ROWS PER COMMIT = 5000000"])
def test_an_option_that_is_spelled_otherwise_is_no_change(session: Session, interval: str) -> None:
    assert _changed(session, "'2s'", interval) == []


def test_a_view_that_gives_the_same_rows_changes_in_place(session: Session) -> None:
    session.execute(_BASE)
    before = session.catalog.plans.entry("materialize.public.v")
    assert before is not None
    text = _BASE.replace("SELECT counter FROM n WHERE", "SELECT  counter  FROM n WHERE")
    deployment = _plan(session, text)
    assert _steps(deployment) == [("alter", "MATERIALIZED VIEW", "v")]
    apply(deployment, session)
    after = session.catalog.plans.entry("materialize.public.v")
    assert after is not None
    assert before.id == after.id
    assert isinstance(after.statement, ast.CreateView)
    assert after.statement.query.text == "SELECT  counter  FROM materialize.public.n WHERE counter > 3"


def test_a_sink_whose_rows_come_about_in_another_way_is_recreated(session: Session) -> None:
    session.execute(_BASE)
    text = _BASE.replace("counter > 3", "counter > 4")
    deployment = _plan(session, text)
    assert _steps(deployment) == [("alter", "MATERIALIZED VIEW", "v"), ("replace", "SINK", "k")]
    sink = deployment.steps[-1]
    assert sink.reason == 'materialized view "v" changes: rows that it has written are computed differently'
    assert sink.effect == 're-reads source "n" from the start; the table keeps its rows'
    old = session.catalog.stored("materialize.public.k")
    apply(deployment, session)
    new = session.catalog.stored("materialize.public.k")
    assert old is not None
    assert new is not None
    assert old.facts["sink_id"] != new.facts["sink_id"]


def test_effects_on_a_sink_name_a_destination_only_where_its_connector_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    registry = discover()
    registry.sinks["ICEBERG CATALOG"] = replace(registry.sinks["ICEBERG CATALOG"], destination=None)
    with Session(registry=registry) as session:
        assert _plan(session, _BASE).steps[-1].effect == 'reads source "n" from the start'
        session.execute(_BASE)
        text = _BASE.replace("counter > 3", "counter > 4")
        effect = 're-reads source "n" from the start; its output stays'
        assert _plan(session, text).steps[-1].effect == effect


def test_what_uses_a_source_that_is_recreated_is_recreated(session: Session) -> None:
    assert _changed(session, "UP TO 10", "UP TO 20") == [
        ("replace", "SOURCE", "n"),
        ("replace", "MATERIALIZED VIEW", "v"),
        ("replace", "SINK", "k"),
    ]


def test_a_connection_to_elsewhere_is_recreated_with_its_sinks(session: Session) -> None:
    assert _changed(session, "WAREHOUSE = 'lake'", "WAREHOUSE = 'pond'") == [
        ("replace", "CONNECTION", "lake"),
        ("replace", "SINK", "k"),
    ]


def test_what_no_script_names_is_dropped_unless_it_is_kept(session: Session) -> None:
    session.execute(_BASE)
    rest = _BASE[: _BASE.index("CREATE SINK")]
    assert _plan(session, rest, keep=True).steps == ()
    deployment = _plan(session, rest)
    assert [(step.action, step.name, step.effect) for step in deployment.steps] == [
        ("drop", "materialize.public.k", "it stops; the table keeps its rows")
    ]
    apply(deployment, session)
    assert session.sinks() == ()


def test_a_kept_item_can_be_used(session: Session) -> None:
    session.execute(_BASE)
    deployment = _plan(session, "CREATE VIEW w AS SELECT counter FROM v;", keep=True)
    apply(deployment, session)
    assert _steps(deployment) == [("create", "VIEW", "w")]


def test_a_view_moves_to_a_new_source_before_the_old_one_goes(session: Session) -> None:
    session.execute("CREATE SOURCE a FROM LOAD GENERATOR COUNTER; CREATE VIEW v AS SELECT counter FROM a;")
    deployment = _plan(session, "CREATE SOURCE b FROM LOAD GENERATOR COUNTER; CREATE VIEW v AS SELECT counter FROM b;")
    assert _steps(deployment) == [("create", "SOURCE", "b"), ("alter", "VIEW", "v"), ("drop", "SOURCE", "a")]
    apply(deployment, session)
    assert session.catalog.plans.names("SOURCE") == ("materialize.public.b",)


def test_a_secret_of_another_value_is_rotated(session: Session) -> None:
    session.execute("CREATE SECRET s AS 'one';")
    assert _plan(session, "CREATE SECRET s AS 'one';").steps == ()
    deployment = _plan(session, "CREATE SECRET s AS 'two';")
    assert _steps(deployment) == [("alter", "SECRET", "s")]
    assert "two" not in repr(deployment)
    apply(deployment, session)
    assert session.catalog.secret("materialize.public.s").reveal() == "two"


def test_settings_change(session: Session) -> None:
    deployment = _plan(session, "ALTER SYSTEM SET enable_iceberg_sink = false;")
    assert _steps(deployment) == [("alter", "SETTING", "enable_iceberg_sink")]
    apply(deployment, session)
    assert session.catalog.plans.setting("enable_iceberg_sink") == "false"


def test_a_mistake_is_told_in_its_script(session: Session) -> None:
    with pytest.raises(SinkqlError) as raised:
        _plan(session, "CREATE VIEW v AS SELECT counter FROM nothing;")
    assert (raised.value.code, raised.value.path) == ("SQ2202", "pipeline.sql")


@pytest.mark.parametrize("text", ["DROP VIEW v;", "SELECT 1;", "SHOW SINKS;", "INSERT INTO t VALUES (1);"])
def test_a_statement_that_describes_nothing_is_refused(session: Session, text: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        _plan(session, text)
    assert raised.value.code == "SQ2635"


def test_a_saved_plan_is_run_as_it_was_made(session: Session) -> None:
    deployment = _plan(session, _BASE)
    loaded = decode(encode(deployment, WORDS), session)
    assert loaded.steps == deployment.steps
    apply(loaded, session)
    assert _plan(session, _BASE).steps == ()


def test_a_saved_plan_is_refused_once_the_catalog_has_moved(session: Session) -> None:
    deployment = _plan(session, _BASE)
    saved = encode(deployment, WORDS)
    session.execute("CREATE SOURCE other FROM LOAD GENERATOR COUNTER;")
    for use in (lambda: decode(saved, session), lambda: apply(deployment, session)):
        with pytest.raises(SinkqlError) as raised:
            use()
        assert (raised.value.code, raised.value.exit_code) == ("SQ5209", 5)
    assert session.sinks() == ()


def test_a_plan_with_a_secret_in_it_is_not_saved(session: Session) -> None:
    with pytest.raises(SinkqlError) as raised:
        encode(_plan(session, "CREATE SECRET s AS 'hunter22';"), WORDS)
    assert raised.value.code == "SQ4018"
    assert "hunter22" not in str(raised.value.__dict__)


def test_what_is_no_plan_is_told(session: Session) -> None:
    for data in (b"{}", b"{", b'{"sinkql_plan": 9}'):
        with pytest.raises(SinkqlError) as raised:
            decode(data, session)
        assert raised.value.code == "SQ4019"


def test_the_effect_on_a_table_names_its_rows(session: Session) -> None:
    """The plan predicts what apply does about existing rows."""
    session.execute(_BASE)
    (job,) = session.jobs()
    catalog = open_catalog(job.write.connection.name, job.write.connection.options, session.access)
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", pa.schema([pa.field("counter", pa.int64(), nullable=False)]))
    table.append(pa.table({"counter": pa.array([1, 2, 3], pa.int64())}, table.schema().as_arrow()))
    text = _BASE.replace("counter > 3", "counter > 4")
    deployment = _plan(session, text)
    assert [step.effect for step in deployment.steps] == [
        "",
        're-reads source "n" from the start; the table keeps its 3 rows, and the new sink is refused while it has them:'
        " name a new TABLE, or write EXISTING ROWS = KEEP or REPLACE",
    ]
    with pytest.raises(SinkqlError) as raised:
        apply(deployment, session)
    assert raised.value.code == "SQ3507"
    assert _steps(_plan(session, text)) == _steps(deployment)
    kept = text.replace("INTERVAL = '2s'", "INTERVAL = '2s', EXISTING ROWS = KEEP")
    assert _plan(session, kept).steps[-1].effect.endswith("the table keeps its 3 rows, and new rows are added to them")
    apply(_plan(session, kept), session)
    assert _plan(session, kept).steps == ()


def test_comments_of_scripts_are_put_on_items_and_columns(session: Session) -> None:
    text = """COMMENT ON COLUMN v.a IS 'one'; COMMENT ON TABLE t IS 'mine'; COMMENT ON CLUSTER quickstart IS 'here';
      CREATE VIEW v AS SELECT a FROM t; CREATE TABLE t (a integer);"""
    apply(_plan(session, text), session)
    assert session.execute("SHOW COLUMNS FROM v")[0].rows[0][-1] == "one"
    assert session.execute("SHOW TABLES")[0].rows == (("t", "mine"),)
    assert _plan(session, text).steps == ()
    other = _plan(session, text.replace("'mine'", "'ours'").replace("'one'", "NULL"))
    assert _steps(other) == [("alter", "COMMENT", "a"), ("alter", "COMMENT", "t")]
    assert other.steps[1].changes == ("- 'mine'", "+ 'ours'")
    apply(other, session)
    assert session.execute("SELECT comment FROM mz_internal.mz_comments ORDER BY 1")[0].rows == (("here",), ("ours",))


def test_what_is_recreated_gets_its_comments_again(session: Session) -> None:
    text = "CREATE TABLE t (a integer); COMMENT ON TABLE t IS 'mine';"
    apply(_plan(session, text), session)
    anew = _plan(session, text.replace("integer", "text"))
    assert _steps(anew) == [("replace", "TABLE", "t"), ("alter", "COMMENT", "t")]
    apply(anew, session)
    assert session.execute("SHOW TABLES")[0].rows == (("t", "mine"),)


def test_what_only_the_catalog_has_is_told_as_that(session: Session) -> None:
    session.execute(_BASE)
    text = "CREATE VIEW w AS SELECT counter FROM {};"
    hint = "The catalog has it, but no file does. Pass the files of all items, or add --keep."
    for name, keep in (("v", False), ("nothing", False), ("other.v", True)):
        with pytest.raises(SinkqlError, match="does not exist") as caught:
            _plan(session, text.format(name), keep=keep)
        assert (caught.value.hint == hint) is (name == "v"), name
    assert _steps(_plan(session, text.format("v"), keep=True)) == [("create", "VIEW", "w")]


def test_a_comment_on_nothing_is_told_in_its_script(session: Session) -> None:
    with pytest.raises(SinkqlError, match='relation "v" does not exist') as caught:
        _plan(session, "CREATE TABLE t (a integer); COMMENT ON COLUMN v.a IS 'one';")
    assert caught.value.path == "pipeline.sql"


def test_schemas_come_first_whatever_the_order_of_scripts(session: Session) -> None:
    texts = [
        "SET search_path = app, public; CREATE TABLE t (a integer)",
        "CREATE SCHEMA app",
        "CREATE TABLE app.u (a int)",
    ]
    scripts = [Script(f"{number}.sql", text) for number, text in enumerate(texts)]
    for keep in (True, False):
        deployment = plan_deployment(scripts, session, keep=keep)
        assert [step.name for step in deployment.steps] == [
            "materialize.app.",
            "materialize.app.t",
            "materialize.app.u",
        ]
    apply(deployment, session)
    assert plan_deployment(scripts, session).steps == ()


def test_the_schema_that_a_database_has_needs_no_statement(session: Session) -> None:
    text = "SET database = d; CREATE TABLE t (a integer); CREATE DATABASE d;"
    apply(_plan(session, text), session)
    assert _plan(session, text).steps == ()
    assert _plan(session, text + "CREATE SCHEMA public;").steps == ()
    gone = _plan(session, "")
    assert [step.name for step in gone.steps] == ["d.public.t", "d.public.", "d."]
    apply(gone, session)
    assert session.execute("SHOW DATABASES")[0].rows == (("materialize", ""),)


@pytest.mark.parametrize("columns", ["a integer UNIQUE, b integer", "a integer"])
def test_a_table_with_other_keys_or_less_columns_is_recreated_and_says_what_is_lost(
    session: Session, columns: str
) -> None:
    session.execute("CREATE TABLE t (a integer, b integer); INSERT INTO t VALUES (1, 1), (1, 2);")
    deployment = _plan(session, f"CREATE TABLE t ({columns});")
    assert [(step.action, step.effect) for step in deployment.steps] == [("replace", "its 2 rows are lost")]


def test_a_table_that_a_source_feeds_loses_no_rows(session: Session) -> None:
    source = "CREATE SOURCE auction FROM LOAD GENERATOR AUCTION;"
    session.execute(f"{source} CREATE TABLE bids FROM SOURCE auction (REFERENCE bids);")
    deployment = _plan(session, source)
    assert [(step.action, step.kind, step.effect) for step in deployment.steps] == [("drop", "TABLE", "")]


def test_an_item_that_becomes_one_of_another_kind_says_what_goes(session: Session) -> None:
    session.execute(_BASE.replace("CREATE SINK k", "CREATE SINK w"))
    session.execute("CREATE VIEW k AS SELECT counter FROM n")
    steps = _plan(session, _BASE).steps
    assert [(step.action, step.name.rpartition(".")[2]) for step in steps] == [("drop", "w"), ("replace", "k")]
    assert steps[1].effect == 'reads source "n" from the start, into table "a.t"'
    back = _plan(session, _BASE.replace("CREATE SINK k FROM v", "CREATE TABLE k (a integer); CREATE SINK w FROM v"))
    assert back.steps[0].action == "replace"


def test_a_secret_that_moves_elsewhere_and_back_is_the_same_afterwards(session: Session) -> None:
    for text in ("CREATE SECRET s AS 'one'", "CREATE SECRET s AS env_var('S')", "CREATE SECRET s AS 'two'"):
        apply(_plan(session, text), session)
        assert _plan(session, text).steps == ()


@pytest.mark.parametrize("keep", [False, True])
def test_a_secret_that_no_script_has_stays_with_its_value_and_can_be_used(session: Session, keep: bool) -> None:
    session.execute("CREATE SECRET key AS 'hunter22';")
    script = """COMMENT ON CONNECTION lake IS 'ours'; CREATE CONNECTION lake TO ICEBERG CATALOG (
      CATALOG TYPE = 'rest', URL = 'https://lake.example', WAREHOUSE = 'w', CREDENTIAL = 'id:' || SECRET key);"""
    deployment = _plan(session, script, keep=keep)
    assert _steps(deployment) == [("create", "CONNECTION", "lake"), ("alter", "COMMENT", "lake")]
    assert _steps(_plan(session, _BASE.partition(";")[0] + ";", keep=keep)) == [("create", "CONNECTION", "lake")]
    assert session.catalog.secret("materialize.public.key").reveal() == "hunter22"


def test_a_secret_goes_with_its_schema(session: Session) -> None:
    session.execute("CREATE SCHEMA old; CREATE SECRET old.key AS 'hunter22';")
    deployment = _plan(session, _BASE)
    assert [step.name for step in deployment.steps if step.action == "drop"] == [
        "materialize.old.key",
        "materialize.old.",
    ]
    apply(deployment, session)
    assert _plan(session, _BASE).steps == ()


def test_a_setting_of_the_scripts_holds_for_their_items(session: Session) -> None:
    session.execute("ALTER SYSTEM SET enable_iceberg_sink = false")
    text = _BASE + "ALTER SYSTEM SET enable_iceberg_sink = true;"
    apply(_plan(session, text), session)
    assert _plan(session, text).steps == ()


def test_names_are_resolved_under_the_settings_of_the_catalog_and_the_script(session: Session) -> None:
    session.execute("CREATE SCHEMA other; CREATE SCHEMA third; ALTER SYSTEM SET search_path = other;")
    schemas = "CREATE SCHEMA other; CREATE SCHEMA third;"
    source = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER;"
    (step,) = _plan(session, schemas + source).steps
    assert step.name == "materialize.other.n"
    steps = _plan(session, f"{schemas} ALTER SYSTEM SET search_path = third; {source}").steps
    assert [step.name for step in steps] == ["search_path", "materialize.third.n"]
    apply(_plan(session, f"{schemas} ALTER SYSTEM SET search_path = third; {source}"), session)
    assert session.catalog.plans.names("SOURCE") == ("materialize.third.n",)


def test_a_sink_that_goes_to_another_warehouse_finds_a_table_of_its_own(session: Session) -> None:
    session.execute(_BASE)
    (job,) = session.jobs()
    catalog = open_catalog(job.write.connection.name, job.write.connection.options, session.access)
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", pa.schema([pa.field("counter", pa.int64(), nullable=False)]))
    table.append(pa.table({"counter": pa.array([1], pa.int64())}, table.schema().as_arrow()))
    deployment = _plan(session, _BASE.replace("WAREHOUSE = 'lake'", "WAREHOUSE = 'pond'"))
    assert deployment.steps[-1].effect == 're-reads source "n" from the start; the table keeps its 1 row'


def test_an_unknown_setting_is_a_notice_of_the_plan(session: Session) -> None:
    deployment = _plan(session, "SET zzz = 1; CREATE TABLE t (a int); ALTER SYSTEM SET yyy = on;")
    assert [each.notice.code for each in deployment.notices] == ["SQ2637", "SQ2637"]
    assert len(_steps(deployment)) == 1


def test_item_that_broke_under_the_same_versions_is_replaced(tmp_path: Path) -> None:
    whole = discover()
    view = "CREATE MATERIALIZED VIEW v AS SELECT counter FROM n;"
    with Session(tmp_path, registry=whole) as session:
        session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);" + view)
        assert session.notices == ()  # this records that all items can be planned
    less = replace(whole, sources={kind: each for kind, each in whole.sources.items() if "GENERATOR" not in kind})
    with Session(tmp_path, registry=less) as session:
        text = "CREATE TABLE n (counter bigint);" + view
        deployment = _plan(session, text)
        assert _steps(deployment) == [("replace", "TABLE", "n"), ("replace", "MATERIALIZED VIEW", "v")]
        apply(deployment, session)
        assert _plan(session, text).steps == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("'t'", "'t'", '; sink "k" writes there too: this sink is refused if that sink has written rows'),
        ("INTERVAL = '2s'", "INTERVAL = '2s', EXISTING ROWS = KEEP", ""),
        ("ENVELOPE NONE", "KEY (counter) NOT ENFORCED MODE UPSERT",
         '; sink "k" writes there too: one of them stops when the other commits'),
        ("TABLE = 't'", "TABLE = 't2'", ""),
    ],
)  # fmt: skip
def test_two_sinks_of_one_table_are_told(session: Session, old: str, new: str, said: str) -> None:
    session.execute(_BASE)
    sink = _BASE.partition("CREATE SINK k ")[2]
    assert old in sink
    other = "CREATE CONNECTION lake2" + _BASE.partition("CREATE CONNECTION lake")[2].partition(";")[0] + ";"
    second = sink.replace(old, new).replace("CONNECTION lake", "CONNECTION lake2")
    _, step = _plan(session, f"{_BASE}{other}CREATE SINK k2 {second}").steps
    assert step.name.endswith(".k2")
    assert step.effect.partition('"a.t')[2].partition('"')[2] == said


def test_a_sink_goes_before_another_one_comes_to_its_table_by_any_connection(session: Session) -> None:
    session.execute(_BASE)
    connection, sink = _BASE.split("\n")[1], _BASE.partition("CREATE SINK k ")[2]
    sink = sink.replace("CONNECTION lake", "CONNECTION lake2")
    second = f"{connection.replace('lake TO', 'lake2 TO')} CREATE SINK a {sink}"
    deployment = _plan(session, f"{_BASE.partition('CREATE SINK')[0]}{second}")
    assert [step for step in _steps(deployment) if step[1] == "SINK"] == [
        ("drop", "SINK", "k"),
        ("create", "SINK", "a"),
    ]


_TABLE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, v int);
CREATE MATERIALIZED VIEW a AS SELECT id, v FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW b AS SELECT v, id FROM a;
CREATE MATERIALIZED VIEW g AS SELECT v, count(*) AS rows FROM t GROUP BY v;
CREATE SINK s FROM b INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 's')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '2s');
CREATE SINK r FROM g INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'r')
  KEY (v) MODE UPSERT WITH (COMMIT INTERVAL = '2s');
"""
_WIDER = (
    _TABLE.replace("v int);", "v int, c text);").replace("SELECT id, v FROM", "SELECT id, c, v FROM")
    .replace("SELECT v, id FROM", "SELECT v, id, c FROM")
)  # fmt: skip


def test_a_column_goes_through_tables_and_views_into_the_tables_of_sinks(session: Session) -> None:
    session.execute(_TABLE + "INSERT INTO t VALUES (1, 1);")
    before = {job.sink: job for job in session.jobs()}
    deployment = _plan(session, _WIDER.replace("'2s'", "'3s'", 1))
    told = [(step.name.rpartition(".")[2], step.action, step.effect) for step in deployment.steps]
    gets = 'its table gets column "c", which has NULL in existing rows; nothing is read again'
    assert told == [
        ("t", "alter", 'it keeps its rows, which have NULL in column "c"'),
        ("a", "alter", "its sinks continue where they are"),
        ("b", "alter", "its sinks continue where they are"),
        ("s", "alter", gets),
    ]
    apply(deployment, session)
    after = {job.sink: job for job in session.jobs()}
    r, s = "materialize.public.r", "materialize.public.s"
    assert after[r].plan == before[r].plan
    assert [each.plan for each in after[s].follows] == [before[s].plan]
    assert after[s].follows[0].unread == (("materialize.public.t", "c"),)
    assert after[s].sink_id == before[s].sink_id
    assert _plan(session, _WIDER.replace("'2s'", "'3s'", 1)).steps == ()
    session.execute("INSERT INTO t VALUES (2, 2, 'two');")


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("c text", "c text NOT NULL", "t", 'its rows could not have the new column "c", which is NOT NULL'),
        ("c text", "c text DEFAULT 'a'", "t", 'its rows could not have the new column "c", which has a DEFAULT'),
        ("v int, c", "w int, v int, c", "t", "its columns change, not only by new columns at the end or wider types"),
        ("SELECT v, id, c", "SELECT v::text, id, c", "s",
         'materialized view "a" changes, materialized view "b" changes, table "t" '
         'changes: column "v" changes from integer to text'),
    ],
)  # fmt: skip
def test_what_a_table_cannot_have_in_place_is_recreated_and_says_why(
    session: Session, old: str, new: str, name: str, reason: str
) -> None:
    session.execute(_TABLE + "INSERT INTO t VALUES (1, 1);")
    text = _WIDER.replace(old, new)
    (step,) = (each for each in _plan(session, text).steps if each.name.endswith(f".{name}"))
    assert (step.action, step.reason) == ("replace", reason)


def test_columns_do_not_change_under_another_sink_of_the_table(session: Session) -> None:
    text = _BASE.replace(
        "FROM LOAD GENERATOR COUNTER (UP TO 10)", "(counter bigint) FROM FILES (PATH = 'a') FORMAT JSON"
    )
    text = text.replace("INTERVAL = '2s'", "INTERVAL = '2s', EXISTING ROWS = KEEP")
    rest = text[text.index("CREATE SOURCE") :]
    for old, new in (
        ("E n ", "E m "),
        ("'a')", "'b')"),
        ("VIEW v", "VIEW w"),
        ("M n ", "M m "),
        ("k FROM v", "l FROM w"),
    ):
        assert old in rest
        rest = rest.replace(old, new, 1)
    text += rest
    session.execute(text)
    why = 'sink "l" writes other columns to the same destination'
    change = "SELECT counter, NULL::text AS c FROM"
    with pytest.raises(SinkqlError, match=why) as refused:
        session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {change} n WHERE counter > 3;")
    assert refused.value.code == "SQ2985"

    def sinks(changed: str) -> list[tuple[str, str]]:
        return [(step.action, step.reason) for step in _plan(session, changed).steps if step.kind == "SINK"]

    one = text.replace("SELECT counter FROM n", f"{change} n")
    assert sinks(one) == [("replace", f'materialized view "v" changes: {why}')]
    both = one.replace("SELECT counter FROM m", f"{change} m")
    assert sinks(both) == [("alter", 'materialized view "v" changes'), ("alter", 'materialized view "w" changes')]
    apply(_plan(session, both), session)
    assert sinks(both) == []


def test_a_sink_continues_from_another_relation_only_with_the_same_columns(session: Session) -> None:
    session.execute(_BASE)
    view = "CREATE MATERIALIZED VIEW w AS SELECT * FROM v WHERE {} < 9; CREATE SINK k FROM w"
    moved = _BASE.replace("CREATE SINK k FROM v", view.format("counter"))
    assert [(step.action, step.reason) for step in _plan(session, moved).steps] == [
        ("create", "it is new"), ("alter", "its definition changes")
    ]  # fmt: skip
    renamed = _BASE.replace("SELECT counter FROM", "SELECT counter AS n FROM")
    renamed = renamed.replace("CREATE SINK k FROM v", view.format("n"))
    deployment = _plan(session, renamed)
    assert [(step.action, step.reason) for step in deployment.steps if step.kind == "SINK"] == [
        ("replace", "it reads another relation, which has other columns")
    ]
    apply(deployment, session)
    assert _plan(session, renamed).steps == ()


def test_a_column_of_a_source_comes_in_place_only_where_rows_are_not_overwritten(session: Session) -> None:
    base = _BASE.replace(
        "n FROM LOAD GENERATOR COUNTER (UP TO 10)", "n (counter bigint) FROM FILES (PATH = 'in') FORMAT JSON"
    )
    base = base.replace("SELECT counter FROM", "SELECT * FROM")
    session.execute(base)
    wider = base.replace("(counter bigint)", "(counter bigint, more text)")
    assert _steps(_plan(session, wider)) == [("alter", "SOURCE", "n"), ("alter", "SINK", "k")]
    session.execute("DROP SINK k")
    upsert = "KEY (counter) NOT ENFORCED MODE UPSERT"
    session.execute(base[base.index("CREATE SINK") :].replace("ENVELOPE NONE", upsert))
    (_, sink) = _plan(session, wider.replace("ENVELOPE NONE", upsert)).steps
    effect = (
        're-reads source "n" from the start; then its table gets the new rows in one commit, and has the old rows '
        'until then; it also gets column "more"'
    )
    assert (sink.action, sink.effect) == ("alter", effect)


@pytest.mark.parametrize(
    ("form", "by_name"),
    [
        ("JSON", True),
        ("PARQUET", True),
        ("CSV WITH HEADER", True),
        ("CSV", False),
        ("CSV WITH HEADER (a, b, c)", False),
    ],
)
@pytest.mark.parametrize("mode", ["ENVELOPE NONE", "KEY (counter) NOT ENFORCED MODE UPSERT"])
def test_a_column_less_of_a_source_that_names_its_values_goes_in_place(
    session: Session, form: str, by_name: bool, mode: str
) -> None:
    columns = "counter bigint, gone text, more text"
    base = _BASE.replace(
        "n FROM LOAD GENERATOR COUNTER (UP TO 10)", f"n ({columns}) FROM FILES (PATH = 'in') FORMAT {form}"
    )
    base = base.replace("ENVELOPE NONE", mode)
    whole = base[base.index("CREATE SINK") :].replace("k FROM v", "whole FROM n").replace("'t'", "'whole'")
    session.execute(base + whole)
    less = (base + whole).replace(columns, "counter bigint, more text").replace("(a, b, c)", "(a, c)")
    deployment = _plan(session, less)
    if not by_name:
        assert {step.action for step in deployment.steps} == {"replace"}
        return
    source, sink = deployment.steps
    assert (source.action, source.kind) == ("alter", "SOURCE")
    told = 'its table drops column "gone"; nothing is read again'
    assert (sink.action, sink.name.rpartition(".")[2], sink.effect) == ("alter", "whole", told)
    apply(deployment, session)
    assert _plan(session, less).steps == ()
    swapped = less.replace("counter bigint, more text", "more text, counter bigint")
    assert {step.action for step in _plan(session, swapped).steps} == {"replace"}
