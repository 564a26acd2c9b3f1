"""What many sinks of one source cost while nothing comes, and how long it is until all of them run.

    python -m bench.idle [--sinks 100] [--seconds 30] [--interval 10s]

Prints the seconds from the start of Spark until all sinks run, and until each has its first commit; then CPU
milliseconds a second of the whole process tree, and its memory, as proportional set sizes, while nothing is new.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO

from bench.common import HOME, ROOT
from bench.meter import ENVIRONMENT, tree_cpu, tree_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinks", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--interval", default="10s")
    arguments = parser.parse_args()
    home = HOME / "idle"
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    (home / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
    (home / "pipeline.sql").write_text(_script(arguments.sinks, arguments.interval))
    command = [sys.executable, "-m", "sinkql", "--output", "json", "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT), "SINKQL_ARCHIVE": "off"}
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        _follow(process.stdout, arguments.sinks)
        time.sleep(20)  # what a start leaves behind
        before, began = tree_cpu(process.pid), time.monotonic()
        time.sleep(arguments.seconds)
        used = (tree_cpu(process.pid) - before) * 1000 / (time.monotonic() - began)
        print(f"idle: {used:.0f} CPU-ms a second, {tree_memory(process.pid):.0f} MB")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _follow(output: IO[str], sinks: int) -> None:
    up, running, committed = 0.0, set[str](), set[str]()
    for event in _events(output):
        match event["event"]:
            case "spark started":
                up = time.monotonic()
            case "started":
                running.add(event["sink"])
                if len(running) == sinks:
                    print(f"{sinks} sinks run {time.monotonic() - up:.1f} s after Spark is up")
            case "committed":
                committed.add(event["sink"])
                if len(committed) == sinks:
                    print(f"each has a commit {time.monotonic() - up:.1f} s after Spark is up")
                    return
    raise RuntimeError("the pipeline ended")


def _events(output: IO[str]) -> Iterator[dict[str, str]]:
    for line in output:
        if line.startswith("{") and "event" in (event := json.loads(line)):
            yield event


def _script(sinks: int, interval: str) -> str:
    made = (
        "CREATE SINK k{0} IN CLUSTER bench FROM s\n"
        "  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{0}')"
    )
    return (
        "CREATE CLUSTER bench (SIZE = 'local[2]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        "CREATE SOURCE s (id bigint NOT NULL, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n"
    ) + "".join(
        f"{made.format(number)} ENVELOPE NONE WITH (COMMIT INTERVAL = '{interval}');\n" for number in range(sinks)
    )


if __name__ == "__main__":
    main()
