"""`sinkql up`: a different session creates, changes, stops and drops sinks of the catalog while it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkql.session import Session
from support.command import Running, late, run, start
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CLUSTER one (SIZE = 'local[1]', EXECUTION = SPARK);
CREATE CLUSTER two (SIZE = 'local[1]', EXECUTION = SPARK);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 1000);
"""
_SINK = """
CREATE SINK {name} IN CLUSTER one FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


def _full(name: str) -> str:
    return f"materialize.public.{name}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        found = tmp_path_factory.mktemp("up")
        patch.chdir(found)
        yield found


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with Session() as session:
        session.execute(_ITEMS + _SINK.format(name="a"))
        yield session


@pytest.fixture(scope="module")
def held(session: Session) -> str:
    """Acquire the lease of sink a for a live owner; return the sink's id."""
    sink_id = session.jobs(["a"])[0].sink_id
    session.catalog.control.acquire(sink_id, owner="another", takeover=False)
    return sink_id


@pytest.fixture(scope="module")
def up(held: str, session: Session, folder: Path) -> Iterator[Running]:
    """Start one process for all tests; each test continues where the previous one ended."""
    found = start("up", folder=folder)
    try:
        found.wait_for(lambda event: event == {"event": "elsewhere", "sink": _full("a")})
        session.catalog.control.release(held, owner="another")
        found.wait_for_commit(_full("a"), 1)
        yield found
    finally:
        found.kill()


def _committed(sink: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["event"] == "committed" and event["sink"] == _full(sink) and event["rows"] > 0


def _started(sink: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["event"] == "started" and event["sink"] == _full(sink)


def test_a_sink_is_run_once_nobody_else_does_and_refused_to_others(up: Running, folder: Path) -> None:
    refused = run("up", "a", "--once", folder=folder)
    assert refused.returncode == 5
    assert "error[SQ5201]" in refused.stderr + refused.stdout
    assert "Spark" not in refused.stdout


def test_sinks_join_stop_start_and_leave(up: Running, session: Session, folder: Path) -> None:
    session.execute(_SINK.format(name="b"))
    up.wait_for_commit(_full("b"), 1)
    session.stop("a")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full("a"), "why": "stopped"})
    assert run("start", "a", folder=folder).returncode == 0
    up.wait_for(_started("a"))
    session.execute("DROP SINK b;")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full("b"), "why": "dropped"})
    up.wait_for(_committed("a"))
    assert sum(event["event"] == "spark starting" for event in up.events) == 1
    numbers = duckdb_folder(folder / "lake" / "n" / "b")
    assert numbers == [(number,) for number in range(1, len(numbers) + 1)] != []


def _told_at_another_pace(up: Running, session: Session) -> set[str]:
    """Change the interval of sink a twice; return the kinds of events until it has committed twice."""
    before = len(up.events)
    session.execute("ALTER SINK a SET (COMMIT INTERVAL = '1h');")
    session.execute("ALTER SINK a SET (COMMIT INTERVAL = '2s');")
    # Neither change starts a new query. Without the second one, the next commit would be hours away.
    up.wait_for(_committed("a"))
    up.wait_for(_committed("a"))
    return {event["event"] for event in up.events[before:]}


def test_sinks_follow_what_alter_makes_of_them(up: Running, session: Session) -> None:
    first, quiet = len(up.events), {"committed", "compacted"}
    while not (told := _told_at_another_pace(up, session)) <= quiet:
        assert any(late(event) for event in up.events[first:]), told

    session.execute("ALTER SINK a SET (RETAIN SNAPSHOTS = 3);")
    up.wait_for(_started("a"))
    up.wait_for(_committed("a"))
    session.execute("ALTER SINK a RENAME TO z; ALTER SOURCE n RENAME TO numbers;")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full("a"), "why": "renamed"})
    up.wait_for(_committed("z"))

    session.execute(
        "CREATE SOURCE m FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 10);"
        "CREATE MATERIALIZED VIEW both AS SELECT counter FROM numbers UNION ALL SELECT -counter FROM m;"
        "ALTER SINK z SET FROM both;"
    )
    up.wait_for(_started("z"))
    up.wait_for(_committed("z"))
    up.wait_for(_committed("z"))


def test_a_killed_process_is_replaced(up: Running, session: Session, held: str) -> None:
    holder = session.catalog.control.holder(held)
    assert holder is not None
    os.kill(holder.process.pid, signal.SIGKILL)
    died = up.wait_for(lambda event: event["event"] == "stopped")
    assert (died["sink"], died["error"]["code"]) == (_full("z"), "SQ4004")
    up.wait_for(_committed("z"))


@pytest.mark.soak
def test_sinks_move_to_other_clusters_and_clusters_take_other_settings(up: Running, session: Session) -> None:
    ((name, *_),) = session.execute("SHOW SINKS;")[0].rows  # another one if the tests before did not run
    session.execute(f"ALTER SINK {name} SET CLUSTER two;")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full(name), "why": "moved"})
    assert up.wait_for(lambda event: event["event"] == "starting")["cluster"] == "two"
    up.wait_for(_committed(name))

    session.execute("ALTER CLUSTER two SET (MEMORY = '1g');")
    up.wait_for(lambda event: event == {"event": "stopped", "sink": _full(name), "why": "stopped"})
    up.wait_for(lambda event: event["event"] == "spark started")
    up.wait_for(_committed(name))


def test_it_stops_at_a_signal_and_every_row_is_there_once(up: Running, folder: Path) -> None:
    assert up.interrupt(signal.SIGTERM) == 0
    up.rest()

    numbers = [number for (number,) in duckdb_folder(folder / "lake" / "n" / "a")]
    shared, new = sorted(n for n in numbers if n > 0), sorted(-n for n in numbers if n < 0)
    assert shared == list(range(1, len(shared) + 1))
    assert new == [new[0] + place for place in range(len(new))]
    told = sum(up.rows.get(_full(name), 0) for name in "az")
    assert len(numbers) >= told > 0  # the killed process may have committed without reporting it
