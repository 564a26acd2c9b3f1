"""A Hive metastore on a free port of this machine, from Maven's jars."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from support.jars import named
from support.java import java
from support.patience import PATIENCE_S, Deadline

_JARS = (
    "org.apache.hive:hive-standalone-metastore-server:4.0.1",
    "org.apache.hadoop:hadoop-client-api:3.3.6",
    "org.apache.hadoop:hadoop-client-runtime:3.3.6",
    "org.apache.hadoop:hadoop-common:3.3.6",
    "org.apache.hadoop:hadoop-mapreduce-client-core:3.3.6",
    "org.apache.hadoop:hadoop-hdfs:3.3.6",
    "org.apache.hadoop:hadoop-hdfs-client:3.3.6",
    "org.apache.logging.log4j:log4j-api:2.18.0",  # Ivy omits it if a newer one is in its cache
)
_OPENS = ("java.lang", "java.net", "java.nio", "java.util")


@contextmanager
def metastore(folder: Path) -> Iterator[int]:
    """Run a metastore until the block ends; yield its port. Tables are in `folder`/warehouse."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _write(folder, _settings(folder))
    opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPENS]
    paths = f"{folder}/conf{os.pathsep}{_jars(folder)}/*"
    main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", *opens, "-cp", paths, main, "-p", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = Deadline()
        while not _answers(port):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            deadline.check("the metastore")
        yield port
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        "metastore.warehouse.dir": f"file://{folder}/managed",
        "metastore.warehouse.external.dir": f"file://{folder}/warehouse",
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.housekeeping.threads.on": "false",
    }


def _write(folder: Path, settings: Mapping[str, str]) -> None:
    (folder / "conf").mkdir(parents=True)
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    (folder / "conf" / "metastore-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")


def _jars(folder: Path) -> Path:
    """Return a folder with the server's jars; its only logger is log4j 2."""
    jars = folder / "jars"
    jars.mkdir()
    for jar in named(*_JARS):
        (jars / jar.name).symlink_to(jar)
    for other in ("log4j-1.2.17", "slf4j-log4j12", "slf4j-reload4j"):
        for jar in jars.glob(f"{other}*.jar"):
            jar.unlink()
    return jars


def _answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        client.settimeout(PATIENCE_S)
        return client.connect_ex(("127.0.0.1", port)) == 0
