"""Streams with overwritten, deleted and truncated rows → tables, through real commits."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.program.compiler import compile_text
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.local.engine import LocalEngine
from support.overwriting import CLEARED, HIGH, Line, add, arrow, gone, omit_some, omitted, registry, row, some
from support.readers import duckdb_folder
from support.running import loop_of

pytestmark = pytest.mark.long

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE e FROM LOAD GENERATOR COUNTER;
CREATE MATERIALIZED VIEW v AS {sql};
CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  {clauses} WITH (COMMIT INTERVAL = '1s', {options});
"""
_KINDS = {
    "whole": ("SELECT * FROM e", "KEY (k) MODE UPSERT", "FORMAT VERSION = 2"),
    "filtered": ("SELECT t, k, x * 2 AS y FROM e WHERE x > 1", "KEY (k) MODE UPSERT", "FORMAT VERSION = 3"),
    "parts": ("SELECT * FROM e", "KEY (k) MODE UPSERT PARTITION BY (t)", "FORMAT VERSION = 2"),
    "changelog": ("SELECT k, t FROM e WHERE x <> 2", "MODE APPEND", "FORMAT VERSION = 2"),
    "grouped": ("SELECT t, count(*) AS c, max(x) AS m FROM e GROUP BY t", "KEY (t) MODE UPSERT", "FORMAT VERSION = 3"),
    "positive": ("SELECT k, x * x AS x, t FROM e WHERE x > 0", "KEY (k) MODE UPSERT", "FORMAT VERSION = 2"),
    "divided": ("SELECT k, 10 % x AS q FROM e", "KEY (k) MODE UPSERT", "FORMAT VERSION = 2"),
    "some columns": ("SELECT k, t FROM e", "KEY (k, t) MODE UPSERT", "FORMAT VERSION = 2"),
    "other key": ("SELECT k, x FROM e", "KEY (k, x) MODE UPSERT", "FORMAT VERSION = 2"),
}


def open_loop(
    folder: Path, kind: str, *, options: str = "", rows: int = 12, holes: bool = False, engine: Engine | None = None
) -> BatchLoop:
    """Return the batch loop of a sink of the given kind, not started."""
    sql, clauses, own = _KINDS[kind]
    script = _SCRIPT.format(
        folder=folder, sql=sql, clauses=clauses, options=f"MAX ROWS PER COMMIT = {rows}, {own}{options}"
    )
    own_registry = registry(folder / "stream", holes=holes)
    job = compile_text(script, facts={"s": {"sink_id": "sink"}}, registry=own_registry).jobs[0]
    context = Context(job.sink, job.sink_id, folder / "state", lambda _: "")
    context.folder.mkdir(exist_ok=True)
    return loop_of(job, context, own_registry, engine=engine or LocalEngine(2))


def catch_up(loop: BatchLoop) -> None:
    """Commit all available input, batch by batch, like a running sink."""
    while True:
        start = loop.checkpoint.end
        targets = {name: reader.target(start[name]) for name, reader in loop.readers.items()}
        if start == targets:
            return
        orders = PacingOrders(start, timedelta(0), loop.job.max_rows_per_commit, targets)
        loop.commit_batch(start, Pacer(loop.readers).next_end(start, orders, 0))


