"""Run other systems that SinkQL is compared with: their jars, and jobs of Flink SQL."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.common import HOME
from bench.meter import Cost, measure

_POMS = Path(__file__).parent / "peers"
_OPENS = (
    "lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent", "util.concurrent.atomic",
    "util.concurrent.locks",
)  # fmt: skip
FLINK_EVENTS = (
    "id BIGINT, user_id BIGINT, qty INT, price DOUBLE, discount DOUBLE, sku STRING, country STRING, note STRING, "
    "ts TIMESTAMP_LTZ(6), active BOOLEAN"
)


def jars(name: str) -> Path:
    """Return the folder of the jars of a project in `peers`, which Maven downloads the first time."""
    folder = HOME / "jars" / name
    if not (folder / ".done").exists():
        command = ["mvn", "-q", "-B", "-f", str(_POMS / f"{name}.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"], check=True)
        (folder / ".done").touch()
    return folder


def class_path(name: str, program: str) -> str:
    """Return the class path of a program in `peers` and its dependencies; compile it if it changed."""
    folder = jars(name)
    source, compiled = _POMS / f"{program}.java", folder / f"{program}.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["javac", "-nowarn", "-cp", f"{folder}/*", "-d", str(folder), str(source)], check=True)
    return f"{folder}:{folder}/*"


def flink_command(name: str, sql: str, work: Path, cores: int, memory: str = "2g") -> Sequence[str]:
    """Return the command that runs statements in a new Flink process, which commits every ten seconds.

    `ice` is a catalog of Iceberg tables in the folder `lake`.
    """
    catalog = f"'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = 'file://{work}/lake'"
    script = work / "job.sql"
    script.write_text(f"CREATE CATALOG ice WITH ({catalog});\nCREATE DATABASE IF NOT EXISTS ice.n;\n{sql}")
    opens = [word for each in _OPENS for word in ("--add-opens", f"java.base/java.{each}=ALL-UNNAMED")]
    opens += ["--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"]
    settings = [
        f"parallelism.default={cores}", f"taskmanager.numberOfTaskSlots={cores}",
        "execution.checkpointing.interval=10s", "taskmanager.memory.managed.size=256m",
        f"execution.checkpointing.dir=file://{work}/checkpoints", "table.local-time-zone=UTC",
    ]  # fmt: skip
    return ["java", f"-Xmx{memory}", *opens, "-cp", class_path(name, "FlinkSql"), "FlinkSql", str(script), *settings]


def run_flink_files(
    sql: str, work: Path, cores: int, *, state: str = "rocksdb", memory: str = "2g", more: Sequence[str] = ()
) -> Cost:
    """Run statements that read folders to their end; their state is in RocksDB or in memory (`hashmap`)."""
    work.mkdir(parents=True, exist_ok=True)
    managed = "1g" if state == "rocksdb" else "256m"
    settings = [f"state.backend.type={state}", f"taskmanager.memory.managed.size={managed}", *more]
    return measure([*flink_command("flink_files", sql, work, cores, memory), *settings], folder=work)


def run_flink_kafka(sql: str, work: Path, cores: int) -> Cost:
    """Run statements that read a topic to its present end."""
    work.mkdir(parents=True, exist_ok=True)
    return measure(flink_command("flink_kafka", sql, work, cores), folder=work)


def flink_topic(name: str, address: str, topic: str, format_: str, more: str = "") -> str:
    """Return the statement that creates a table of a topic's events, up to the topic's present end."""
    options = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": address, "properties.group.id": "bench",
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", "format": format_,
        f"{format_}.timestamp-format.standard": "ISO-8601",
    }  # fmt: skip
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE {name} ({FLINK_EVENTS}{more}) WITH ({given});\n"
