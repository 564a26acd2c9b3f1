"""YARN and HDFS: a resource manager, a node on a separate machine, and files that node and driver both reach.

The servers are Hadoop's own, one process each. The node shares only the network with the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from support.java import java
from support.machine import WORK, Machine
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

_JARS = Path(__file__).parents[2] / ".yarn" / "libs"
_JARS_THERE, _CONF_THERE = "/opt/hadoop", "/opt/hadoop-conf"
_JAVA = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # as in Hadoop's own scripts
)
_CLASS = "org.apache.hadoop.{}"
_NAMES, _DATA = "hdfs.server.namenode.NameNode", "hdfs.server.datanode.DataNode"
_MANAGER, _NODE = "yarn.server.resourcemanager.ResourceManager", "yarn.server.nodemanager.NodeManager"
_LOCALHOST = "127.0.0.1"
_LOG4J = """\
log4j.rootLogger=INFO,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}
_LOOK_S = 0.2
_LOG_BYTES = 4000


@dataclass(slots=True)
class Yarn:
    """A running YARN; `conf` is the folder for HADOOP_CONF_DIR, `node` runs the applications."""

    folder: Path
    pages: int
    node: Machine
    _servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def conf(self) -> Path:
        """Return the folder for HADOOP_CONF_DIR."""
        return self.folder / "conf"

    def counts(self) -> dict[str, int]:
        """Return the numbers of applications by outcome; raise OSError if the manager does not answer."""
        found = self._asked("metrics")
        return {name: found[f"apps{name}"] for name in ("Submitted", "Completed", "Failed", "Killed")}

    def logs(self) -> str:
        """Return the ends of the logs of containers, for the message of a failed test."""
        found = sorted(self.node.root.glob(f"{WORK[1:]}/logs/*/*/*"))
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-_LOG_BYTES:]}" for path in found)

    def start(self) -> None:
        """Start all servers, and wait for the node."""
        self._run(_NAMES, "-format", "-nonInteractive").wait(PATIENCE_S)
        self._servers += [self._run(each) for each in (_NAMES, _DATA, _MANAGER)]
        command = [java(), *_JAVA, "-cp", f"{_CONF_THERE}:{_JARS_THERE}/*", _CLASS.format(_NODE)]
        home = str(Path(java()).parents[1])
        self.node.run(command, {"JAVA_HOME": home}, {_JARS: _JARS_THERE, self.conf: _CONF_THERE})
        deadline = Deadline()
        while not self._nodes():
            deadline.check(f"a node of YARN\n{self.node.log[-_LOG_BYTES:]}")
            for server in self._servers:
                with suppress(subprocess.TimeoutExpired):
                    server.wait(_LOOK_S)
                    raise AssertionError((self.folder / "servers.log").read_text()[-_LOG_BYTES:])

    def stop(self) -> None:
        """Kill all servers."""
        self.node.kill()
        for server in self._servers:
            server.kill()
            server.wait(PATIENCE_S)

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "servers.log").open("ab") as log:
            return subprocess.Popen(
                [java(), *_JAVA, "-cp", f"{self.conf}:{_JARS}/*", _CLASS.format(name), *arguments],
                cwd=self.folder,
                env={**os.environ, "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _nodes(self) -> int:
        with suppress(OSError):
            return int(self._asked("metrics").get("activeNodes", 0))
        return 0

    def _asked(self, what: str) -> dict[str, Any]:
        url = f"http://{_LOCALHOST}:{self.pages}/ws/v1/cluster/{what}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


@contextmanager
def yarn(folder: Path, *, memory: int = 6144, cores: int = 4) -> Iterator[Yarn]:
    """Run YARN until the block ends; its one node offers `memory` megabytes and `cores` to applications."""
    with held_ports(14) as ports:
        at = [f"{_LOCALHOST}:{port}" for port in ports]
        conf = folder / "conf"
        conf.mkdir(parents=True)
        _write(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{at[0]}", "hadoop.tmp.dir": str(folder / "hdfs")})
        _write(
            conf / "hdfs-site.xml",
            {
                "dfs.replication": "1",
                "dfs.namenode.http-address": at[1],
                "dfs.datanode.address": at[2],
                "dfs.datanode.http.address": at[3],
                "dfs.datanode.ipc.address": at[4],
            },
        )
        _write(
            conf / "yarn-site.xml",
            {
                "yarn.resourcemanager.hostname": _LOCALHOST,
                "yarn.resourcemanager.address": at[5],
                "yarn.resourcemanager.scheduler.address": at[6],
                "yarn.resourcemanager.resource-tracker.address": at[7],
                "yarn.resourcemanager.admin.address": at[8],
                "yarn.resourcemanager.webapp.address": at[9],
                "yarn.nodemanager.address": at[10],
                "yarn.nodemanager.localizer.address": at[11],
                "yarn.nodemanager.webapp.address": at[12],
                "yarn.nodemanager.local-dirs": f"{WORK}/local",
                "yarn.nodemanager.log-dirs": f"{WORK}/logs",
                "yarn.nodemanager.resource.memory-mb": str(memory),
                "yarn.nodemanager.resource.cpu-vcores": str(cores),
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
                "yarn.scheduler.minimum-allocation-mb": "256",
            },
        )
        _write(conf / "capacity-scheduler.xml", _SCHEDULER)
        (conf / "log4j.properties").write_text(_LOG4J)
        found = Yarn(folder, ports[9], Machine(folder / "node"))
        try:
            found.start()
            yield found
        finally:
            found.stop()


def _write(path: Path, properties: Mapping[str, str]) -> None:
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in properties.items()
    )
    path.write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")
