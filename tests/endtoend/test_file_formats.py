"""Files that other programs wrote, in every format, through one `exec --once` into tables: the same rows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.orc as po
import pytest

from support.command import run
from support.readers import connect

pytestmark = pytest.mark.slow

_ROWS = """
SELECT i::bigint AS id, CASE WHEN i % 7 > 0 THEN 'name ' || i END AS name, (i / 4)::decimal(12, 2) AS amount,
  i % 2 = 0 AS even, DATE '2024-01-01' + (i % 400)::int AS day, TIMESTAMP '2024-01-01' + to_microseconds(i * 1001) AS at
FROM range(50000) AS r(i)
"""
_SOURCES = {
    "json": "(id bigint, name text, amount numeric(12, 2), even boolean, day date, at timestamp) "
    "FROM FILES (PATH = 'json', COMPRESSION = ZSTD) FORMAT JSON",
    "csv": "(id bigint, name text, amount numeric(12, 2), even boolean, day date, at timestamp) "
    "FROM FILES (PATH = 'csv') FORMAT CSV WITH HEADER",
    "parquet": "FROM FILES (PATH = 'parquet') FORMAT PARQUET",
    "orc": "FROM FILES (PATH = 'orc') FORMAT ORC",
}


def test_files_that_other_programs_wrote_give_their_rows(tmp_path: Path) -> None:
    written = duckdb.connect()
    written.execute(f"CREATE TABLE rows AS {_ROWS}")
    script = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
    for name, source in _SOURCES.items():
        (tmp_path / name).mkdir()
        script += f"""CREATE SOURCE {name} {source};
CREATE SINK {name}_sink FROM {name} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""
    (tmp_path / "pipeline.sql").write_text(script)
    for part in range(2):
        rows = f"(FROM rows WHERE id % 2 = {part} ORDER BY id)"
        written.execute(f"COPY {rows} TO '{tmp_path}/json/{part}' (FORMAT json, COMPRESSION zstd)")
        written.execute(f"COPY {rows} TO '{tmp_path}/csv/{part}.csv.gz' (FORMAT csv, HEADER)")
        written.execute(f"COPY {rows} TO '{tmp_path}/parquet/{part}' (FORMAT parquet, ROW_GROUP_SIZE 5000)")
        po.write_table(written.sql(f"FROM {rows}").to_arrow_table(), tmp_path / "orc" / str(part))
    run("exec", "--once", "pipeline.sql", folder=tmp_path)
    reader = connect()
    reader.execute(f"CREATE TABLE rows AS {_ROWS}")
    for name in _SOURCES:
        table = f"iceberg_scan('{tmp_path}/lake/n/{name}')"
        for one, other in ((table, "rows"), ("rows", table)):
            assert reader.execute(f"FROM {one} EXCEPT ALL FROM {other}").fetchall() == []
