"""Log all loggers of every Python process of a run at debug level, and dump Spark's settings on request.

`LEAK_FOLDER` receives the files: `log-….txt`, and for each file `ask-<n>`, `spark-<n>.txt` and `hadoop-<n>.txt`. The
text in `ask-<n>` is first planted in all places, so that the scanner must find it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def _answer(folder: Path) -> None:
    number = 0
    while True:
        asked = folder / f"ask-{number}"
        while not asked.exists():
            time.sleep(0.05)
        from pyspark.sql import SparkSession

        session = SparkSession._instantiatedSession
        if session is None:
            return
        planted = asked.read_text()
        if planted:
            _plant(session, planted)
        _dump(session, folder, number)
        number += 1


def _plant(session: Any, text: str) -> None:  # Any: pyspark has two types of session
    session.conf.set("spark.sql.leak", text)
    session.sparkContext.setJobDescription(text)
    session.sparkContext.parallelize([1]).count()
    waits = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()", text]
    subprocess.Popen(waits, stdin=subprocess.PIPE, env={"PLANTED": text})
    logging.getLogger("leak").debug(text)
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)


def _dump(session: Any, folder: Path, number: int) -> None:
    context = session.sparkContext
    found = [str(row) for row in [*session.sql("SET").collect(), *session.sql("SET -v").collect()]]
    found += [str(pair) for pair in context.getConf().getAll()]
    found.append(str(context._jvm.System.getProperties()))
    hadoop = context._jsc.hadoopConfiguration().iterator()
    (folder / f"hadoop-{number}.txt").write_text("\n".join(str(hadoop.next()) for _ in iter(hadoop.hasNext, False)))
    draft = folder / f"spark-{number}.draft"
    with draft.open("w") as file:
        file.write("\n".join(found))
        faulthandler.dump_traceback(file)
    draft.rename(folder / f"spark-{number}.txt")


if "LEAK_FOLDER" in os.environ:
    _folder = Path(os.environ["LEAK_FOLDER"])
    logging.basicConfig(level=logging.DEBUG, filename=_folder / f"log-{os.getpid()}.txt")
    for _name in ("py4j", "py4j.java_gateway", "py4j.clientserver", "botocore", "botocore.parsers", "pyiceberg"):
        logging.getLogger(_name).setLevel(logging.DEBUG)
    threading.Thread(target=_answer, args=(_folder,), daemon=True).start()
