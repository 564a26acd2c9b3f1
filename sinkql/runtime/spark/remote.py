"""A master elsewhere → what its executors are given, and whether they can run what SinkQL gives them.

The driver's own server hands executors the archive of SinkQL and its packages (`package`); they unpack it where they
run, and their Python finds it there.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark import SparkContext

from sinkql.errors import SinkqlError
from sinkql.extension.home import EXECUTOR
from sinkql.runtime.spark.package import packed, python_version

EXPECTED = "SINKQL_PYTHON"
"""The variable by which executors are told the version of Python that they need."""
_FOLDER = "sinkql"
_ENVIRONMENT = "spark.executorEnv."
_PYTHON = "spark.pyspark.python"
_ARCHIVES = "spark.archives"
_PATH = f"{_ENVIRONMENT}PYTHONPATH"
_HOST = "spark.driver.host"
_WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_STANDALONE = "spark://"
_REACHED_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_PATIENCE = "120s"
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SAID = re.compile(r"^\s*(?:Error from python worker:\s*)?(SinkQL needs Python .+)$", re.MULTILINE)
_ABSENT = re.compile(r'Cannot run program "([^"]+)"')


def python(conf: Mapping[str, str]) -> str:
    """Return the Python that executors run: the cluster's own of the version that this one has."""
    return conf.get(_PYTHON) or f"python{python_version()}"


def completed(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with those that executors need to find SinkQL, and the driver; what users set stays.

    Raises SQ4050 where no master answers, and SQ4053.
    """
    found = {**conf}
    if master.startswith(_STANDALONE):
        here = _own_address(master)
        found.setdefault(_HOST, here)
        executors, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
        if executors is not None and cores is not None:
            found.setdefault("spark.cores.max", str(int(executors) * int(cores)))
    archives = [each for each in conf.get(_ARCHIVES, "").split(",") if each]
    folders = [_FOLDER]
    if not any(each.endswith(f"#{_FOLDER}") for each in archives):
        made = packed()
        folders = [f"{_FOLDER}{number or ''}" for number in range(len(made))]
        archives += [f"{path}#{folder}" for path, folder in zip(made, folders, strict=True)]
    found[_ARCHIVES] = ",".join(archives)
    found[_PATH] = ":".join([*folders, *filter(None, [conf.get(_PATH)])])
    found[f"{_ENVIRONMENT}{EXECUTOR}"] = "1"
    found[f"{_ENVIRONMENT}{EXPECTED}"] = python_version()
    return found


def check(context: SparkContext, master: str, conf: Mapping[str, str]) -> None:
    """Wait for an executor, and see that its Python runs SinkQL; raises SQ4051 and SQ4052."""
    java = context._jsc.sc()
    patience = _seconds(conf.get(_WAITING, _PATIENCE))
    deadline = time.monotonic() + patience
    while java.getExecutorMemoryStatus().size() < 2:  # the driver is one of them
        if java.isStopped() or time.monotonic() > deadline:
            raise no_executor(master, None if java.isStopped() else patience, java.conf().get(_HOST))
        time.sleep(_LOOK_SECONDS)
    try:
        context.parallelize([0], 1).map(lambda _: None).collect()
    except Py4JError as error:
        raise _refused(str(error), python(conf)) from None


def no_executor(master: str, waited: float | None, here: str) -> SinkqlError:
    """Return the error for a cluster that gives no executor; None where its master gave up."""
    seconds = f" in {waited:.0f} seconds" if waited is not None else ""
    return SinkqlError(
        "SQ4051",
        f'the cluster of "{master}" has given no executor{seconds}',
        detail=f"executors are to reach this process at {here}",
        hint="Look at the master's page for free cores and memory, and at the log of an executor, if one began. CORES, "
        "MEMORY and EXECUTORS say what is asked for, 'spark.driver.host' in CONF how executors reach this machine.",
    )


def _refused(text: str, python_: str) -> SinkqlError:
    said, absent = _SAID.search(text), _ABSENT.search(text)
    if said is not None:
        message = f"the executors' {python_} is of another version: {said[1].strip()}"
    elif absent is not None:
        message = f'the executors have no program "{absent[1]}"'
    else:
        message = f"the executors' {python_} does not run SinkQL"
    return SinkqlError(
        "SQ4052",
        message,
        detail="\n".join(line for line in text.splitlines() if line.strip())[:2000] if said is None else None,
        hint=f"Install Python {python_version()} on the machines of the cluster, and name it in CONF if it is not on "
        f"their PATH: MAP['{_PYTHON}' => '/usr/bin/{python_}'].",
    )


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h)?", text.strip())
    return int(found[1]) * _UNITS[found[2] or ""] if found is not None else _seconds(_PATIENCE)


def _own_address(master: str) -> str:
    """Return the address by which the first master that answers reaches this machine."""
    reasons = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, _, port = each.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _REACHED_SECONDS) as reached:
                return str(reached.getsockname()[0])
        except (OSError, ValueError) as error:
            reasons.append(f"{each}: {error}")
    raise SinkqlError(
        "SQ4050",
        f'no Spark master answers at "{master}"',
        detail="\n".join(reasons),
        hint="Start the master, or correct MASTER: ALTER CLUSTER … SET (MASTER = 'spark://host:7077').",
    )
