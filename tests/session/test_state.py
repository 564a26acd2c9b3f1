"""The state of a sink is shown in `mz_state`, in EXPLAIN … WITH (STATE), and in the sink's status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import silent
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.session.session import Session
from support.running import drain, loop_of

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE e (k bigint NOT NULL, v bigint) FROM FILES (PATH = '{folder}/in', GLOB = '*.json') FORMAT JSON;
CREATE MATERIALIZED VIEW sums AS SELECT k, count(DISTINCT v) AS n FROM e GROUP BY k;
CREATE SINK s FROM sums INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK plain FROM e INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'p')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "in").mkdir()
    with Session(tmp_path / "catalog.db") as found:
        found.execute(_SCRIPT.format(folder=tmp_path))
        yield found


def put(folder: Path, name: str, keys: list[int]) -> None:
    lines = (json.dumps({"k": key, "v": number}) for number, key in enumerate(keys))
    (folder / "in" / f"{name}.json").write_text("\n".join(lines))


def run(session: Session, sink: str = "s", epoch: int = 1) -> BatchLoop:
    """Commit all available data with a sink, and report its progress as a running sink does."""
    (job,) = session.jobs([sink])
    control = session.catalog.control
    loop = loop_of(job, session.context(job), session.catalog.registry, control=control)
    loop.start(epoch=epoch, once=True)
    drain(loop)
    meter = ProgressMeter(job.sink_id, control, silent)
    meter.sample(job.sink, loop.readers, loop.checkpoint.end, waits=False, last=True, state=loop.report.metrics.now)
    return loop


def state(session: Session) -> list[dict[str, Any]]:
    (found,) = session.execute(
        "SELECT k.name, t.operator, t.arrangement, t.rows, t.bytes, t.runs, t.widest_key, t.taken_rows, t.given_rows"
        " FROM mz_internal.mz_state AS t JOIN mz_sinks AS k ON k.id = t.id ORDER BY t.arrangement"
    )
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def status(session: Session, sink: str) -> dict[str, Any]:
    columns, (row,) = session.status([sink])
    return dict(zip(columns, row, strict=True))


def plan(session: Session, sink: str = "s") -> list[str]:
    (found,) = session.execute(f"EXPLAIN PHYSICAL PLAN WITH (STATE) FOR SINK {sink}")
    return [row[0].strip() for row in found.rows]


def test_arrangements_are_told_with_their_rows_and_widest_key(session: Session, tmp_path: Path) -> None:
    assert state(session) == []
    assert "state: not known yet" in plan(session)
    put(tmp_path, "a", [7] * 20 + [1, 2, 3])
    loop = run(session)
    groups, values = state(session)
    entries = loop.state.load(loop.checkpoint)["arrangements"]
    assert {each["name"] for each in (groups, values)} == {"s"}
    assert {each["operator"] for each in (groups, values)} == {"aggregate"}
    assert (groups["rows"], values["rows"]) == (4, 23)
    assert (groups["widest_key"], values["widest_key"]) == (1, 20)
    assert (groups["taken_rows"], groups["given_rows"]) == (23, 4)
    for each in (groups, values):
        runs = [run for runs in entries[each["arrangement"]].values() for run in runs]
        assert each["bytes"] == sum(run["bytes"] for run in runs)
        assert each["runs"] == len(runs)
    lines = plan(session)
    assert f"state {values['arrangement']}: 23 rows, {values['bytes']:,} bytes, 2 runs, widest key 20 rows" in lines
    assert "last batch: 23 rows taken, 4 given" in lines


def test_the_status_tells_of_rows_that_become_many_and_of_a_wide_key(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a", [*range(10), *[3] * 9])
    run(session)
    found = status(session, "s")
    assert (found["amplification"], found["widest_key"], found["hint"]) == (0.5, 10, None)
    put(tmp_path, "b", list(reversed(range(10))))
    run(session, epoch=2)
    assert status(session, "s")["amplification"] == 2.0  # each change of a group retracts a row and adds one
    loop = run(session, epoch=3)
    (first, *_) = loop.report.metrics.now["arrangements"].values()
    first["widest"] = 1_000_001
    ProgressMeter(loop.job.sink_id, session.catalog.control, silent).sample(
        "s", loop.readers, loop.checkpoint.end, waits=False, last=True, state=loop.report.metrics.now
    )
    assert status(session, "s")["hint"] == (
        "A key of the sink's state has 1000001 rows. A change of the key may read or write all of them. "
        "EXPLAIN PHYSICAL PLAN WITH (STATE) FOR SINK s shows the place."
    )


def test_a_start_tells_what_the_state_holds_before_its_first_batch(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a", [1, 2, 3])
    run(session)
    before = [(each["rows"], each["runs"]) for each in state(session)]
    run(session, epoch=2)
    assert [(each["rows"], each["runs"], each["taken_rows"]) for each in state(session)] == [
        (*each, None) for each in before
    ]


def test_a_sink_without_state_has_none(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a", [1])
    run(session, "plain")
    assert state(session) == []
    assert status(session, "plain")["amplification"] is None
    assert not any(line.startswith("state") for line in plan(session, "plain"))


def test_other_options_and_other_plans_have_no_state(session: Session) -> None:
    for text in (
        "EXPLAIN PHYSICAL PLAN WITH (ARITY) FOR SINK s",
        "EXPLAIN PHYSICAL PLAN WITH (STATE = false) FOR SINK s",
        "EXPLAIN OPTIMIZED PLAN WITH (STATE) FOR SINK s",
        "EXPLAIN PHYSICAL PLAN WITH (STATE) AS JSON FOR SINK s",
        "EXPLAIN PHYSICAL PLAN WITH (STATE) FOR MATERIALIZED VIEW sums",
    ):
        with pytest.raises(SinkqlError) as caught:
            session.execute(text)
        assert caught.value.code == "SQ2970"
