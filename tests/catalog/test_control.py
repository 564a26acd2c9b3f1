"""Leases, desired states, statuses and progress, within a process and between real processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.coordination import control as control_module
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.open_store import open_store
from sinkql.catalog.store import Store
from sinkql.catalog.system import LAYOUT
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Control as ControlProtocol
from support.patience import PATIENCE_S, ended
from support.started import context, start


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(place: Address) -> Store:
    return open_store(place, LAYOUT)


@pytest.fixture
def control(database: Store, clock: Clock) -> Control:
    control = Control(database, clock=clock, lease_seconds=30)
    control.set_desired("s", "running")
    return control


def _code(raised: pytest.ExceptionInfo[SinkqlError]) -> str:
    return raised.value.code


def _rows(database: Store, table: str) -> list[dict[str, Any]]:
    with database.read() as connection:
        return [row._asdict() for row in connection.all(f"SELECT * FROM {table}")]


def test_catalogs_control_is_what_the_runtime_asks_for(control: Control) -> None:
    protocol: ControlProtocol = control
    assert protocol.lease_seconds == 30


def test_second_runner_is_refused_and_told_who_runs_it(control: Control) -> None:
    control.acquire("s", owner="a", takeover=False)
    with pytest.raises(SinkqlError) as raised:
        control.acquire("s", owner="b", takeover=False)
    assert _code(raised) == "SQ5201"
    assert f"(pid {os.getpid()} on " in raised.value.message
    assert "--takeover" in (raised.value.hint or "")


def test_epoch_grows_with_every_lease(control: Control) -> None:
    epochs = [control.acquire("s", owner=owner, takeover=True) for owner in ("a", "b", "b")]
    control.release("s", owner="b")
    epochs.append(control.acquire("s", owner="c", takeover=False))
    assert epochs == [1, 2, 3, 4]


def test_lease_that_ran_out_is_free(control: Control, clock: Clock) -> None:
    control.acquire("s", owner="a", takeover=False)
    clock.time += 29
    control.renew("s", owner="a")
    clock.time += 29
    with pytest.raises(SinkqlError):
        control.acquire("s", owner="b", takeover=False)
    clock.time += 2
    assert control.acquire("s", owner="b", takeover=False) == 2


def test_lease_that_ran_out_is_renewed_while_nobody_took_it(control: Control, clock: Clock) -> None:
    control.acquire("s", owner="a", takeover=False)
    clock.time += 100
    control.renew("s", owner="a")
    assert control.holder("s") is not None


def test_very_many_sinks_take_no_more_statements_than_one(
    control: Control, database: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as connection:
        kind, plain, statements = type(connection), type(connection).execute, list[str]()

    def counting(self: Any, query: str, values: Any = (), /) -> Any:
        statements.append(query)
        return plain(self, query, values)

    counts = []
    for number in (2, 400):
        names = [f"sink{each}" for each in range(number)]
        for each in names:
            control.set_desired(each, "stopped" if each == "sink1" else "running")
            control.acquire(each, owner=f"owner of {each}", takeover=True)
        control.ask("sink0")
        monkeypatch.setattr(kind, "execute", counting)
        statements.clear()
        assert control.renew_all({each: f"owner of {each}" for each in names}) == {}
        desired_states = control.desired_states([*names, "gone"])
        counts.append(len(statements))
        monkeypatch.undo()
        assert (desired_states["sink0"], desired_states["sink1"], desired_states["gone"]) == (
            ("running", control.optimize_request("sink0")), ("stopped", None), ("dropped", None),
        )  # fmt: skip
        assert control.desired_states(["sink0"]) == {"sink0": desired_states["sink0"]}
    assert counts[0] == counts[1]


def test_of_many_leases_those_are_told_that_others_took(control: Control, clock: Clock) -> None:
    owners = {f"sink{number}": f"owner{number}" for number in range(1200)}
    for each, owner in owners.items():
        control.set_desired(each, "running")
        control.acquire(each, owner=owner, takeover=False)
    control.acquire("sink1100", owner="other", takeover=True)
    clock.time += 29
    assert {each: error.code for each, error in control.renew_all(owners).items()} == {"sink1100": "SQ5202"}
    clock.time += 2
    assert [each for each in owners if not control.is_held(each)] == ["sink1100"]


def test_takeover_ends_the_first_ones_lease(control: Control) -> None:
    control.acquire("s", owner="a", takeover=False)
    control.acquire("s", owner="b", takeover=True)
    with pytest.raises(SinkqlError) as raised:
        control.renew("s", owner="a")
    assert _code(raised) == "SQ5202"
    control.release("s", owner="a")
    holder = control.holder("s")
    assert holder is not None
    assert holder.owner == "b"


def test_sink_that_is_dropped_cannot_be_leased(control: Control) -> None:
    control.set_desired("s", "dropped")
    for sink in ("s", "never there"):
        with pytest.raises(SinkqlError) as raised:
            control.acquire(sink, owner="a", takeover=True)
        assert _code(raised) == "SQ5208"


def test_resuming_a_sink_does_not_undo_its_drop(control: Control) -> None:
    control.set_desired("s", "stopped")
    control.resume("s")
    assert control.desired("s") == "running"
    control.set_desired("s", "dropped")
    control.resume("s")
    assert control.desired("s") == "dropped"


def test_drop_waits_for_the_lease(control: Control, clock: Clock) -> None:
    control.acquire("s", owner="a", takeover=False)
    assert not control.claim_for_drop("s", owner="d")
    clock.time += 31
    assert control.claim_for_drop("s", owner="d")


def test_status_history_keeps_changes_only(control: Control, database: Store) -> None:
    for status in ("starting", "running", "running"):
        control.status("s", status)
    control.status("s", "stalled", error="no", hint="do", details={"row": 17})
    control.status("s", "running")
    changes = [(row["status"], row["error"], row["hint"], row["details"]) for row in _rows(database, "status_history")]
    assert changes == [
        ("starting", None, None, None),
        ("running", None, None, None),
        ("stalled", "no", "do", '{"row": 17}'),
        ("running", None, None, None),
    ]


def test_status_of_a_former_owner_is_history_alone(control: Control, database: Store) -> None:
    control.acquire("s", owner="old", takeover=False)
    control.acquire("s", owner="new", takeover=True)
    control.status("s", "running", owner="new")
    control.status("s", "fenced", owner="old")
    assert [row["status"] for row in _rows(database, "statuses")] == ["running"]
    assert [row["status"] for row in _rows(database, "status_history")] == ["running", "fenced"]


def test_long_history_is_cut(control: Control, database: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module, "_KEPT_CHANGES", 3)
    for number in range(5):
        control.status("s", "stalled", error=str(number))
        control.status("other", "stalled", error=str(number))
    mine = [row["error"] for row in _rows(database, "status_history") if row["sink_id"] == "s"]
    assert mine == ["2", "3", "4"]


def test_commits_add_up(control: Control, database: Store) -> None:
    control.committed("s", rows=5, size=100, offsets={"n": {"count": 5}}, epoch=1, snapshot=2**60, lag=7)
    control.committed("s", rows=2, size=10, offsets={"n": {"count": 7}}, epoch=2, counts={"failed": 1, "read": 4})
    (row,) = _rows(database, "progress")
    assert (
        row["messages"],
        row["bytes"],
        row["failed_rows"],
        row["read_rows"],
        row["commits"],
        row["epoch"],
        row["snapshot"],
        row["lag"],
        row["offsets"],
    ) == (7, 110, 1, 4, 2, 2, None, None, '{"n": {"count": 7}}')


def _hold(place: Address, pipe: Connection) -> None:
    control = Control(open_store(place, LAYOUT))
    control.acquire("s", owner="held", takeover=False)
    pipe.send("held")
    pipe.recv()


def test_killed_runners_lease_is_free_at_once(place: Address) -> None:
    control = Control(open_store(place, LAYOUT))
    control.set_desired("s", "running")
    here, there = context().Pipe()
    runner = start(_hold, place, there)
    assert here.poll(PATIENCE_S)
    assert here.recv() == "held"
    with pytest.raises(SinkqlError) as raised:
        control.acquire("s", owner="me", takeover=False)
    assert f"(pid {runner.pid} on " in raised.value.message
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    assert ended(runner) == [-signal.SIGKILL]
    assert control.acquire("s", owner="me", takeover=False) == 2


def _race(place: Address, owner: str, barrier: multiprocessing.synchronize.Barrier, pipe: Connection) -> None:
    control = Control(open_store(place, LAYOUT))
    barrier.wait()
    try:
        pipe.send(control.acquire("s", owner=owner, takeover=False))
    except SinkqlError as error:
        pipe.send(error.code)
    barrier.wait()


@pytest.mark.long
def test_of_runners_that_start_at_once_one_gets_the_lease(place: Address) -> None:
    Control(open_store(place, LAYOUT)).set_desired("s", "running")
    barrier, pipes = context().Barrier(4, timeout=PATIENCE_S), [context().Pipe() for _ in range(4)]
    racers = [start(_race, place, str(number), barrier, there) for number, (_, there) in enumerate(pipes)]
    assert ended(*racers) == [0] * 4
    answers = [here.recv() for here, _ in pipes]
    assert sorted(answers, key=str) == [1, "SQ5201", "SQ5201", "SQ5201"]
