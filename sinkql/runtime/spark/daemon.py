"""The parent of Spark's Python workers, which imports everything that tasks need before it forks workers.

`spark.python.daemon.module` names it. Spark's own daemon spends 110 CPU-ms per task on reading pyspark.zip again,
because each task calls `importlib.invalidate_caches`. This daemon would not see archives that `addPyFile` adds later;
SinkQL adds none.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import zipimport
from pathlib import Path

_IN_PACKAGE = ("pyspark", "python", "lib")
_FOUND = f"{sys.version_info.major}.{sys.version_info.minor}"
_EXPECTED = os.environ.get("SINKQL_PYTHON", _FOUND)  # the version of the modules in an executor's archive
if _EXPECTED != _FOUND:
    sys.exit(f"SinkQL needs Python {_EXPECTED} here, the version that packed it; {sys.executable} is Python {_FOUND}")

zipimport.zipimporter.invalidate_caches = lambda self: None  # type: ignore[method-assign]  # see above
gc.disable()  # imported modules stay; collecting among them takes a fifth of the time

# Spark puts its own archives first. If they belong to an installed package, its compiled modules load faster.
_archives = [path for path in sys.path if Path(path).name.endswith(".zip") and Path(path).parts[-4:-1] == _IN_PACKAGE]
for _path in _archives:
    if str(Path(_path).parents[3]) in sys.path:
        sys.path.remove(_path)
        sys.path.append(_path)

from sinkql.pandas_import import skip_pandas  # noqa: E402  # from the path above

_TASKS = (
    "numpy",
    "pyarrow.compute",
    "pyarrow.parquet",
    "msgspec",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.pandas.types",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.conversion",
    "sinkql.runtime.local.task",
    "sinkql.runtime.spark.execution.task_rows",
)

# Spark has more daemons, for work that plans and needs none of these modules; it names each one's worker.
if sys.argv[1:] in ([], ["pyspark.worker"]):
    skip_pandas()
    _names = os.environ.get("SINKQL_TASKS")
    if _names is None:
        from sinkql.runtime.spark.task_modules import task_modules  # imports the planning of all connectors

        _names = ",".join(task_modules())
    for _module in (*_TASKS, *filter(None, _names.split(","))):
        importlib.import_module(_module)

from pyspark import daemon  # noqa: E402  # after the imports that it forks

from sinkql.allocator import keep_freed  # noqa: E402  # as pyspark's daemon

keep_freed()  # workers inherit it

# Workers collect garbage after each task, which should not walk the modules imported here.
gc.freeze()
gc.enable()

if __name__ == "__main__":
    daemon.manager()
