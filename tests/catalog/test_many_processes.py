"""Processes that change one catalog concurrently all succeed, and no change is lost or applied twice."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.verify import problems
from sinkql.session import Session
from support.patience import PATIENCE_S, ended
from support.started import context, start

pytestmark = pytest.mark.long

_FEW, _MANY = (4, 3), (8, 6)
"""Processes, and rounds of five transactions of each. A server gets few, because its clients wait in a queue."""


def _work(place: Address, number: int, rounds: int, barrier: Barrier) -> None:
    session = Session(place)
    barrier.wait()
    for turn in range(rounds):
        name = f"x_{number}_{turn}"
        session.execute(f"CREATE VIEW {name} AS SELECT n.counter FROM n;")
        session.execute(f"BEGIN; CREATE SECRET {name}_s AS 'x'; COMMENT ON VIEW {name} IS '{name}'; COMMIT;")
        session.execute(f"ALTER VIEW {name} RENAME TO {name}_v;")
        session.execute(f"ALTER SYSTEM SET enable_default_connection_validation = {str(turn % 2 == 0).lower()};")
        session.execute(f"DROP SECRET {name}_s;")


@pytest.mark.share(2)
@pytest.mark.parametrize("sizes", [_FEW, pytest.param(_MANY, marks=pytest.mark.soak)], ids=["few", "many"])
def test_processes_of_many_transactions_all_succeed(place: Address, sizes: tuple[int, int]) -> None:
    processes, rounds = sizes if isinstance(place, Path) else _FEW
    session = Session(place)
    session.execute("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);")
    before = session.catalog.generation
    barrier = context().Barrier(processes, timeout=PATIENCE_S)
    workers = [start(_work, place, number, rounds, barrier) for number in range(processes)]
    assert ended(*workers) == [0] * processes
    session.catalog.refresh()
    assert session.catalog.generation - before == processes * rounds * 5
    names = {f"x_{number}_{turn}" for number in range(processes) for turn in range(rounds)}
    assert {row[0] for row in session.execute("SELECT name FROM mz_views")[0].rows} == {f"{name}_v" for name in names}
    assert {row[0] for row in session.execute("SELECT comment FROM mz_internal.mz_comments")[0].rows} == names
    assert session.execute("SELECT name FROM mz_secrets")[0].rows == ()
    assert list(problems(session.catalog)) == []
