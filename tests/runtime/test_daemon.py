"""The parent process of Spark's workers preloads the modules that tasks need, by existing names."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyspark

from sinkql.connector_api.registry import discover


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
for module in {preloaded()!r}:
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


def test_the_daemon_loads_only_what_tasks_need_and_collects_no_garbage() -> None:
    """Spark puts its archives first in the path; imports from an archive take longer."""
    archives = str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")
    script = """
import gc, sys
sys.argv = ["daemon", "pyspark.worker"]
rounds = gc.get_stats()[2]["collections"]
import sinkql.runtime.spark.daemon
import pyspark
print(gc.get_stats()[2]["collections"] - rounds, gc.isenabled(), gc.get_freeze_count() > 0)
print(".zip" in pyspark.__file__, "sqlalchemy" in sys.modules, "sinkql.connectors.mysql.plan" in sys.modules)
"""
    tasks = ",".join(discover().tasks)
    environment = {
        **os.environ,
        "SINKQL_TASKS": tasks,
        "PYTHONPATH": os.pathsep.join([archives, *filter(None, sys.path)]),
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["0 True True", "False False False"]
