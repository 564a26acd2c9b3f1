"""One process creates the archive of Spark's classes; if that fails, Spark starts without it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sinkql.runtime.spark import class_archive, session
from sinkql.runtime.spark.class_archive import Archive, archive_of, tidy
from sinkql.runtime.spark.java import check_java
from sinkql.runtime.spark.settings import SparkSettings
from support.patience import Deadline

_MAKER = """#!/bin/sh
echo "$4" >> "{folder}/asked"
read line < "{folder}/gate"
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Return an archive whose maker is a script instead of Python; it waits at a gate."""
    monkeypatch.delenv("SINKQL_ARCHIVE")
    os.mkfifo(tmp_path / "gate")
    maker = tmp_path / "maker"
    maker.write_text(_MAKER.format(folder=tmp_path))
    maker.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(maker))
    return Archive(tmp_path / "cache" / "spark-1.jsa")


def _asked(folder: Path, times: int) -> list[str]:
    deadline = Deadline()
    while not (folder / "asked").exists() or len((folder / "asked").read_text().splitlines()) < times:
        deadline.check("the start of the maker")
    return (folder / "asked").read_text().splitlines()


def _opened(folder: Path) -> None:
    """Open the gate for the waiting maker."""
    (folder / "gate").write_text("\n")


def test_only_one_makes_it_and_nobody_again_on_the_same_day(
    made: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.make()
    assert _asked(tmp_path, 1) == [str(made.path)]
    monkeypatch.setattr(class_archive, "_TRY_AGAIN_SECONDS", 0.0)
    made.make()  # another process holds the lock
    _opened(tmp_path)
    lock, deadline = made.path.with_suffix(".tried"), Deadline()
    while (held := made._hold()) is None:
        deadline.check("the end of the maker")
    os.close(held)
    monkeypatch.undo()
    monkeypatch.delenv("SINKQL_ARCHIVE")
    made.make()  # it was already tried today
    os.utime(lock, (0, 0))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "maker"))
    made.make()
    assert _asked(tmp_path, 2) == [str(made.path)] * 2
    _opened(tmp_path)


@pytest.mark.parametrize("reason", ["off", "there", "options"])
def test_it_is_not_made_where_it_is_of_no_use(
    made: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    match reason:
        case "off":
            monkeypatch.setenv("SINKQL_ARCHIVE", "off")
        case "there":
            made.path.parent.mkdir()
            made.path.touch()
        case _:
            monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:SharedArchiveFile=mine.jsa")
    made.make()
    assert not made.path.with_suffix(".tried").exists()


def test_it_is_used_where_it_is_there_and_the_user_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Archive(tmp_path / "spark-1.jsa")
    assert found.option == ""
    found.path.touch()
    assert found.option == f"-XX:SharedArchiveFile={found.path}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xshare:off")
    assert found.option == ""


def test_another_java_and_another_spark_have_others(tmp_path: Path) -> None:
    java, other = check_java().home, tmp_path / "jdk"
    (tmp_path / "spark").mkdir()
    found = {archive_of(java, session.HOME), archive_of(other, session.HOME), archive_of(java, tmp_path / "spark")}
    (tmp_path / "spark" / "jars").mkdir()
    found.add(archive_of(java, tmp_path / "spark"))
    assert len(found) == 4
    assert archive_of(java, session.HOME) in found


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"spark-{number}.jsa"
        path.touch()
        os.utime(path, (number, number))
    torn, young = tmp_path / "spark-1.77.draft", tmp_path / "spark-2.78.draft"
    torn.touch()
    os.utime(torn, (0, 0))
    young.touch()
    tidy(path)
    assert [each.name for each in sorted(tmp_path.iterdir())] == [
        "spark-2.78.draft", "spark-2.jsa", "spark-3.jsa", "spark-4.jsa"
    ]  # fmt: skip


@pytest.mark.soak
@pytest.mark.slow
def test_what_is_no_archive_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = archive_of(check_java().home, session.HOME).path
    path.parent.mkdir()
    path.write_bytes(b"\xf0\x0b\xab\xa8" + b"no archive" * 1000)
    _starts(tmp_path)


@pytest.mark.soak
def test_a_rehearsal_makes_what_java_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = archive_of(check_java().home, session.HOME).path
    os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-m", "sinkql.runtime.spark.class_archive_run", str(path))
    assert [each.name for each in path.parent.glob("spark-*")] == [path.name]
    assert str(path) in _starts(tmp_path)


def _starts(folder: Path) -> str:
    """Start Spark, and return which files Java has mapped."""
    settings = SparkSettings("local[1]", {}, folder / "spark", "sinkql archive")
    starting = session.SparkStart(settings)
    starting.begin()
    try:
        assert starting.result().range(3).count() == 3
        process = starting._jvm._process
        assert process is not None
        return Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        starting.end()


def test_archive_that_cannot_be_asked_for_is_not_there(made: Archive) -> None:
    unnamable = Archive(made.path.with_name("x" * 300))
    unnamable.make()
    assert unnamable.option == ""
