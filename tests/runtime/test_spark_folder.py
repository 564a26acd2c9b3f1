"""Scratch folders of Spark: each process has its own, and the folder of a killed process is deleted."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from sinkql.runtime.spark.scratch_folder import ScratchFolder
from support.patience import PATIENCE_S, joined


def _killed(place: Path, number: int) -> Path:
    """Run a process that takes a folder, fills it and is killed; return the folder."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        folder = ScratchFolder(place, "c")
        folder.take()
        (folder.path / "spark.log").write_text(str(number))
        (folder.path / "local").mkdir()
        (folder.path / "local" / "spill").write_text("x" * 100)
        os.write(writes, str(folder.path).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(writes)
    with os.fdopen(reads) as told:
        path = Path(told.read())
    os.utime(path / "spark.log", (number, number))
    return path


def test_what_killed_processes_left_goes_at_the_next_start_but_the_last_logs(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    living = ScratchFolder(tmp_path, "other")
    living.take()
    (living.path / "spill").write_text("x")
    left = [_killed(tmp_path, number) for number in range(5)]
    own = ScratchFolder(tmp_path, "c")
    own.take()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == sorted(
        path.name for path in (own.path, living.path, tmp_path / "mine", *left[2:])
    )
    for path in left[2:]:
        assert sorted(each.name for each in path.iterdir()) == ["lock", "spark.log"]
    assert (living.path / "spill").exists()
    living.release()
    assert sorted(each.name for each in living.path.iterdir()) == ["lock"]
    own.release(log=False)
    assert not own.path.exists()


def test_threads_that_take_a_folder_at_once_have_it_together(tmp_path: Path) -> None:
    folder = ScratchFolder(tmp_path, "c")
    together = threading.Barrier(8, timeout=PATIENCE_S)

    def take() -> None:
        together.wait()
        folder.take()

    threads = [threading.Thread(target=take, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert folder.path.is_dir()
