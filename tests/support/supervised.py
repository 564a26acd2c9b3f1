"""A process of its own that runs counters into the catalog of a folder: python supervised.py FOLDER once|on CLUSTER…"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from sinkql.extension.registry import discover
from sinkql.runtime.batch.progress import Event
from sinkql.runtime.process import supervisor
from sinkql.runtime.process.application import Workload
from support.running import FixedRoster, MemoryControl, contexts, counter, job


def main(folder: Path, *, once: bool, clusters: list[str]) -> int:
    """Run a sink a cluster, into the table of its name; print events' names, return the last exit code."""

    telling = threading.Lock()

    def tell(event: Event) -> None:
        with telling:  # events come from several threads
            print(type(event).__name__, getattr(event, "sink", ""), flush=True)

    up_to, pace = (50, 1000) if once else (None, 1000)
    jobs = [
        job(counter(up_to=up_to, rows_per_second=pace), folder, table=cluster, cluster=cluster, master="local[1]")
        for cluster in clusters
    ]
    outcomes = supervisor.run(
        Workload(
            FixedRoster(jobs),
            lambda each: contexts(folder, each),
            discover(),
            MemoryControl(),
            tell,
            once=once,
            takeover=False,
        )
    )
    print([outcome.ending for outcome in outcomes], flush=True)
    return max(outcome.exit_code for outcome in outcomes)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests may ignore it, as nohup does
    sys.exit(main(Path(sys.argv[1]), once=sys.argv[2] == "once", clusters=sys.argv[3:]))
