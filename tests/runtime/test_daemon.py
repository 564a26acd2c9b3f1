"""The parent process of Spark's workers preloads the modules that tasks need, by existing names."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyspark

from sinkql import compile as compile_sql
from sinkql import physical
from sinkql.logical.type import TEXT
from sinkql.runtime.spark.task_modules import task_modules


def preloaded() -> tuple[str, ...]:
    """Return the names of the daemon's preloaded modules; importing the daemon would change this process."""
    spec = find_spec("sinkql.runtime.spark.daemon")
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_TASKS":
            found: tuple[str, ...] = ast.literal_eval(node.value)
            return found
    raise AssertionError("the daemon has no _TASKS")


def test_what_the_daemon_imports_is_there() -> None:
    for module in preloaded():
        importlib.import_module(module)


def test_a_worker_that_runs_a_task_imports_nothing_more_of_sinkql() -> None:
    tasks = f"""
import importlib, sys
for module in {(*preloaded(), *task_modules())!r}:
    importlib.import_module(module)
before = set(sys.modules)
from sinkql import physical
from sinkql.logical.type import TEXT
from sinkql.runtime.state.operator import stateful
read = physical.Read("e", "listed", {{}}, (physical.Column("g", TEXT),), "retract")
stateful(physical.Pick(read, "p", ("g",)))
stateful(physical.Aggregate(read, "a", read.columns, (), "retract"))
print(*(name for name in set(sys.modules) - before if name.startswith("sinkql")))
"""
    done = subprocess.run([sys.executable, "-c", tasks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def loaded_by(modules: Sequence[str]) -> list[str]:
    """Return what a daemon for these modules loads: facts about it, then the names of modules.

    Spark puts its archives first in the path; imports from an archive take longer.
    """
    archives = str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")
    script = """
import gc, sys
sys.argv = ["daemon", "pyspark.worker"]
rounds = gc.get_stats()[2]["collections"]
import sinkql.runtime.spark.daemon
import pyspark
print(gc.get_stats()[2]["collections"] - rounds, gc.isenabled(), gc.get_freeze_count() > 0, ".zip" in pyspark.__file__)
print(*sys.modules)
"""
    environment = {
        **os.environ,
        "SINKQL_TASKS": ",".join(modules),
        "PYTHONPATH": os.pathsep.join([archives, *filter(None, sys.path)]),
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    facts, names = done.stdout.splitlines()
    return [facts, *names.split()]


def test_the_daemon_loads_only_what_tasks_need_and_collects_no_garbage() -> None:
    facts, *names = loaded_by(task_modules())
    assert facts == "0 True True False"
    unused = {
        *("sqlalchemy", "pandas", "httpx", "requests", "rich", "sinkql.planner", "sinkql.connectors.mysql.plan"),
        *("sinkql.connectors.iceberg.commit.committer", "sinkql.connectors.iceberg.write.append"),
    }
    assert unused & set(names) == set()


def jobs_of(source: str, sink: str) -> Sequence[physical.Job]:
    """Return the jobs of a sink into a table of a lake."""
    script = f"""
    CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '/lake');
    CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL = 'http://registry');
    CREATE CONNECTION kafka TO KAFKA (BROKER = 'broker:9092', SECURITY PROTOCOL = 'PLAINTEXT');
    CREATE SOURCE events (k bigint NOT NULL, v bigint) FROM {source};
    CREATE MATERIALIZED VIEW per_key AS SELECT k, count(*) AS n FROM events GROUP BY k;
    CREATE SINK s FROM {sink} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
      KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
    """
    return compile_sql(script).jobs


def rooms(modules: Sequence[str]) -> set[str]:
    """Return the folders of connectors and of operators that modules belong to."""
    return {
        ".".join(name.split(".")[1:3]) for name in modules if name.startswith(("sinkql.connectors", "sinkql.runtime"))
    }


def test_the_daemon_loads_the_connectors_and_operators_of_its_jobs() -> None:
    files = "FILES (PATH = '/in') FORMAT JSON"
    kafka = "KAFKA CONNECTION kafka (TOPIC 't') FORMAT JSON"
    assert rooms(task_modules(jobs_of(files, "events"))) == {"connectors.files", "connectors.iceberg"}
    assert rooms(task_modules(jobs_of(files, "per_key"))) == {"connectors.files", "connectors.iceberg", "runtime.state"}
    assert rooms(task_modules(jobs_of(kafka, "events"))) == {"connectors.kafka", "connectors.iceberg"}
    assert rooms(task_modules()) >= {"connectors.confluent", "connectors.generator", "runtime.state"}
    names = loaded_by(task_modules(jobs_of(files, "events")))
    assert [name for name in names if name.startswith(("sinkql.connectors.kafka.reader", "confluent_kafka"))] == []


def test_avro_of_a_registry_loads_its_modules() -> None:
    read = physical.Read("e", "KAFKA", {"value": {"format": "AVRO"}}, (physical.Column("k", TEXT),))
    (job,) = jobs_of("FILES (PATH = '/in') FORMAT JSON", "events")
    job = msgspec.structs.replace(job, write=msgspec.structs.replace(job.write, input=read))
    assert rooms(task_modules([job])) == {"connectors.confluent", "connectors.kafka", "connectors.iceberg"}
