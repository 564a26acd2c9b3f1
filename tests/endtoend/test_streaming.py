"""The pipelines of examples/streaming after restarts: each event is in its table once, and orders are current."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.session import Session
from support.readers import Rows, duckdb_folder, open_table, pyiceberg_rows
from support.running import drain, loop_of

_EXAMPLES = Path(__file__).parents[2] / "examples" / "streaming"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "events").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(session: Session, *, epoch: int, once: bool = True) -> int:
    """Start the sink; commit up to its targets with `once`, else all available data; return the number of commits."""
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=epoch, once=once)
    return drain(loop)


def test_each_event_is_in_the_table_once(folder: Path) -> None:
    with Session() as session:
        session.execute((_EXAMPLES / "append_events.sql").read_text())
        for day in (1, 2):
            event = {"device": day, "reading": 1.5, "measured_at": f"2026-01-0{day}T12:00:00Z"}
            (folder / "events" / f"{day}.json").write_text(json.dumps(event) + "\n")
            assert run(session, epoch=day) == 1
        assert run(session, epoch=3) == 0
    assert [row[0] for row in duckdb_folder(folder / "lake" / "db" / "events", "device")] == [1, 2]
    parts = {task.file.partition[0] for task in open_table(folder / "lake", "db.events").scan().plan_files()}
    assert len(parts) == 2


def test_changed_and_deleted_orders_are_so_in_the_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (_EXAMPLES / "mirror_orders.sql").read_text().replace("TICK INTERVAL = '10ms'", "TICK INTERVAL = '1ms'")
    assert "TICK INTERVAL = '1ms', UP TO = 3000" in script
    found: list[Rows] = []
    for name, text in (("first", script.replace("UP TO = 3000", "UP TO = 0")), ("last", script)):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        with Session() as session:
            session.execute(text)
            run(session, epoch=1, once=False)  # up to the generator's present position
            run(session, epoch=2)
        rows = duckdb_folder(folder / name / "lake" / "db" / "orders")
        assert rows == pyiceberg_rows(open_table(folder / name / "lake", "db.orders"))
        assert len({row[0] for row in rows}) == len(rows) == 1500
        found.append(rows)
    assert not set(found[0]) & set(found[1])  # each order was replaced twice
