"""Two jobs of one view in turns, one paused at any point: an entry exists or does not, and this never changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from sinkql.errors import FencedError
from sinkql.object_store.s3 import S3Credentials
from sinkql.state_store import numbered_log
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.numbered_log import StoredNumbered
from sinkql.state_store.store import FolderStateStore, ObjectStateStore, StateStore
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import FolderNumberedLog, NumberedLog
from support.running import drain
from support.seaweed import Seaweed, seaweed
from view.histories import History

Open = Callable[[str], NumberedLog]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture(params=["folder", "stored", pytest.param("bucket", marks=pytest.mark.server)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Open]:
    """Return a function that opens the numbered log of a history (by seed), as the given host sees it."""
    kept = S3Credentials(request.getfixturevalue("server").storage) if request.param == "bucket" else None

    def of(seed: int) -> Open:
        def at(host: str) -> NumberedLog:
            if request.param == "folder":
                return FolderNumberedLog(tmp_path / f"{seed}")
            store: StateStore = FolderStateStore(tmp_path / f"store{seed}")
            if kept is not None:
                store = ObjectStateStore("data", f"{tmp_path.name}/{seed}/", kept)
            return StoredNumbered(StateDirectory(tmp_path / f"{host}{seed}", store), "log")

        return at

    return of


def _asleep(at: int, other: Callable[[], None], act: Callable[[], None]) -> None:
    """Run `act`, and run all of `other` at the `at`-th point where another process could interfere."""
    left = at

    def place() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            other()

    really, put = files.create_new, StateDirectory.upload_bytes

    def create(path: Path, data: bytes) -> None:
        place()
        really(path, data)
        place()

    def put_data(home: StateDirectory, name: str, data: bytes) -> None:
        place()
        put(home, name, data)
        place()

    with (
        patch.object(files, "create_new", create),
        patch.object(StateDirectory, "upload_bytes", put_data),
        patch.object(failpoint, "point", lambda name: place()),
    ):
        act()


def _history(open_files: Open, seed: int) -> None:
    """Create and delete entries from several hosts in turns; a paused host continues with its outdated view."""
    chance = random.Random(seed)
    told: dict[int, bytes] = {}
    forgotten = 0

    def turn(host: str) -> None:
        nonlocal forgotten
        files = open_files(host)
        if isinstance(files, StoredNumbered):
            files.look()
        number = files.last() + 1
        if chance.random() < 0.7 or number < 3:
            data = f"{host}{chance.random()}".encode()
            if files.create(number, data) and files.stays(number):
                assert number not in told
                assert number > forgotten
                told[number] = data
        else:
            keeps = chance.randint(2, number - 1)
            files.begin_at(keeps)
            forgotten = max(forgotten, keeps - 1)

    def others() -> None:
        for _ in range(chance.randint(1, 6)):
            turn("b")

    for _ in range(5):
        for _ in range(chance.randint(0, 3)):
            turn("a")
        _asleep(chance.randint(1, 4), others, lambda: turn("a"))
    for host in "abc":
        files = open_files(host)
        if isinstance(files, StoredNumbered):
            files.look()
        there = {number: files.read(number) for number in files.numbers()}
        assert there == {number: data for number, data in told.items() if number > forgotten}
        assert list(there) == list(range(forgotten + 1, forgotten + 1 + len(there)))
        assert all(files.read(number) is None for number in range(1, forgotten + 1))
        with patch.dict(numbered_log._listings(), clear=True):
            assert files.numbers() == list(there)


def test_a_number_is_given_once_whoever_sleeps_where(
    opened: Callable[[int], Open], request: pytest.FixtureRequest
) -> None:
    for seed in range(3 if "bucket" in request.node.name else 20):
        _history(opened(seed), seed)


@pytest.mark.soak
def test_a_number_is_given_once_over_many_histories(
    opened: Callable[[int], Open], request: pytest.FixtureRequest
) -> None:
    for seed in range(1000, 1200 if "bucket" in request.node.name else 5000):
        _history(opened(seed), seed)


def test_two_that_slept_do_not_vouch_for_each_other(opened: Callable[[int], Open]) -> None:
    files = opened(0)("a")
    for number in range(1, 7):
        assert files.create(number, b"")
        assert files.stays(number)
    files.begin_at(6)
    late = opened(0)("b"), opened(0)("c")
    for number, each in enumerate(late, 3):
        assert each.create(number, b"")
    assert [each.stays(number) for number, each in reversed(list(enumerate(late, 3)))] == [False, False]
    assert files.numbers() == [6]


def test_an_entry_at_which_readers_stand_is_not_taken_back(tmp_path: Path) -> None:
    history = History(tmp_path, random.Random(3))
    log = history.log("mv")

    def change(*rows: tuple[int, int]) -> None:
        history.listed.batches.append([(row, 1) for row in rows])

    change((1, 1), (2, 2))
    first, copy = history.started("mv"), history.started("copy")
    drain(first)
    drain(copy)
    armed = True

    def point(name: str) -> None:
        nonlocal armed
        if name != "view-entry-made" or not armed:
            return
        armed = False
        drain(copy)
        second = history.started("mv")
        for row in ((1, 7), (2, 8)):
            change(row)
            drain(second)

    change((1, 5))
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 1),
        patch.object(failpoint, "point", point),
        pytest.raises(FencedError),
    ):
        drain(first)
    at = copy.checkpoint.end["mv"]
    assert log.numbers()[0] == at["at"]
    drain(copy)
    assert history.rebuilt == 0
    assert copy.checkpoint.end["mv"]["at"] == log.last()


def test_who_makes_an_entry_that_was_forgotten_is_told_that_it_is_not_there(tmp_path: Path) -> None:
    history = History(tmp_path, random.Random(3))
    history.listed.batches.append([((1, 1), 1)])
    drain(history.started("mv"))
    log = history.log("mv")
    newest = log.newest()
    assert newest is not None
    log.remove(newest[0])
    assert not log.publish(*newest)
    assert log.numbers() == []
