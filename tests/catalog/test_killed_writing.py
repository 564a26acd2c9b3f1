"""The process that writes the catalog is killed at each write: its statement is done or undone, and the file intact.

One process has all modules loaded. For each case it forks a child, which strace watches and kills.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.sqlite.schema import UPGRADES, Layout
from sinkql.catalog.store import Connection
from sinkql.catalog.system import LAYOUT
from sinkql.catalog.verify import problems
from sinkql.session import Session
from support.programs import need

pytestmark = pytest.mark.long
_CALLS = "pwrite64,write,fsync,fdatasync,unlink,ftruncate,rename"
_FEW, _MOST = 24, 80  # cases of a statement, evenly spaced if there are more
_SCRIPT = """
CREATE SECRET word AS 'x';
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE VIEW v AS SELECT n.counter FROM n;
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 'b') ENVELOPE NONE
  WITH (COMMIT INTERVAL = '2s');
"""
_STATEMENTS = {
    "CREATE": "CREATE SECRET other AS 'y';",
    "ALTER": "ALTER SOURCE n RENAME TO m;",
    "DROP": "DROP SOURCE n CASCADE;",
    "COMMIT": "BEGIN; CREATE VIEW w AS SELECT counter FROM n; DROP SINK s; ALTER VIEW v RENAME TO u; COMMIT;",
}


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the test's folder, where the sink's lake is."""
    need("strace")  # it kills the process at a write
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Case:
    """A statement to run over a catalog. `prepare` opens the catalog before strace watches the process."""

    base: Path
    prepare: Callable[[Path], Callable[[], object]]

    def run(self, folder: Path, options: list[str]) -> int:
        """Run it in a copy of the base under strace; return the exit code, negative for a signal."""
        shutil.copytree(self.base, folder)
        path = folder / "catalog.db"
        ready, go = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            _child(lambda: self.prepare(path), ready[1], go[0])
        os.read(ready[0], 1)
        files = [part for end in ("", "-wal", "-journal", "-shm") for part in ("-P", f"{path}{end}")]
        command = ["strace", "-f", "-p", str(child), *files, "-e", f"trace={_CALLS}", *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watcher:
            assert watcher.stderr is not None
            for line in watcher.stderr:
                if "attached" in line:
                    break
            os.write(go[1], b"g")
            _, status = os.waitpid(child, 0)
            watcher.communicate()
        for end in (*ready, *go):
            os.close(end)
        return os.waitstatus_to_exitcode(status)


def _child(prepare: Callable[[], Callable[[], object]], ready: int, go: int) -> None:
    try:
        run = prepare()
        os.write(ready, b"r")
        os.read(go, 1)
        run()
    except BaseException:
        os._exit(1)
    os._exit(0)


def _statement(name: str) -> Callable[[Path], Callable[[], object]]:
    def prepare(path: Path) -> Callable[[], object]:
        session = Session(path)
        return lambda: session.execute(_STATEMENTS[name])

    return prepare


def _upgrade(path: Path) -> Callable[[], object]:
    return lambda: Database(path, _NEXT)


def _add_column(connection: Connection) -> None:
    connection.execute("ALTER TABLE items ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")


_REMARKS = "CREATE VIEW remarks AS SELECT note FROM items"
_NEXT = Layout({**LAYOUT.derived, "remarks": _REMARKS}, (*UPGRADES, _add_column))


def _state(path: Address) -> list[str]:
    session = Session(path)
    assert list(problems(session.catalog)) == []
    desired_states = [f"{sink} {wish}" for sink, (wish, _) in sorted(session.catalog.control.all_desired().items())]
    with session.catalog.database.read() as connection:
        texts = connection.scalars("SELECT id || create_sql || owner FROM items ORDER BY number")
        return [*texts, *desired_states]


def _killed(case: Case, folder: Path, most: int) -> Iterator[Path]:
    """Kill the case at each of its writes; yield the catalog files that remain."""
    log = folder / "log"
    assert case.run(folder / "whole", ["-o", str(log)]) == 0
    calls = Counter(re.findall(r"^\d* *(\w+)\(", log.read_text(), re.MULTILINE))
    moments = [(call, number) for call, count in sorted(calls.items()) for number in range(1, count + 1)]
    assert len(moments) > 5
    for call, number in moments[:: 1 + len(moments) // most]:
        place = folder / f"{call}-{number}"
        assert case.run(place, ["-e", f"inject={call}:signal=SIGKILL:when={number}", "-o", os.devnull]) == -9
        yield place / "catalog.db"


@pytest.mark.share(4)
@pytest.mark.parametrize("most", [_FEW, pytest.param(_MOST, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", _STATEMENTS)
def test_statement_killed_at_any_write_is_done_or_undone(tmp_path: Path, name: str, most: int) -> None:
    base = tmp_path / "base"
    with Session(base / "catalog.db") as session:  # its end writes everything into the file, so all copies are equal
        session.execute(_SCRIPT)
    before = _state(base / "catalog.db")
    found = [_state(path) for path in _killed(Case(base, _statement(name)), tmp_path, most)]
    after = _state(tmp_path / "whole" / "catalog.db")
    assert before != after
    assert [state for state in found if state not in (before, after)] == []
    assert {state == after for state in found} == {True, False}


def test_upgrade_killed_at_any_write_is_done_by_the_next_one(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with Session(base / "catalog.db") as session:  # its end writes everything into the file, so all copies are equal
        session.execute(_SCRIPT)
    expected = [("none",)] * 5
    for path in _killed(Case(base, _upgrade), tmp_path, _FEW // 2):
        with Database(path, _NEXT).read() as connection:
            assert expected == connection.all("SELECT note FROM remarks")
