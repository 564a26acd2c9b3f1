"""State recovered from files, tables, generators and requests equals the lost state, row by row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.session import Session
from support.port import held_ports
from support.rebuilt import Rows, run_history, sink_views
from webhook.sending import Sender, capturing, path_of

_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
_COLUMNS = "(id bigint NOT NULL, k bigint, v bigint)"
_OF_JSON = "SELECT (body ->> 'id')::bigint AS id, (body ->> 'k')::bigint AS k, (body ->> 'v')::bigint AS v FROM s"
_KINDS = ("files", "table", "counter", "webhook")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session() as opened:
        opened.execute(_LAKE)
        yield opened


def _run(session: Session, kind: str, seed: int) -> None:
    dice = random.Random(f"rebuilt {kind} {seed}")
    rows = Rows(dice)
    match kind:
        case "files":
            session.execute(f"CREATE SOURCE t {_COLUMNS} FROM FILES (PATH = 'in') FORMAT JSON;")
            Path("in").mkdir()
            run_history(
                session,
                dice,
                sink_views(session, dice),
                lambda: Path(f"in/{rows.next}.json").write_text("\n".join(rows.lines())),
            )
        case "table":
            session.execute("CREATE TABLE t (id bigint PRIMARY KEY, k bigint, v bigint);")

            def change() -> None:
                session.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows.some()))};")
                key = dice.randrange(5)
                session.execute(
                    dice.choice(
                        (
                            f"UPDATE t SET v = v + 1 WHERE k = {key};",
                            f"UPDATE t SET k = {dice.randrange(5)} WHERE v = {dice.randrange(8)};",
                            f"DELETE FROM t WHERE v = {dice.randrange(8)};",
                        )
                    )
                )

            run_history(session, dice, sink_views(session, dice), change)
        case "counter":
            kept = dice.choice(("", ", MAX CARDINALITY = 20"))
            session.execute(f"CREATE SOURCE s FROM LOAD GENERATOR COUNTER (TICK INTERVAL = '1ms', UP TO = 40{kept});")
            session.execute("CREATE VIEW t AS SELECT counter AS id, counter % 5 AS k, counter % 7 AS v FROM s;")
            run_history(session, dice, sink_views(session, dice), lambda: None, turns=1)
        case _:
            with held_ports(1) as (port,):
                sender = Sender(port)
                session.execute(f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON WITH (PORT = {port});")
                session.execute(f"CREATE VIEW t AS {_OF_JSON};")

                def send() -> None:
                    sender.listening(path_of("s"))
                    for line in rows.lines():
                        assert sender.send(path_of("s"), line).status == 200

                names = sink_views(session, dice)
                with capturing(session):
                    run_history(session, dice, names, send)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50))])
def test_state_computed_again_is_the_state_that_was(session: Session, kind: str, seed: int) -> None:
    _run(session, kind, seed)
