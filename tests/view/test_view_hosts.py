"""Jobs of a view and of its readers move between hosts that share only STATE."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.connectors.view.log import Entry, ViewLog, view_log
from sinkql.runtime.local.engine import LocalEngine
from sinkql.state_store import numbered_log
from sinkql.state_store.directory import StateDirectory
from state_store.test_remote import Elsewhere
from support.running import contexts
from view.histories import JOBS, MV, BoomError, History, contents

_SEEDS, _STEPS = 6, 14


def _in_state(job: physical.Job, state: physical.StatePath | None) -> physical.Job:
    """Return a job with STATE that reads the logs in it."""
    tuning = {"tuning": {"state": state.path}} if state is not None else {}

    def in_state(node: physical.Operator) -> physical.Operator:
        match node:
            case physical.Read(connector=physical.VIEW):
                return msgspec.structs.replace(node, options={**node.options, **tuning})
            case physical.Aggregate():
                return msgspec.structs.replace(node, input=in_state(node.input))
            case _:
                return node

    return msgspec.structs.replace(
        job, write=msgspec.structs.replace(job.write, input=in_state(job.write.input)), state=state
    )


@dataclass
class Wandering(History):
    """A history in which each start of a job may be on another host; `state` is the store that all hosts share."""

    remote: bool = False
    state: physical.StatePath | None = None
    machines: Elsewhere | None = None
    hosts: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.folder
        self.machines = Elsewhere(self.home / "executors", self.rng.randint(0, 99)) if self.remote else None
        self.state = physical.StatePath(str(self.home / "elsewhere"))
        self.hosts = [self.home / "host0"]
        self.folder = self.hosts[0]

    @property
    def jobs(self) -> Mapping[str, physical.Job]:
        return {name: _in_state(job, self.state) for name, job in JOBS.items()}

    def context(self, job: physical.Job) -> Context:
        return replace(contexts(self.folder, job), state=self.state, remote=self.remote)

    def engine(self) -> LocalEngine:
        return self.machines or LocalEngine(2)

    def log(self, name: str) -> ViewLog:
        found = view_log(name, self.folder, self.state, contexts(self.folder, JOBS[name]).store)
        found.refresh()
        return found

    def check(self, log: ViewLog, number: int, entry: Entry) -> None:
        """Compare an entry with its input, unless it was compared before: a moved log publishes its entries again."""
        if (self.name_of(log), number) not in self.known:
            super().check(log, number, entry)

    def turn(self, name: str, *, failing: bool) -> None:
        if self.rng.random() < 0.5:
            self.move()
        super().turn(name, failing=failing)

    def move(self) -> None:
        """Move to another host, either an earlier one or an empty one."""
        self.loops.clear()
        if self.rng.random() < 0.4:
            self.hosts.append(self.home / f"host{len(self.hosts)}")
        self.folder = self.rng.choice(self.hosts)
        if self.machines is not None and self.rng.random() < 0.3:
            self.machines.lose()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every host list the store on each access, since all hosts are one process here."""
    monkeypatch.setattr(numbered_log, "_LOOK_SECONDS", 0.0)


@pytest.mark.share(12)
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_each_entry_is_the_view_at_its_offsets_on_whichever_host(tmp_path: Path, seed: int, *, remote: bool) -> None:
    history = Wandering(tmp_path, random.Random(seed), remote=remote)
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 2 if seed % 2 else 16),
        patch("sinkql.connectors.view.writer._LEAST_HISTORY", 0 if seed % 4 == 1 else 1 << 20),
        patch("sinkql.connectors.view.reader_positions._PUT_SECONDS", 30.0 if seed % 3 else 0.0),
    ):
        history.run(_STEPS)
    assert history.failures > 0
    if seed % 4 != 1:
        assert history.rebuilt == 0


def _once(history: Wandering) -> None:
    history.change()
    history.listed.batches.append([((1, len(history.listed.batches)), 1)])
    for name in history.jobs:
        history.turn(name, failing=False)


def _moving(history: Wandering, failing: int) -> bool:
    """Run jobs, set STATE for their cluster and start moving the view's log; return whether the move failed."""
    state, history.state = history.state, None
    for _ in range(4):
        _once(history)
    history.loops.clear()
    history.state, history.left = state, failing or None
    try:
        history.started("mv")
    except BoomError:
        return True
    finally:
        history.left = None
    return False


