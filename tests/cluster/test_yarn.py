"""Sinks on YARN, whose node shares only the network, HDFS and S3 with the driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.pipeline import Pipeline
from sinkql.runtime.spark.package import pack, python_version
from support.command import launch_program, start
from support.machine import SPARK, SPARK_THERE
from support.seaweed import Seaweed
from support.yarn import Yarn, yarn

pytestmark = [pytest.mark.soak, pytest.mark.server]

_SUBMIT = Path(__file__).parents[2] / "deploy" / "submit.py"
_FILES = (40_000,) * 4
_SINK = "materialize.public.s"
_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.yarn.jars": f"local:{SPARK_THERE}/jars/*",
    "spark.yarn.am.memory": "512m",
}
_ONE = {"Submitted": 1, "Completed": 1, "Failed": 0, "Killed": 0}


@pytest.fixture(scope="module")
def hadoop(machines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


def test_sinks_run_on_yarn(server: Seaweed, hadoop: Yarn, tmp_path: Path) -> None:
    pipeline = Pipeline(server, "yarn", tmp_path, "yarn_client", _CONF)
    pipeline.put(*_FILES)
    before = hadoop.counts()
    running = start("exec", "pipeline.sql", folder=tmp_path, environment={"HADOOP_CONF_DIR": str(hadoop.conf)})
    try:
        running.wait_for_rows({_SINK: pipeline.count})
        pipeline.put(*_FILES)
        running.wait_for_rows({_SINK: pipeline.count})
        assert running.interrupt() == 0
    except BaseException:
        print(hadoop.logs())
        raise
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()
    assert [path for path in pipeline.written() if "-t" not in path] == []  # by tasks, not by the driver
    after = hadoop.counts()
    assert {name: after[name] - before[name] for name in after} == _ONE


def test_a_driver_runs_on_yarn_that_has_nothing_of_sinkql(server: Seaweed, hadoop: Yarn, tmp_path: Path) -> None:
    pipeline = Pipeline(server, "yarn", tmp_path, "yarn_cluster", _CONF)
    pipeline.put(*_FILES)
    archive = tmp_path / "sinkql.zip"
    pack(archive, driver=True)
    before = hadoop.counts()
    settings = {
        **_CONF,
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": f"python{python_version()}",
        "spark.yarn.appMasterEnv.PYTHONPATH": "sinkql",
    }
    told = [f"--conf={name}={value}" for name, value in settings.items()]
    where = ("--master", "yarn", "--deploy-mode", "cluster", "--archives", f"{archive}#sinkql", "--files")
    running = launch_program(
        *(str(SPARK / "bin" / "spark-submit"), *told, *where, str(tmp_path / "pipeline.sql"), str(_SUBMIT)),
        *("exec", "--once", "pipeline.sql"),
        folder=tmp_path,
        environment={"HADOOP_CONF_DIR": str(hadoop.conf)},
    )
    try:
        printed = running.rest()
        assert running.end() == 0, "".join([*printed, *running.errors, hadoop.logs()])
    finally:
        running.kill()
    assert pipeline.expected == pipeline.rows()
    after = hadoop.counts()
    assert {name: after[name] - before[name] for name in after} == _ONE
