"""A sink without Spark writes a table of each kind of generator into Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator import made
from sinkql import compile as compile_sql
from sinkql.connector_api.registry import discover
from sinkql.runtime.local.engine import LocalEngine
from support.readers import connect
from support.running import contexts, drain, loop_of

_CONNECTION = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{0}/lake.db', WAREHOUSE = '{0}/lake');
"""
_SINK = """
CREATE SINK s FROM {0} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = '{0}')
  KEY ({1}) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = 3000);
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "key", "query"),
    [
        ("auctions", "id", "SELECT id, seller, item FROM {}"),
        ("leads", "id", "SELECT id, customer_id, conversion_amount FROM {}"),
        ("lineitem", "l_orderkey, l_linenumber", "SELECT COLUMNS('^l_') FROM {}"),
        ("clock", "time", "SELECT count(*) FROM {}"),
        ("kv", "key", 'SELECT "key", "partition", "value", "offset" FROM {}'),
    ],
)
def test_a_generated_table_is_in_iceberg_as_the_generator_has_it(
    tmp_path: Path, name: str, key: str, query: str
) -> None:
    run(tmp_path, _CONNECTION.format(tmp_path) + made.SOURCES + _SINK.format(name, key))
    with connect() as database:
        database.register(name, made.table(made.readers()[name]))
        written = query.format(f"iceberg_scan('{tmp_path}/lake/house/{name}')")
        expected = database.execute(f"{query.format(name)} ORDER BY ALL").fetchall()
        assert database.execute(f"{written} ORDER BY ALL").fetchall() == expected


def run(folder: Path, text: str) -> None:
    """Run a script's sink to the end of its source."""
    sources = ("house", "market", "shop", "clock", "few", "kv", "log")
    facts = {name: {"since": made.SINCE} for name in sources}
    (job,) = compile_sql(text, facts={**facts, "s": {"sink_id": "5f6e1c1e-0001"}}).jobs
    registry, context = discover(), contexts(folder, job)
    loop = loop_of(job, context, registry, engine=LocalEngine(2))
    loop.start(epoch=1, once=True)
    drain(loop)
