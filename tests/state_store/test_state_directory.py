"""A folder and a bucket behave alike as stores of state: uploads, fetches, losses and sweeps."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.object_store import objects
from sinkql.object_store.s3 import S3Credentials
from sinkql.state_store import directory
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.store import FolderStateStore, ObjectStateStore, StateStore, check_state_path
from support.proxy import proxy
from support.seaweed import Seaweed


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    if request.param == "folder":
        return FolderStateStore(tmp_path / "store")
    return _bucket(request.getfixturevalue("server"), tmp_path)


def _bucket(server: Seaweed, folder: Path) -> ObjectStateStore:
    return ObjectStateStore("data", f"homes/{folder.name}/", S3Credentials(server.storage))


def _file(folder: Path, name: str, data: bytes) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return name


def _epoch_of(name: str) -> int | None:
    found = re.match(r"(\d+)-", name)
    return int(found[1]) if found is not None else None


def test_what_is_kept_is_brought_to_another_folder(store: StateStore, tmp_path: Path) -> None:
    here, there = StateDirectory(tmp_path / "here", store), StateDirectory(tmp_path / "there", store)
    names = [_file(here.folder, f"state/a/b{number}/1-x.arrow", bytes([number]) * number) for number in range(1, 20)]
    here.ensure_uploaded(names)
    sizes: dict[str, int | None] = {name: number for number, name in enumerate(names, 1)}
    assert there.fetch({**sizes, "state/none": None}) == ["state/none"]
    assert all((there.folder / name).read_bytes() == (here.folder / name).read_bytes() for name in names)
    assert sum(there.fetched.values()) == sum(range(1, 20))
    assert (there.fetch(sizes), sum(there.fetched.values())) == ([], sum(range(1, 20)))
    (there.folder / names[4]).write_bytes(b"")
    assert there.fetch(sizes) == []
    assert (there.folder / names[4]).read_bytes() == bytes([5]) * 5
    assert not list(there.folder.rglob(".*")), "a draft is left"


def test_a_name_is_given_once(store: StateStore, tmp_path: Path) -> None:
    name = _file(tmp_path, "1-a", b"one")
    store.put(name, tmp_path / name)
    store.put(name, tmp_path / name)
    with pytest.raises(FileExistsError):
        store.put(name, tmp_path / _file(tmp_path, "other", b"another"))
    found = BytesIO()
    assert (store.get(name, found), found.getvalue()) == (3, b"one")
    store.delete([name, "none"])
    assert (list(store.list("")), store.get(name, BytesIO())) == ([], None)


def test_a_note_is_known_on_every_host(store: StateStore, tmp_path: Path) -> None:
    here, there = StateDirectory(tmp_path / "here", store), StateDirectory(tmp_path / "there", store)
    assert here.read_small("claimed") is None
    here.write_small("claimed", b"it")
    here.write_small("claimed", b"it")
    assert (here.read_small("claimed"), there.read_small("claimed")) == (b"it", b"it")
    there.write_small("claimed", b"it")
    assert [name for name, _ in store.list("")] == ["claimed"]
    alone = StateDirectory(tmp_path / "alone")
    assert alone.read_small("claimed") is None
    alone.write_small("claimed", b"it")
    assert alone.read_small("claimed") == b"it"


def test_a_note_that_no_store_took_is_none(tmp_path: Path) -> None:
    """A value in the folder counts as stored, and so as known to every host."""
    here, there = (StateDirectory(tmp_path / name, FolderStateStore(tmp_path / "store")) for name in ("here", "there"))
    (tmp_path / "store").write_bytes(b"in the way")
    with pytest.raises(OSError, match="store"):
        here.write_small("claimed", b"it")
    (tmp_path / "store").unlink()
    assert here.read_small("claimed") is None
    here.write_small("claimed", b"it")
    assert there.read_small("claimed") == b"it"
    assert not list(tmp_path.rglob(".*")), "a draft is left"


def test_a_file_of_several_parts_comes_back(server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PART", 5 << 20)
    data = random.Random(3).randbytes((10 << 20) + 17)
    here, there = (StateDirectory(tmp_path / name, _bucket(server, tmp_path)) for name in ("here", "there"))
    here.ensure_uploaded([_file(here.folder, "1-large", data)])
    assert there.fetch({"1-large": len(data)}) == []
    assert (there.folder / "1-large").read_bytes() == data


def test_an_object_that_somebody_changed_is_not_taken(server: Seaweed, tmp_path: Path) -> None:
    store = _bucket(server, tmp_path)
    here, there = StateDirectory(tmp_path / "here", store), StateDirectory(tmp_path / "there", store)
    here.ensure_uploaded([_file(here.folder, "1-a", b"right")])
    store.objects.put(f"{store.prefix}1-a", b"wrong")
    assert there.fetch({"1-a": 5}) == ["1-a"]
    assert list(there.folder.iterdir()) == []


def test_sweeping_leaves_what_lives_what_is_young_and_what_later_runs_made(store: StateStore, tmp_path: Path) -> None:
    home = StateDirectory(tmp_path / "here", store)
    home.ensure_uploaded(
        _file(home.folder, name, b"x") for name in ("m/1-live", "m/1-dead", "m/2-dead", "m/3-later", "m/other", "n/1")
    )
    other = StateDirectory(tmp_path / "there", store)
    kept = {name for name, _ in store.list("")}
    assert other.sweep(("m/",), {"m/1-live"}, epoch_of=_epoch_of, epoch=2, age=lambda epoch: 3600.0 * (epoch < 2)) == 1
    assert kept - {"m/2-dead"} == {name for name, _ in store.list("")}
    assert other.sweep(("m/",), {"m/1-live"}, epoch_of=_epoch_of, epoch=2) == 1
    assert kept - {"m/1-dead", "m/2-dead"} == {name for name, _ in store.list("")}
    other.ensure_uploaded([_file(other.folder, "m/2-dead", b"x")])
    assert "m/2-dead" in {name for name, _ in store.list("")}


def test_folder_and_bucket_have_the_same_after_the_same_history(server: Seaweed, tmp_path: Path) -> None:
    stores: tuple[StateStore, ...] = FolderStateStore(tmp_path / "store"), _bucket(server, tmp_path)
    for seed in range(3):
        told = [list(_history(seed, tmp_path / f"{number}-{seed}", each)) for number, each in enumerate(stores)]
        assert told[0] == told[1]


def _history(seed: int, folder: Path, store: StateStore) -> Iterator[object]:
    """Use the store as sinks do on changing hosts, and yield the visible effects."""
    chance, home, made = random.Random(seed), StateDirectory(folder / "0", store), dict[str, int]()
    for step in range(40):
        match chance.choice(["keep", "keep", "bring", "move", "sweep", "lose"]):
            case "keep":
                size = chance.randrange(200)
                name = _file(home.folder, f"{chance.choice('ab')}/{step // 10}-{step}", chance.randbytes(size))
                made[name] = size
                home.ensure_uploaded([name])
            case "bring":
                yield home.fetch({each: made[each] for each in chance.sample(sorted(made), len(made) // 2)})
            case "move":
                home = StateDirectory(folder / str(step), store)
            case "sweep":
                live = set(chance.sample(sorted(made), len(made) // 2))
                yield home.sweep((chance.choice(["a/", "b/", ""]),), live, epoch_of=_epoch_of, epoch=step // 10)
            case "lose":
                home.mark_lost(sorted(made)[: len(made) // 3])
        yield step, sorted(name for name, _ in store.list("")), sum(home.fetched.values())
    store.delete([name for name, _ in store.list("")])


def test_state_is_refused_where_none_can_be_kept(server: Seaweed, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SinkqlError) as caught:
        check_state_path(str(tmp_path / "file" / "state"), None, lambda name: S3Credentials({}))
    assert (caught.value.code, caught.value.option) == ("SQ2616", "STATE")
    with proxy(server.s3) as (port, rule):
        rule.denied = True
        closed = S3Credentials({**server.storage, "s3.endpoint": f"http://127.0.0.1:{port}"})
        with pytest.raises(SinkqlError) as caught:
            check_state_path("s3://data/state", "aws", lambda name: closed)
    assert (caught.value.code, caught.value.option) == ("SQ3308", "STATE")
    check_state_path("s3://data/state", "aws", lambda name: S3Credentials(server.storage))
    check_state_path(str(tmp_path / "state"), None, lambda name: S3Credentials({}))


def test_puts_go_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(directory._PARALLEL_TRANSFERS, timeout=20)

    class Slow(FolderStateStore):
        def put(self, name: str, path: Path) -> None:
            together.wait()

    home = StateDirectory(tmp_path, Slow(tmp_path / "store"))
    home.ensure_uploaded(_file(tmp_path, str(number), b"") for number in range(directory._PARALLEL_TRANSFERS))