def check(folder: Path, kind: str, lines: list[Line]) -> None:
    """Check that two readers return the rows that DuckDB computes from the input."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("e", arrow(lines))
        expected = Counter(connection.execute(_KINDS[kind][0]).fetchall())
    table = folder / "lake" / "n" / "t"
    if kind == "changelog":
        found: Counter[tuple[object, ...]] = Counter()
        for *values, diff in duckdb_folder(table, "k, t, _mz_diff"):
            found[tuple(values)] += diff
        assert +expected == +found
        assert min(found.values(), default=0) >= 0
        return
    assert expected == Counter(duckdb_folder(table))


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", [kind for kind in _KINDS if kind != "divided"])
def test_table_is_what_the_sql_gives_of_the_rows_that_are_there(kind: str, tmp_path: Path) -> None:
    rng = random.Random(kind)
    lines: list[Line] = []
    loop = open_loop(tmp_path, kind)
    loop.start(epoch=1)
    for number, size in enumerate((3, 0, 30, 9, 1, 25, 14)):
        new = some(rng, size)
        add(tmp_path / "stream", new)
        lines += new
        if number % 3 == 2:
            loop = open_loop(tmp_path, kind)
            loop.start(epoch=1)
        if number == 5 and loop.job.stateful() and loop.job.write.mode == "upsert":
            shutil.rmtree(tmp_path / "state" / "state")  # rebuilt from the source
        catch_up(loop)
        check(tmp_path, kind, lines)
    assert CLEARED in lines
    add(tmp_path / "stream", [CLEARED])
    catch_up(loop)
    check(tmp_path, kind, [])


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", ["whole", "filtered", "changelog", "grouped"])
def test_values_that_the_server_left_out_are_those_from_before(kind: str, tmp_path: Path) -> None:
    rng = random.Random(kind)
    lines: list[Line] = []
    loop = open_loop(tmp_path, kind, holes=True)
    assert loop.job.write.change == "retract"
    loop.start(epoch=1)
    for size in (4, 20, 0, 30, 1, 25):
        new = omit_some(rng, lines, size)
        add(tmp_path / "stream", new)
        lines += new
        catch_up(loop)
        check(tmp_path, kind, lines)
    assert sum("from" in each for each in lines) > 5


@pytest.mark.parametrize(
    "last",
    [
        [omitted(row(3, 8, ""), "t")],
        [row(3, 1, "b"), gone(3), omitted(row(3, 8, ""), "t")],
        [CLEARED, omitted(row(1, 8, ""), "t")],
        [omitted(row(4, 8, ""), "t", had=3)],
    ],
    ids=["never there", "gone", "all gone", "other key never there"],
)
def test_a_row_that_nothing_completes_stops_the_sink_unless_a_snapshot_continues(
    last: list[Line], tmp_path: Path
) -> None:
    loop = open_loop(tmp_path, "whole", holes=True)
    loop.start(epoch=1)
    early = [
        row(1, 0, "a"),
        omitted(row(2, 5, ""), "t"),
        omitted(row(3, 5, ""), "t"),
        omitted(row(4, 0, ""), "t", had=9),
    ]
    add(tmp_path / "stream", early)
    (tmp_path / HIGH).write_text("6")
    catch_up(loop)
    check(tmp_path, "whole", early[:1])
    later = [row(2, 5, "chunk"), gone(3), omitted(row(2, 6, ""), "t"), omitted(row(1, 7, ""), "t")]
    add(tmp_path / "stream", later)
    catch_up(loop)
    check(tmp_path, "whole", [early[0], *later])
    add(tmp_path / "stream", last)
    with pytest.raises(SinkqlError) as stopped:
        catch_up(loop)
    assert (stopped.value.code, stopped.value.detail) == ("SQ3417", f"the key is k = {last[-1]['k']}")
    check(tmp_path, "whole", [early[0], *later])


def test_a_row_that_is_overwritten_in_its_batch_fails_no_expression(tmp_path: Path) -> None:
    loop = open_loop(tmp_path, "divided")
    loop.start(epoch=1)
    lines = [row(1, 2, "a"), row(2, 0, "b"), row(2, 5, "b"), row(3, 0, "c"), gone(3)]
    add(tmp_path / "stream", lines)
    catch_up(loop)
    check(tmp_path, "divided", lines)
    add(tmp_path / "stream", [row(1, 1, "a"), row(4, 0, "d")])
    with pytest.raises(SinkqlError) as stopped:
        catch_up(loop)
    assert stopped.value.code == "SQ3201"
    add(tmp_path / "stream", [gone(4)])
    catch_up(loop)
    check(tmp_path, "divided", [*lines, row(1, 1, "a")])


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_when_all_rows_go_those_of_others_stay(kind: str, tmp_path: Path) -> None:
    loop = open_loop(tmp_path, kind, options=", EXISTING ROWS = KEEP")
    loop.start(epoch=1)
    add(tmp_path / "stream", [row(1, 2, "a"), row(2, 3, "b")])
    catch_up(loop)
    table = open_table(tmp_path)
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    table.append(pa.Table.from_pylist([{"k": k, "x": 9, "t": "theirs"} for k in (7, 8)], schema))
    add(tmp_path / "stream", [CLEARED, row(3, 4, "c"), row(7, 5, "d")])
    catch_up(loop)
    kept = {each["k"]: each["t"] for each in open_table(tmp_path).scan().to_arrow().to_pylist()}
    assert kept == {3: "c", 7: "d", 8: "theirs"}
    assert len(duckdb_folder(tmp_path / "lake" / "n" / "t")) == 3


def test_rows_computed_again_are_those_after_all_went(tmp_path: Path) -> None:
    rng = random.Random("again")
    loop = open_loop(tmp_path, "whole")
    loop.start(epoch=1)
    later = [each for each in some(rng, 60) if each != CLEARED]
    lines = [*some(rng, 40), CLEARED, *(row(k, 1, "a") for k in range(9)), *later]
    add(tmp_path / "stream", lines)
    catch_up(loop)
    other = open_loop(tmp_path, "positive")
    follows = (physical.Earlier(loop.job.plan, again=True),)
    other.resume_point.job = msgspec.structs.replace(other.job, follows=follows)
    other.start(epoch=1)
    assert other.needs_full_refresh()
    other.full_refresh()
    check(tmp_path, "positive", lines)


def test_rows_without_a_key_that_go_at_once_stop_the_sink(tmp_path: Path) -> None:
    loop = open_loop(tmp_path, "whole")
    loop.start(epoch=1)
    add(tmp_path / "stream", [row(1, 2, "a")])
    catch_up(loop)
    add(tmp_path / "stream", [CLEARED])
    (read,) = loop.job.reads()
    keyless = msgspec.structs.replace(read, change="retract", key=())
    write = msgspec.structs.replace(loop.job.write, input=keyless)
    loop.computation.job = msgspec.structs.replace(loop.job, write=write)
    with pytest.raises(SinkqlError) as stopped:
        catch_up(loop)
    assert stopped.value.code == "SQ3416"
    check(tmp_path, "whole", [row(1, 2, "a")])


def open_table(folder: Path) -> Table:
    """Open the table as another program would."""
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    return catalog.load_table("n.t")
