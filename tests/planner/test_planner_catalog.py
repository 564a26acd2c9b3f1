"""The catalog in memory: stored items plan again, alike and offline, and a failed statement leaves no changes."""

import subprocess
import sys

import pytest

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.planner import plan_drop
from sinkql.printer import to_sql

SCRIPT = """
CREATE SECRET s AS env_var('S');
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'AK', SECRET ACCESS KEY = SECRET s, ENDPOINT = 'http://127.0.0.1:1');
CREATE CONNECTION lake TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:1', CREDENTIAL = 'id:' || SECRET s, SCOPE = 'catalog'
);
CREATE CONNECTION tables TO ICEBERG CATALOG (
  CATALOG TYPE = 'REST', URL = 'http://127.0.0.1:1', WAREHOUSE = 'b', CREDENTIAL = SECRET s, STORAGE PROVIDER = 'S3'
);
CREATE CLUSTER small SIZE 'local[1]', CONF MAP['spark.ui.enabled' => false];
CREATE SOURCE events (
  user_id bigint NOT NULL, session_id text, at timestamp NOT NULL, price numeric(12, 2)
) FROM FILES (PATH = 'events') FORMAT JSON;
CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE VIEW paid (who, hour, price) AS
  SELECT user_id, date_trunc('hour', at), price
  FROM events
  WHERE price > 0;
CREATE MATERIALIZED VIEW summary AS
  SELECT who, hour, COUNT(*) AS n, SUM(price) AS total
  FROM paid
  GROUP BY who, hour;
CREATE SINK summary_sink
  IN CLUSTER small
  FROM summary
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'a', TABLE 't')
  USING AWS CONNECTION aws
  KEY (who, hour)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1min');
CREATE SINK counter_sink
  FROM counter
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE 'a', TABLE 'u')
  ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1min');
"""


def loaded(text: str) -> MemoryCatalog:
    catalog = MemoryCatalog(discover())
    for statement in parse(text):
        assert isinstance(statement, ast.Create)
        catalog.add(statement, {})
    return catalog


def test_what_is_stored_plans_again_to_the_same_items() -> None:
    first = loaded(SCRIPT)
    stored = [entry for entry in first.entries() if entry.id.startswith("u")]
    second = loaded("\n".join(to_sql(entry.statement) for entry in stored))
    assert [entry.statement for entry in first.entries()] == [entry.statement for entry in second.entries()]
    assert [first.item(entry.name) for entry in stored] == [second.item(entry.name) for entry in stored]
    assert [first.dependencies(entry.name) for entry in stored] == [second.dependencies(entry.name) for entry in stored]


def test_stored_statements_name_everything_in_full() -> None:
    entry = loaded(SCRIPT).entry("materialize.public.counter_sink")
    assert entry is not None
    assert to_sql(entry.statement) == (
        "CREATE SINK materialize.public.counter_sink\n"
        "  IN CLUSTER quickstart\n"
        "  FROM materialize.public.counter\n"
        "  INTO ICEBERG CATALOG CONNECTION materialize.public.lake (NAMESPACE = 'a', TABLE = 'u')\n"
        "  ENVELOPE NONE\n"
        "  WITH (COMMIT INTERVAL = '1min');"
    )


def test_planning_loads_nothing_that_runs() -> None:
    heavy = ("pyspark", "pyiceberg", "pyarrow", "boto3", "sqlalchemy", "duckdb", "numpy")
    script = (
        "import sys\n"
        "from sinkql.catalog.memory import MemoryCatalog\n"
        "from sinkql.connector_api.registry import Registry, discover\n"
        "from sinkql.parser import parse\n"
        "catalog = MemoryCatalog(discover())\n"
        f"for statement in parse({SCRIPT!r}):\n"
        "    catalog.add(statement, {})\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_statement_that_is_wrong_leaves_nothing() -> None:
    catalog = loaded(SCRIPT)
    before = catalog.entries()
    (wrong,) = parse("CREATE SINK k FROM paid INTO ICEBERG CATALOG CONNECTION lake MODE APPEND;")
    assert isinstance(wrong, ast.Create)
    with pytest.raises(SinkqlError):
        catalog.add(wrong, {})
    assert catalog.entries() == before


def test_ids_go_up_and_given_ones_are_kept() -> None:
    catalog = MemoryCatalog(discover())
    for number, name in enumerate(("a", "b", "c")):
        (statement,) = parse(f"CREATE SECRET {name} AS 'x';")
        assert isinstance(statement, ast.Create)
        catalog.add(statement, {}, id="u7" if number == 1 else None)
    assert [entry.id for entry in catalog.entries()] == ["s1", "s6", "s5", "u1", "u7", "u8"]


def test_cascade_drops_users_before_what_they_use() -> None:
    catalog = loaded(SCRIPT)
    (drop,) = parse("DROP SECRET s CASCADE;")
    assert isinstance(drop, ast.Drop)
    order = plan_drop(drop, catalog, catalog.dependents).names
    for place, name in enumerate(order):
        assert not set(catalog.dependents(name)) & set(order[place:])
    assert [name for name in order if name.endswith("_sink")] == list(order[:2])


def test_quoted_names_with_dots_are_one_part() -> None:
    catalog = loaded("CREATE SECRET \"a.b\" AS 'x';")
    assert catalog.names("SECRET") == ('materialize.public."a.b"',)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE SOURCE c FROM LOAD GENERATOR COUNTER;", "SQ2450"),
        (
            "CREATE SINK k FROM c INTO ICEBERG CATALOG CONNECTION l (NAMESPACE 'a', TABLE 't') MODE APPEND "
            "WITH (COMMIT INTERVAL '1s');",
            "SQ2321",
        ),
        ("CREATE CONNECTION c TO AWS (REGION = 'a');", "SQ2502"),
    ],
)
def test_a_kind_that_no_connector_offers_is_refused(text: str, code: str) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, ast.Create)
    with pytest.raises(SinkqlError) as refused:
        MemoryCatalog(Registry()).add(statement, {})
    assert refused.value.code == code
