"""Sinks of a cluster with STATE continue on a different host: they fetch their state and recompute nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from sinkql.connectors.iceberg.key_index.index import files
from sinkql.connectors.iceberg.write import maintenance as iceberg_maintenance
from sinkql.connectors.iceberg.write import table_index
from sinkql.errors import SinkqlError
from sinkql.object_store import s3
from sinkql.runtime.batch import maintenance
from sinkql.runtime.batch.events import SinkRecovering
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.state import manifest
from sinkql.session.server_check import checks_of_clusters
from sinkql.state_store import cleanup
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.store import ObjectStateStore
from sinkql.storage import failpoint
from state_store.other_host import SINKS, Pipeline, pipeline
from support.fault import armed
from support.proxy import Rule, proxy
from support.running import drain
from support.seaweed import SECRET, Seaweed


@pytest.fixture(params=["folder", "bucket"])
def moving(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    if request.param == "folder":
        with pipeline(tmp_path, str(tmp_path / "elsewhere")) as found:
            yield found
        return
    server: Seaweed = request.getfixturevalue("server")
    state = f"s3://data/{tmp_path.name}"
    with pipeline(tmp_path, state, endpoint=server.storage["s3.endpoint"], secret=SECRET) as found:
        yield found


@pytest.fixture
def behind(server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pipeline, Rule]]:
    """Yield a pipeline, and a rule that makes its S3 slow or silent."""
    monkeypatch.setattr(s3, "_TRIES", 1)
    with (
        proxy(server.s3) as (port, rule),
        pipeline(tmp_path, f"s3://data/{tmp_path.name}", endpoint=f"http://127.0.0.1:{port}", secret=SECRET) as found,
    ):
        yield found, rule


@pytest.fixture
def no_index_build(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call no index can be rebuilt from its table."""

    def fail_build(*given: object, **named: object) -> None:
        raise AssertionError("an index was rebuilt from its table")

    return lambda: monkeypatch.setattr(table_index, "build_index", fail_build)


def _rebuilt(moving: Pipeline) -> bool:
    return any(isinstance(each, SinkRecovering) for each in moving.events)


@pytest.mark.share(4)
@pytest.mark.parametrize("sink", SINKS)
def test_a_sink_continues_on_another_host_with_the_state_that_it_had(
    moving: Pipeline, sink: str, no_index_build: Callable[[], None]
) -> None:
    for number in range(3):
        moving.put(60)
        loop = moving.run(sink)
        moving.check(sink)
        assert not _rebuilt(moving)
        if sink != "latest":
            fetched = sum(each["fetched"] for each in loop.report.metrics.now["arrangements"].values())
            assert (fetched > 0) == (number > 0)
        moving.move()
        no_index_build()


