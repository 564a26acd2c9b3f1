"""The auction example, and a table of each other kind, through the command into Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator import made
from support.command import run
from support.readers import connect

pytestmark = pytest.mark.slow

_EXAMPLE = Path(__file__).parents[2] / "examples" / "auction" / "pipeline.sql"
_SOURCES = """
CREATE SOURCE market FROM LOAD GENERATOR MARKETING (TICK INTERVAL '500ms', UP TO 2000, SEED 5) FOR TABLES (leads);
CREATE SOURCE shop FROM LOAD GENERATOR TPCH (SCALE FACTOR 0.001, UP TO 3500, SEED 5);
CREATE TABLE lineitem FROM SOURCE shop (REFERENCE tpch.lineitem);
CREATE SOURCE clock FROM LOAD GENERATOR CLOCK (UP TO 500);
CREATE SOURCE kv FROM LOAD GENERATOR KEY VALUE (
  KEYS 24, SNAPSHOT ROUNDS 3, VALUE SIZE 11, SEED 5, PARTITIONS 4, BATCH SIZE 2, UP TO 60
) INCLUDE KEY, OFFSET ENVELOPE UPSERT;
"""
_SINK = """
CREATE SINK {0}_sink FROM {0} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = '{0}')
  KEY ({1}) MODE UPSERT WITH (COMMIT INTERVAL = '2s', MAX ROWS PER COMMIT = 30000);
"""
_KEYS = {"leads": "id", "lineitem": "l_orderkey, l_linenumber", "clock": "time", "kv": "key"}
_WITHOUT_TIMES = {
    "leads": "SELECT id, customer_id, conversion_amount FROM {}",
    "lineitem": "SELECT COLUMNS('^l_') FROM {}",
    "clock": "SELECT count(*) FROM {}",
    "kv": 'SELECT "key", "partition", "value", "offset" FROM {}',
    "auctions": "SELECT id, seller, item FROM {}",
    "auction_bids": "SELECT auction_id, bid_count, highest_bid FROM {}",
    "buyers": "SELECT buyer, auction_count, offered FROM {}",
}
_VIEWS = """
CREATE VIEW auction_bids AS
SELECT auction_id, count(*) AS bid_count, max(amount) AS highest_bid FROM bids GROUP BY auction_id;
CREATE VIEW buyers AS
SELECT buyer, count(DISTINCT auction_id) AS auction_count, sum(amount) AS offered FROM bids GROUP BY buyer;
"""
_HOUSE = "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (UP TO 3000) FOR ALL TABLES;"


def test_generated_tables_are_in_iceberg_as_the_generators_have_them(tmp_path: Path) -> None:
    sinks = "".join(_SINK.format(name, key) for name, key in _KEYS.items())
    (tmp_path / "pipeline.sql").write_text(_EXAMPLE.read_text() + _SOURCES + sinks)
    done = run("exec", "--once", "pipeline.sql", folder=tmp_path)
    assert done.returncode == 0, done.stderr

    with connect() as database:
        for name, reader in {**made.readers(), **made.readers(_HOUSE)}.items():
            database.register(name, made.table(reader))
        database.execute(_VIEWS)
        for name, query in _WITHOUT_TIMES.items():
            written = query.format(f"iceberg_scan('{tmp_path}/lake/house/{name}')")
            expected = database.execute(f"{query.format(name)} ORDER BY ALL").fetchall()
            assert database.execute(f"{written} ORDER BY ALL").fetchall() == expected, name
