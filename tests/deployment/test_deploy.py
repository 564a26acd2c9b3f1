"""The image, the manifest and the unit in `deploy/` pass their linters, and fit SinkQL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import sinkql
from sinkql import physical
from support.patience import PATIENCE_S
from support.programs import need

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy"
_BIN = Path(sys.executable).parent
_KUBERNETES = "1.34"


def _run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_the_dockerfile_passes_its_linter(tmp_path: Path) -> None:
    done = _run(_BIN / "hadolint", _DEPLOY / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")
    broken = tmp_path / "Dockerfile"
    broken.write_text((_DEPLOY / "Dockerfile").read_text().replace("--yes ", ""))
    assert "DL3014" in _run(_BIN / "hadolint", broken).stdout


@pytest.mark.long
def test_what_the_image_copies_is_enough_to_build_sinkql(tmp_path: Path) -> None:
    source, wheels = tmp_path / "src", tmp_path / "wheels"
    for names, target in _copied():
        for name in names:
            place = source / target / (Path(name).name if target == "." else "")
            if (_ROOT / name).is_dir():
                shutil.copytree(_ROOT / name, source / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(_ROOT / name, place)
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels))
    done = _run(sys.executable, *build, str(source))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(wheels.glob("sinkql-*.whl"))) == 1


def test_the_build_gets_what_the_image_copies_and_nothing_else() -> None:
    let_in = re.findall(r"^!(\S+)$", (_DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    own = re.findall(r"^COPY --chmod=755 (\S+)", (_DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(let_in) == sorted([*own, *(name for names, _ in _copied() for name in names)])


def _copied() -> list[tuple[list[str], str]]:
    """Return the files that the image copies, with their target folders."""
    lines = re.findall(r"^COPY (?!--)(.+)$", (_DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return [(names, target.removesuffix("/")) for *names, target in map(str.split, lines)]


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """Return a PATH with a sinkql and a java that print their arguments."""
    for name in ("sinkql", "java"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


def test_the_image_runs_sinkql_or_an_executor(programs: str) -> None:
    entry = _DEPLOY / "entrypoint"
    assert _run(entry, "up", "a b", PATH=programs).stdout.splitlines() == ["sinkql", "up", "a b"]
    said = {
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Dd",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://d:1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "pod",
    }
    done = _run(entry, "executor", PATH=programs, **said)
    java, *options = done.stdout.splitlines()
    assert (java, options[:4]) == ("java", ["-Da=b c", "-Dd", "-Xms1g", "-Xmx1g"])
    assert options[4:6] == ["-cp", "/opt/sinkql/lib/python3*/site-packages/pyspark/jars/*"]
    assert options[7:] == [
        *("--driver-url", "spark://d:1", "--executor-id", "7", "--cores", "2", "--app-id", "app"),
        *("--hostname", "10.0.0.1", "--resourceProfileId", "0", "--podName", "pod"),
    ]
    del said["SPARK_DRIVER_URL"]
    assert _run(entry, "executor", PATH=programs, **said).returncode != 0


def test_the_unit_passes_systemd(tmp_path: Path) -> None:
    unit = tmp_path / "sinkql.service"
    text = (_DEPLOY / "sinkql.service").read_text().replace("/opt/sinkql/bin", str(_BIN))
    unit.write_text(text)
    assert _verified(unit) == (0, "")
    unit.write_text(text.replace("LimitCORE=", "LimitCORES="))
    assert "Unknown key" in _verified(unit)[1]


def _verified(unit: Path) -> tuple[int, str]:
    done = _run(need("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", unit)
    return done.returncode, done.stderr


def _objects() -> dict[str, dict[str, Any]]:
    found = list(yaml.safe_load_all((_DEPLOY / "kubernetes.yaml").read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def test_the_manifest_fits_the_schemas_of_kubernetes() -> None:
    objects = _objects()
    for each in objects.values():
        kubernetes_validate.validate(each, _KUBERNETES, strict=True)
    objects["StatefulSet"]["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(objects["StatefulSet"], _KUBERNETES, strict=True)


def test_the_sql_of_the_manifest_fits_its_pod() -> None:
    objects = _objects()
    program = sinkql.compile(objects["ConfigMap"]["data"]["pipeline.sql"])
    (job,) = program.jobs
    assert isinstance(job, physical.Job)
    pod, service = objects["StatefulSet"], objects["Service"]
    spec = pod["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    conf, name = job.conf, f"{pod['metadata']['name']}-0"
    assert conf["spark.driver.host"] == f"{name}.{service['metadata']['name']}.default.svc"
    assert conf["spark.kubernetes.driver.pod.name"] == name
    assert conf["spark.kubernetes.container.image"] == container["image"]
    assert conf["spark.kubernetes.authenticate.serviceAccountName"] == spec["serviceAccountName"]
    ports = {conf["spark.driver.port"], conf["spark.driver.blockManager.port"]}
    assert {str(each["port"]) for each in service["spec"]["ports"]} == ports
    assert {str(each["containerPort"]) for each in container["ports"]} == ports
    assert pod["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == pod["spec"]["template"]["metadata"]["labels"]