@pytest.mark.share(2)
@pytest.mark.parametrize("point", ["state-put#3", "state-kept", "index-kept", "commit-request", "committed"])
def test_what_ended_between_its_state_and_its_commit_continues_elsewhere(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, count = point.partition("#")
    with pipeline(tmp_path, str(tmp_path / "elsewhere")) as moving:
        for number in range(3):
            moving.put(40)
            if number != 1:
                moving.run("sums")
                moving.check("sums")
                moving.move()
                continue
            loop = moving.run("sums", batches=False)
            with monkeypatch.context() as patch:
                for variable, value in armed(f"{name}#{failpoint._passes[name] + int(count or 1)}=fail").items():
                    patch.setenv(variable, value)
                with pytest.raises(failpoint.FaultError):
                    drain(loop)
            moving.move()
        assert not _rebuilt(moving)


@pytest.mark.share(2)
def test_sweeping_on_another_host_leaves_what_the_last_two_markers_reach(
    moving: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        moving.put(50)
        loop = moving.run("joined")
        moving.move()
    monkeypatch.setattr(maintenance, "_SWEEP_EVERY", 1)
    before = loop.checkpoint
    moving.put(50)
    loop = moving.run("joined")
    home = loop.state.directory
    live = {"table.uuid"}
    for checkpoint in (before, loop.checkpoint):
        assert checkpoint.state is not None
        live |= {manifest.file(checkpoint.state), *manifest.files(manifest.load(home.folder, checkpoint.state))}
    assert live == {name for name in moving.kept("joined") if not name.startswith("index/")}
    moving.move()
    moving.put(50)
    loop = moving.run("joined")
    moving.check("joined")
    assert not _rebuilt(moving)
    index = StateDirectory(loop.folder / "index", moving.store("joined"))
    assert loop.checkpoint.index is not None
    assert {f"index/{name}" for name in files(index.folder, loop.checkpoint.index)} <= moving.kept("joined")


def test_a_sink_that_starts_for_each_batch_sweeps_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_SWEEP_EVERY", 4)
    monkeypatch.setattr(iceberg_maintenance, "_SWEEP_EVERY", 4)
    counts = []
    with pipeline(tmp_path, str(tmp_path / "elsewhere")) as moving:
        for _ in range(12):
            moving.put(20)
            moving.run("sums")
            counts.append(len(moving.kept("sums")))
            for folder in ("sinks", "elsewhere"):  # index files of earlier runs stay for an hour
                for path in (tmp_path / folder).glob("*/index/*"):
                    os.utime(path, (0, 0))
        moving.check("sums")
    assert max(counts[6:]) < 50, counts


def test_a_store_that_takes_no_deletes_keeps_no_sink_from_its_commits(
    behind: tuple[Pipeline, Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    moving, _ = behind
    monkeypatch.setattr(maintenance, "_SWEEP_EVERY", 1)
    moving.put(60)
    moving.run("sums")

    def delete(self: ObjectStateStore, names: Iterable[str]) -> None:
        asked.extend(names)
        raise SinkqlError("SQ3308", "it denies access")

    asked: list[str] = []
    monkeypatch.setattr(ObjectStateStore, "delete", delete)
    for _ in range(4):
        moving.put(60)
        moving.run("sums")
    moving.check("sums")
    assert asked


def test_files_that_are_damaged_here_are_fetched_again(moving: Pipeline) -> None:
    moving.put(80)
    moving.run("sums")
    runs = sorted(moving.local("sums").glob("state/*/b*/*.arrow"))
    _damage(runs[0], b"")
    _damage(runs[1], bytes(runs[1].stat().st_size))
    for path in (moving.local("sums") / "manifests").iterdir():
        _damage(path, b"{}")
    moving.put(80)
    moving.run("sums")
    moving.check("sums")
    assert not _rebuilt(moving)


def _damage(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(mode)


def test_what_sinks_that_do_not_run_here_left_makes_room_and_is_fetched_when_they_do(
    moving: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving.put(60)
    for sink in SINKS:
        moving.run(sink)
    left, recent = moving.local("sums"), moving.local("latest")
    days_ago = time.time() - 2 * 86400
    os.utime(left, (days_ago, days_ago))
    own = left / "replay.json"
    own.write_bytes(b"{}")
    os.utime(left, (days_ago, days_ago))
    monkeypatch.setattr(cleanup, "_is_nearly_full", lambda folder: True)
    moving.put(60)
    moving.run("joined")
    assert not [path for kept in ("*.arrow", "*.run", "manifests/*") for path in left.rglob(kept)]
    assert own.exists()
    assert list(recent.rglob("*.run"))
    moving.check("joined")
    loop = moving.run("sums")
    moving.check("sums")
    assert sum(each["fetched"] for each in loop.report.metrics.now["arrangements"].values()) > 0
    assert not _rebuilt(moving)


def test_what_is_nowhere_else_makes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pipeline(tmp_path, None) as moving:
        moving.put(60)
        moving.run("sums")
        os.utime(moving.local("sums"), (0, 0))
        before = sorted(moving.local("sums").rglob("*"))
        monkeypatch.setattr(cleanup, "_is_nearly_full", lambda folder: True)
        assert cleanup.free_disk_space(tmp_path / "sinks") == 0
        assert sorted(moving.local("sums").rglob("*")) == before


def test_state_that_is_nowhere_is_made_of_the_sources_again(moving: Pipeline) -> None:
    moving.put(80)
    moving.run("sums")
    moving.move()
    store = moving.store("sums")
    store.delete([next(name for name in moving.kept("sums") if name.endswith(".arrow"))])
    moving.put(80)
    moving.run("sums")
    moving.check("sums")
    assert _rebuilt(moving)
    moving.move()
    moving.put(80)
    moving.run("sums")
    moving.check("sums")
    assert not _rebuilt(moving)


def test_a_sink_whose_store_does_not_answer_for_a_while_continues(behind: tuple[Pipeline, Rule]) -> None:
    moving, rule = behind
    moving.put(60)
    loop = moving.run("sums")
    moving.put(60)
    again = moving.run("sums", batches=False)
    rule.down = True
    with pytest.raises(SinkqlError) as caught:
        drain(again)
    assert (caught.value.code, caught.value.retryable) == ("SQ4223", True)
    rule.down, rule.denied = False, True
    with pytest.raises(SinkqlError) as caught:
        drain(again)
    assert (caught.value.code, caught.value.retryable) == ("SQ3308", True)
    rule.denied = False
    assert again.checkpoint.end == loop.checkpoint.end
    drain(again)
    moving.check("sums")
    moving.move()
    rule.down = True
    with pytest.raises(SinkqlError) as caught:
        moving.run("sums")
    assert caught.value.retryable
    rule.down, rule.cut = False, 1
    with pytest.raises(SinkqlError) as caught:
        moving.run("sums")
    assert caught.value.retryable
    moving.put(60)
    moving.run("sums")
    moving.check("sums")
    assert not _rebuilt(moving)


def test_a_store_that_answers_slowly_is_asked_for_several_files_at_once(behind: tuple[Pipeline, Rule]) -> None:
    moving, rule = behind
    moving.put(60)
    loop = moving.run("joined", batches=False)
    rule.slow = 0.3
    drain(loop)
    assert rule.most_waiting > 4, "the runs and the manifest were not uploaded in parallel"
    moving.check("joined")
    moving.move()
    rule.most_waiting = 0
    moving.put(60)
    moving.run("joined")
    assert rule.most_waiting > 4
    moving.check("joined")
    assert not _rebuilt(moving)


def test_a_commit_makes_its_requests_in_two_waves(behind: tuple[Pipeline, Rule]) -> None:
    moving, rule = behind
    moving.put(60)
    moving.run("sums")
    loop = moving.run("sums", batches=False)
    moving.put(10)
    first = _asked(loop, rule)
    moving.put(10)
    later = _asked(loop, rule)
    assert first - later == 2, "the first commit did not list the state and the index once each"
    # a run for each of two buckets, and a manifest; the same for the index
    assert later <= 6
    moving.check("sums")


def _asked(loop: BatchLoop, rule: Rule) -> int:
    """Return the number of requests of a commit of all available data."""
    loop.targets = {name: reader.target(loop.checkpoint.end[name]) for name, reader in loop.readers.items()}
    rule.paths.clear()
    assert drain(loop) == 1
    return len(rule.paths)


def test_a_cluster_that_gets_state_takes_what_its_sinks_have(tmp_path: Path) -> None:
    with pipeline(tmp_path, None) as moving:
        moving.put(60)
        moving.run("sums")
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(SinkqlError) as caught:
            moving.session.execute(f"ALTER CLUSTER c SET (STATE = '{tmp_path}/file')")
        assert caught.value.code == "SQ2616"
        moving.session.execute(f"ALTER CLUSTER c SET (STATE = '{tmp_path}/elsewhere')")
        moving.put(60)
        moving.run("sums")
        moving.move()
        moving.put(60)
        moving.run("sums")
        moving.check("sums")
        assert not _rebuilt(moving)


def test_doctor_tells_whether_state_can_be_kept(behind: tuple[Pipeline, Rule]) -> None:
    moving, rule = behind
    (check,) = checks_of_clusters(moving.session.catalog)
    assert (check.name, check.state) == ("c: state", "ok")
    rule.denied = True
    (check,) = checks_of_clusters(moving.session.catalog)
    assert (check.name, check.state) == ("c: state", "wrong")
    assert "s3:PutObject" in (check.fix or "")


def test_what_is_kept_of_a_sink_goes_with_it(moving: Pipeline) -> None:
    moving.put(10)
    for sink in ("sums", "joined"):
        moving.run(sink)
    store, other = moving.store("sums"), moving.kept("joined")
    assert list(store.list(""))
    moving.session.execute("DROP SINK sums")
    assert list(store.list("")) == []
    assert other == moving.kept("joined") != set()


def test_the_table_of_a_sink_is_known_on_another_host(moving: Pipeline) -> None:
    moving.put(10)
    moving.run("latest")
    moving.move()
    url = f"sqlite:///{moving.folder}/lake.db"
    load_catalog("default", type="sql", uri=url, warehouse=str(moving.folder / "lake")).drop_table("n.latest")
    with pytest.raises(SinkqlError) as caught:
        moving.run("latest")
    assert caught.value.code == "SQ3503"
