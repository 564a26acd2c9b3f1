"""Relative paths in a cluster's CONF are resolved in the project folder; other values stay unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.local_path import in_project
from sinkql.runtime.spark.setting_path import with_absolute_paths


@pytest.mark.parametrize(
    ("name", "written", "expected"),
    [
        ("spark.jars", "a.jar, lib/*.jar,/whole.jar", "/p/a.jar,/p/lib/*.jar,/whole.jar"),
        ("spark.archives", "sinkql.zip#sinkql,hdfs://host/b.zip#b", "/p/sinkql.zip#sinkql,hdfs://host/b.zip#b"),
        ("spark.files", "", ""),
        ("spark.submit.pyFiles", "local:/opt/a.py,file:/b.py", "local:/opt/a.py,file:/b.py"),
        ("spark.eventLog.dir", "events", "/p/events"),
        ("spark.eventLog.dir", "s3a://bucket/events", "s3a://bucket/events"),
        ("spark.pyspark.python", "./env/bin/python", "./env/bin/python"),  # in an archive that executors unpack
        ("spark.sql.shuffle.partitions", "4", "4"),
    ],
)
def test_the_files_of_a_setting_are_those_of_the_project(name: str, written: str, expected: str) -> None:
    found = with_absolute_paths({name: written}, lambda path: in_project(path, Path("/p")))
    assert found == {name: expected}
