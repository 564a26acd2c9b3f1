"""A program that runs sinks of counters: python supervised.py FOLDER|URL CLUSTER…"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from msgspec.structs import replace

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.runtime.batch.events import Event
from sinkql.runtime.process import supervisor
from sinkql.runtime.process.application import RunSpec
from support.running import FixedWorkload, MemoryControl, contexts, counter, job


def main(place: str, clusters: list[str]) -> int:
    """Run one sink per cluster, into a table of the cluster's name; print event names, return the highest exit code.

    With a URL, the tables are in that REST catalog, and all else is in the working folder.
    """
    url = place if place.startswith("http") else None
    folder = Path.cwd() if url is not None else Path(place)

    telling = threading.Lock()

    def tell(event: Event) -> None:
        with telling:  # events come from several threads
            print(type(event).__name__, getattr(event, "sink", ""), flush=True)

    jobs = [
        job(counter(), folder, table=cluster, cluster=cluster, master="local[1]", execution="SPARK")
        for cluster in clusters
    ]
    if url is not None:
        options = {"catalog_type": "rest", "url": url, "warehouse": "lake"}
        connection = physical.Connection("lake", "ICEBERG CATALOG", options)
        jobs = [replace(each, write=replace(each.write, connection=connection)) for each in jobs]
    outcomes = supervisor.run_until_done(
        RunSpec(
            FixedWorkload(jobs),
            lambda each: contexts(folder, each),
            discover(),
            MemoryControl(),
            tell,
            once=False,
            takeover=False,
        )
    )
    print([outcome.ending for outcome in outcomes], flush=True)
    return max(outcome.exit_code for outcome in outcomes)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the caller may ignore it, as nohup does
    sys.exit(main(sys.argv[1], sys.argv[2:]))
