"""An initial snapshot with concurrent writers, processes that die at any point, and lost logs: no change is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forking import Children, children_of
from support.patience import PATIENCE_S
from support.postgres import Postgres
from support.postgres import postgres as postgres_server

from .mutant import MUTANTS
from .world import WrongError, run

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    with postgres_server({"max_wal_size": "1GB"}) as server:
        yield server


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with children_of("postgres.child") as found:
        yield found


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 3])  # seed 3 has REPLICA IDENTITY FULL
def test_two_sinks_are_what_the_server_has(own: Postgres, children: Children, tmp_path: Path, seed: int) -> None:
    happened = run(own, children, tmp_path, seed, patience=PATIENCE_S)
    assert happened["chunks"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_two_sinks_are_what_the_server_has_in_a_minute(
    own: Postgres, children: Children, tmp_path: Path, seed: int
) -> None:
    run(own, children, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 25))])
def test_server_may_restart_and_captures_stop_while_others_take_over(
    own: Postgres, children: Children, tmp_path: Path, seed: int
) -> None:
    happened = run(own, children, tmp_path, seed, restarts=True, patience=PATIENCE_S)
    assert happened["chunks"]


@pytest.mark.soak
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_tables_are_wrong_where_a_part_of_the_protocol_is_left_out(
    own: Postgres, children: Children, tmp_path: Path, mutant: str
) -> None:
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            run(own, children, folder, seed, mutants=(mutant,), patience=PATIENCE_S)
        except WrongError:
            return
    pytest.fail(f"100 seeds do not detect {mutant}")
