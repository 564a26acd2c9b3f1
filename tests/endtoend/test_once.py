"""One `exec --once` of many sinks from a different folder: foreign files, a broken file, generated tables."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.orc as po
import pytest

from generator import made
from support.command import ONLY_LATE, run
from support.readers import connect, duckdb_folder

pytestmark = pytest.mark.slow

_AUCTION = (Path(__file__).parents[2] / "examples" / "auction" / "pipeline.sql").read_text()
_LAKE = _AUCTION[: _AUCTION.index(";") + 1]
_GENERATED = """
CREATE SOURCE shop FROM LOAD GENERATOR TPCH (SCALE FACTOR 0.001, UP TO 3500, SEED 5);
CREATE TABLE lineitem FROM SOURCE shop (REFERENCE tpch.lineitem);
CREATE SINK lineitem_sink FROM lineitem
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'house', TABLE = 'lineitem')
  KEY (l_orderkey, l_linenumber) MODE UPSERT WITH (COMMIT INTERVAL = '2s', MAX ROWS PER COMMIT = 30000);
"""
_WITHOUT_TIMES = {
    "lineitem": "SELECT COLUMNS('^l_') FROM {}",
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

_ROWS = """
SELECT i::bigint AS id, CASE WHEN i % 7 > 0 THEN 'name ' || i END AS name, (i / 4)::decimal(12, 2) AS amount,
  i % 2 = 0 AS even, DATE '2024-01-01' + (i % 400)::int AS day, TIMESTAMP '2024-01-01' + to_microseconds(i * 1001) AS at
FROM range(50000) AS r(i)
"""
_COLUMNS = "(id bigint, name text, amount numeric(12, 2), even boolean, day date, at timestamp)"
_FILES = f"""
CREATE SOURCE json {_COLUMNS} FROM FILES (PATH = 'json', COMPRESSION = ZSTD) FORMAT JSON;
CREATE SOURCE csv {_COLUMNS} FROM FILES (PATH = 'csv') FORMAT CSV WITH HEADER;
CREATE SOURCE parquet FROM FILES (PATH = 'parquet') FORMAT PARQUET;
CREATE SOURCE orc FROM FILES (PATH = 'orc') FORMAT ORC;
CREATE MATERIALIZED VIEW files AS
SELECT 'json' AS format, id, name, amount, even, day, at FROM json
UNION ALL SELECT 'csv', id, name, amount, even, day, at FROM csv
UNION ALL SELECT 'parquet', id, name, amount, even, day, at FROM parquet
UNION ALL SELECT 'orc', id, name, amount, even, day, at FROM orc;
CREATE SINK files_sink FROM files
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'files') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '1s');
"""
_FORMATS = ("json", "csv", "parquet", "orc")

_BROKEN = """
CREATE SOURCE s (id bigint, name text) FROM FILES (PATH = 'in') FORMAT JSON;
CREATE SINK k FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE MATERIALIZED VIEW names WITH (COMMIT INTERVAL = '1s') AS SELECT name, count(*) AS n FROM s GROUP BY name;
CREATE SINK names_sink FROM names INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'names')
  KEY (name) NOT ENFORCED ENVELOPE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_LINES = [f'{{"id": {i}, "name": "n{i}"}}' for i in range(30)]


@dataclass(frozen=True)
class Ran:
    """The project's folder, the ended process, and the folder in which it ran."""

    folder: Path
    ended: subprocess.CompletedProcess[str]
    elsewhere: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("once")
    for name in (*_FORMATS, "in"):
        (folder / name).mkdir()
    _write_files(folder)
    (folder / "in" / "a.json").write_text('{"id": 100, "name": "x"}\n')
    (folder / "in" / "b.json").write_text("\n".join([*_LINES[:16], '{"id": 16, "name": ', *_LINES[17:]]))
    (folder / "pipeline.sql").write_text(_AUCTION + _GENERATED + _FILES + _BROKEN)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ended = run(
        "--catalog", f"{folder}/.sinkql/catalog.db", "exec", "--once", f"{folder}/pipeline.sql", folder=elsewhere
    )
    return Ran(folder, ended, elsewhere)


def _write_files(folder: Path) -> None:
    with duckdb.connect() as written:
        written.execute(f"CREATE TABLE rows AS {_ROWS}")
        for part in range(2):
            rows = f"(FROM rows WHERE id % 2 = {part} ORDER BY id)"
            written.execute(f"COPY {rows} TO '{folder}/json/{part}' (FORMAT json, COMPRESSION zstd)")
            written.execute(f"COPY {rows} TO '{folder}/csv/{part}.csv.gz' (FORMAT csv, HEADER)")
            written.execute(f"COPY {rows} TO '{folder}/parquet/{part}' (FORMAT parquet, ROW_GROUP_SIZE 5000)")
            po.write_table(written.sql(f"FROM {rows}").to_arrow_table(), folder / "orc" / str(part))


@pytest.mark.soak
def test_generated_tables_are_in_iceberg_as_the_generators_have_them(ran: Ran) -> None:
    with connect() as database:
        for name, reader in {**made.readers(), **made.readers(_HOUSE)}.items():
            database.register(name, made.table(reader))
        database.execute(_VIEWS)
        for name, query in _WITHOUT_TIMES.items():
            written = query.format(f"iceberg_scan('{ran.folder}/lake/house/{name}')")
            expected = database.execute(f"{query.format(name)} ORDER BY ALL").fetchall()
            assert database.execute(f"{written} ORDER BY ALL").fetchall() == expected, name


def test_files_that_other_programs_wrote_give_their_rows(ran: Ran) -> None:
    with connect() as reader:
        reader.execute(f"CREATE TABLE rows AS {_ROWS}")
        for name in _FORMATS:
            table = f"(SELECT * EXCLUDE format FROM iceberg_scan('{ran.folder}/lake/n/files') WHERE format = '{name}')"
            for one, other in ((table, "rows"), ("rows", table)):
                assert reader.execute(f"FROM {one} EXCEPT ALL FROM {other}").fetchall() == []


def test_nothing_is_made_where_a_pipeline_is_only_run(ran: Ran) -> None:
    assert [*ran.elsewhere.iterdir()] == []
    made = {".sinkql", "lake", "pipeline.sql", "again.sql", "in", *_FORMATS}
    assert {each.name for each in ran.folder.iterdir()} <= made


@pytest.mark.soak
def test_a_file_that_does_not_parse_at_row_17_stops_what_reads_it_alone_until_it_is_mended(ran: Ran) -> None:
    folder, shown = ran.folder, ran.ended.stderr + ran.ended.stdout
    assert ran.ended.returncode == 3
    codes = [code for code in re.findall(r"error\[(\w+)\]", shown) if code != ONLY_LATE]
    assert sorted(codes) == ["SQ3101", "SQ3101", "SQ3455"]  # the sink, the view, and the sink of the view
    assert "b.json:17" in shown
    (folder / "in" / "b.json").write_text("\n".join(_LINES))
    (folder / "again.sql").write_text(_LAKE + _BROKEN)
    again = run("exec", "--once", "again.sql", folder=folder)  # this time in the project's folder
    assert again.returncode == 0, again.stderr
    assert "already exists" in again.stderr
    assert duckdb_folder(folder / "lake" / "n" / "t", "id, name") == [*((i, f"n{i}") for i in range(30)), (100, "x")]
    assert len(duckdb_folder(folder / "lake" / "n" / "names", "name")) == 31