@pytest.mark.share(10)
@pytest.mark.parametrize("failing", range(0, 30, 3))
def test_a_log_continues_where_its_cluster_gets_state(tmp_path: Path, failing: int) -> None:
    history = Wandering(tmp_path, random.Random(failing))
    with patch.object(Wandering, "move", lambda self: None), history.watched():
        failed = _moving(history, failing)
        before = ViewLog(history.log("mv").folder.parent)
        if failed:  # a reader waits for entries that are not uploaded yet
            history.turn("copy", failing=False)
        for _ in range(4):
            _once(history)
    assert before.last() in history.log("mv").numbers()
    assert history.rebuilt == 0
    _read_whole(history)


def _read_whole(history: Wandering) -> None:
    """Check on an empty host that the copy has read the whole log and has its rows."""
    history.folder = history.home / "another"
    log, copied = history.log("mv"), history.log("copy").newest()
    last = log.newest()
    assert copied is not None
    assert last is not None
    assert copied[1].marker.end["mv"]["at"] == last[1].changed
    rows = contents(log, MV, last[1])
    assert rows
    assert rows == contents(history.log("copy"), JOBS["copy"], copied[1])


def test_what_a_move_did_not_put_it_puts_the_next_time(tmp_path: Path) -> None:
    history = Wandering(tmp_path, random.Random(1))
    keep, left = StateDirectory.ensure_uploaded, [1]

    def broken(home: StateDirectory, names: list[str]) -> None:
        if home.folder.name == "stored" and left and left.pop():
            raise BoomError
        keep(home, names)

    with patch.object(Wandering, "move", lambda self: None), history.watched():
        with patch.object(StateDirectory, "ensure_uploaded", broken):
            assert _moving(history, 0)
        history.turn("mv", failing=False)
        history.turn("copy", failing=False)
    _read_whole(history)


@pytest.mark.parametrize("stored", [False, True])
def test_who_reads_a_log_that_is_lost_waits_until_its_view_has_rows_again(tmp_path: Path, *, stored: bool) -> None:
    history = Wandering(tmp_path, random.Random(1))
    if not stored:
        history.state = None
    with patch.object(Wandering, "move", lambda self: None), history.watched():
        _once(history)
        _once(history)
        before = history.log("copy").last()
        shutil.rmtree(history.home / "elsewhere" / "mv" / "log", ignore_errors=True)
        shutil.rmtree(history.log("mv").folder / "log")
        history.loops.clear()
        history.turn("copy", failing=False)
        newest = history.log("copy").newest()
        assert newest is not None
        assert contents(history.log("copy"), JOBS["copy"], newest[1])
        assert newest[0] > before
        _once(history)
    assert history.rebuilt == 2  # "copy" and "top", which both read the view


def test_an_unfinished_file_of_another_host_is_ignored(tmp_path: Path) -> None:
    history = Wandering(tmp_path, random.Random(1))
    with patch.object(Wandering, "move", lambda self: None), history.watched():
        _once(history)
        readers = history.home / "elsewhere" / "mv" / "log" / "readers" / "copy"
        (readers / ".12.0123456789abcdef").touch()
        places = history.log("mv").positions.positions()
    assert places
    assert 12 not in places


def test_a_view_of_which_contents_are_lost_is_computed_again(tmp_path: Path) -> None:
    history = Wandering(tmp_path, random.Random(1))
    with patch.object(Wandering, "move", lambda self: None), history.watched():
        for _ in range(3):
            _once(history)
        kept = Path(str(history.state.path if history.state is not None else ""), "mv", "log", "runs")
        for folder in (kept, history.log("mv").folder / "runs"):
            shutil.rmtree(folder)
        history.loops.clear()
        _once(history)
    last = history.log("mv").newest()
    assert last is not None
    rows = contents(history.log("mv"), MV, last[1])
    copied = history.log("copy").newest()
    assert copied is not None
    assert rows == contents(history.log("copy"), JOBS["copy"], copied[1])
    assert rows


def test_a_commit_is_one_though_the_store_does_not_answer_after_it(tmp_path: Path) -> None:
    history = Wandering(tmp_path, random.Random(1))
    with patch.object(Wandering, "move", lambda self: None), history.watched():
        _once(history)
        _once(history)

        def broken(*_: object, **__: object) -> None:
            raise OSError("no answer")

        history.change()
        history.listed.batches.append([((1, 99), 1)])
        history.turn("mv", failing=False)
        with (
            patch("sinkql.connectors.view.reader_positions._PUT_SECONDS", 0.0),
            patch("sinkql.connectors.view.reader_positions.ReaderPositions._store", broken),
            patch("sinkql.connectors.view.reader.ViewReader.lag", broken),
        ):
            history.turn("copy", failing=False)
    copied = history.log("copy").newest()
    assert copied is not None
    assert copied[1].marker.end["mv"]["at"] == history.log("mv").last()
