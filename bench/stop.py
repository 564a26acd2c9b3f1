"""Measure how long one Ctrl-C takes to end `sinkql exec`, by the sink's activity when it arrives.

    python -m bench.stop [--runs 1]

Prints the seconds from the signal to the end of the process, the longest of the runs. The signal arrives while Python
starts, at the beginning of each stage of a sink's start and some seconds into it, in the first batch, and right after
its commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.meter import ENVIRONMENT

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (TICK INTERVAL = '10ms');
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""
_MOMENTS = (
    (None, 1.0),
    ("opening the table", 0.0),
    ("waiting for Spark", 0.0),
    ("waiting for Spark", 3.0),
    ("starting the query", 0.0),
    ("starting the query", 1.0),
    ("first batch", 0.0),
    ("committed", 0.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    runs = parser.parse_args().runs
    for stage, later in _MOMENTS:
        ended = [_ended(stage, later) for _ in range(runs)]
        longest, codes = max(each for each, _ in ended), sorted({code for _, code in ended})
        moment = f"{stage or 'start of Python'}{f' + {later:.0f} s' if later else ''}:"
        print(f"{moment:40} {longest:6.2f} s, exit {', '.join(map(str, codes))}")


def _ended(stage: str | None, later: float) -> tuple[float, int]:
    """Send the signal some seconds after a stage begins; return the seconds to the end, and the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p.sql").write_text(_SCRIPT)
        command = [sys.executable, "-m", "sinkql", "--output", "json", "exec", "p.sql"]
        process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        for line in process.stdout if stage is not None else ():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if stage in (event.get("stage"), event.get("event")):
                    break
        time.sleep(later)
        sent = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.communicate()
        return time.perf_counter() - sent, process.returncode


if __name__ == "__main__":
    main()
