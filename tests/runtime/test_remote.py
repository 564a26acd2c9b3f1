"""What is wrong with a cluster elsewhere is told before sinks wait for it."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.spark import package
from sinkql.runtime.spark.session import SparkSettings, start
from support.port import held_ports


def test_a_master_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with held_ports(1) as (port,), pytest.raises(SinkqlError) as refused:
        start(SparkSettings(f"spark://127.0.0.1:{port}", {}, tmp_path))
    assert (refused.value.code, refused.value.retryable) == ("SQ4050", True)
    assert refused.value.detail is not None
    assert f"127.0.0.1:{port}: " in refused.value.detail


def test_a_package_in_editable_mode_whose_modules_are_not_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "nowhere_to_be_found-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: nowhere-to-be-found\nVersion: 1\n")
    (metadata / "RECORD").write_text("")
    (metadata / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    monkeypatch.setattr(package, "_distributions", lambda: iter([Distribution.at(metadata)]))
    with pytest.raises(SinkqlError) as refused:
        package.pack(tmp_path / "package.zip")
    assert (refused.value.code, list(tmp_path.glob("*.zip"))) == ("SQ4053", [])


def test_what_is_packed_is_sinkql_with_all_that_it_needs_but_spark() -> None:
    packed = {each.name for each in package._distributions()}
    assert {"sinkql", "pyarrow", "pyiceberg", "boto3"} <= packed
    assert "pytest" not in packed
    installed, editable = package._contents()
    names = {**installed.files, **editable.files}
    assert {"sinkql/runtime/spark/daemon.py", "pyarrow/__init__.py"} <= names.keys()
    assert [name for name in names if name.startswith(("pyspark/", "py4j/", "sqlglot/"))] == []
    assert f"sinkql-{distribution('sinkql').version}.dist-info/entry_points.txt" in names


def test_an_archive_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sinkql").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SinkqlError) as refused:
        package.packed()
    assert refused.value.code == "SQ4054"
