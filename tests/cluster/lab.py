"""One application on the cluster that survives many failures, and the expected rows of its tables."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from cluster.feed import ALL, Feed, Lake, Rows, cluster_sql, connections, script
from cluster.host import Host
from cluster.worker import CONF, arm_tasks, release, restart, wait_for_stopped
from support.catalog import server_url
from support.command import Running
from support.namespace import processes, send
from support.postgres import Postgres
from support.proxy import Rule, proxy
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster, Worker

SMALL = "CREATE CLUSTER small (SIZE = 'local[2]', STATE = 's3://data/state', AWS CONNECTION = aws);"
"""A cluster on the driver's machine, with the same STATE as the big cluster."""


class Feeding(Protocol):
    """The input of a pipeline and the expected rows of its tables, which are in namespace `name`."""

    name: str

    def more(self) -> None:
        """Write the input of a turn."""

    def expected(self) -> dict[str, Rows]:
        """Return the expected rows of the tables."""


@dataclass(slots=True)
class Lab:
    """A pipeline and its present host; `s3` and `rest` control the proxies of S3 and the catalog."""

    cluster: SparkCluster
    server: Seaweed
    feed: Feeding
    tables: tuple[str, ...]
    s3: Rule = field(default_factory=Rule)
    rest: Rule = field(default_factory=Rule)
    host: Host = field(init=False)
    lake: Lake = field(init=False)

    @contextmanager
    def run(
        self,
        folder: Path,
        catalogs: Postgres,
        sql: str,
        items: str,
        *,
        conf: Mapping[str, str] = MappingProxyType({}),
        cluster_of: str = "big",
    ) -> Iterator[None]:
        """Run the pipeline until the block ends; the block starts when the first turn is in the tables."""
        both = cluster_sql(self.cluster.url, {**CONF, **conf}) + f"SET cluster = {cluster_of};\n"
        self.lake = Lake(self.server)
        self.host = Host(folder, server_url(catalogs, Path(".sinkql")))
        self.more()
        self.host.start("exec", "script.sql", script=sql + both + items)
        try:
            self.check()
            yield
        finally:
            self.host.kill()
            self.lake.close()

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Return the workers."""
        return tuple(self.cluster.workers)

    @property
    def running(self) -> Running:
        """Return the command that runs the sinks."""
        return self.host.running

    def more(self) -> None:
        """Write the input of a turn."""
        self.feed.more()

    def check(self, *, rebuilds: bool = False) -> None:
        """Wait for the expected rows; unless `rebuilds`, assert that no job failed or recomputed its rows."""
        expected = self.feed.expected()
        self.lake.wait_for({f"{self.feed.name}.{table}": expected[table] for table in self.tables}, self.running)
        bad = [event for event in self.running.events if _bad(event)]
        self.running.events.clear()
        assert rebuilds or not bad, bad

    def turn(self) -> None:
        """Write the input of a turn, and wait for it in the tables."""
        self.more()
        self.check()

    def stop_in_tasks(self, rules: str) -> Worker:
        """Write the input of a turn; return a worker that has a process stopped at a failpoint."""
        arm_tasks(self.workers, rules)
        self.more()
        return wait_for_stopped(self.workers, lambda: self.running.look(0.0))

    def stop_driver(self, rules: str) -> None:
        """Write the input of a turn, and wait until the driver has stopped at a failpoint."""
        self.host.arm(rules)
        self.more()
        wait_for_stopped([self.host], lambda: self.running.look(0.0))

    def arm_one(self, rules: str) -> Worker:
        """Arm failpoints in the tasks of one worker; return the worker."""
        arm_tasks(self.workers[:1], rules)
        return self.workers[0]

    def lose(self, worker: Worker) -> None:
        """Kill a worker and start it with empty folders; disarm the failpoints of other workers, too."""
        worker.kill()
        self._spare(worker)
        restart(self.cluster, worker)

    def hang(self, worker: Worker) -> None:
        """Stop all processes of a worker, so that it does not answer; disarm the failpoints of other workers."""
        send(processes(worker.first), signal.SIGSTOP)
        self._spare(worker)

    def _spare(self, worker: Worker) -> None:
        release(each for each in self.workers if each is not worker)

    def another(self, *arguments: str, script: str = "") -> None:
        """Run a command on another host to its end."""
        host = Host(self.host.hidden, self.host.catalog)
        host.start(*arguments, script=script)
        try:
            assert host.running.end() == 0, host.running.rest()
        finally:
            host.kill()

    def go_to(self, cluster: str) -> None:
        """Move all jobs to another cluster of the pipeline while new input arrives."""
        self.more()
        for _ in range(self.alter(cluster)):
            self.running.wait_for(lambda event: event.get("event") == "starting" and event["cluster"] == cluster)
        self.turn()

    def alter(self, cluster: str) -> int:
        """Set another cluster of the pipeline for all jobs; return the number of jobs."""
        moving = [f"ALTER SINK {table}_sink SET CLUSTER {cluster};" for table in self.tables]
        if "twins" in self.tables:  # it shares a view with another sink, so the view has a job
            moving.append(f"ALTER MATERIALIZED VIEW groups SET CLUSTER {cluster};")
        self.another("exec", "script.sql", script="\n".join(moving))
        return len(moving)

    def heal(self) -> None:
        """Undo the failures of earlier tests: start missing workers and hosts, and clear failpoints and proxies."""
        for worker in self.workers:
            if not worker.alive:
                worker.start()
        self.cluster.wait_for_workers(len(self.workers))
        release(self.workers)
        for rule in (self.s3, self.rest):
            rule.down, rule.slow = False, 0.0
        if self.running.process.poll() is not None:
            self.move()

    def move(self) -> None:
        """Kill the host and continue on a new one, which has only the catalog and STATE."""
        self.host.kill()
        self.take_over()

    def take_over(self) -> Host:
        """Continue on a new host; return the previous one."""
        before = self.host
        self.host = Host(before.hidden, before.catalog)
        self.host.start("up", "--takeover")
        return before


def _bad(event: Mapping[str, Any]) -> bool:
    return event.get("event") == "rebuilding" or event.get("why") in ("failed", "fenced")


@contextmanager
def lab(
    name: str,
    folder: Path,
    server: Seaweed,
    cluster: SparkCluster,
    catalogs: Postgres,
    *,
    conf: Mapping[str, str] | None = None,
    tables: tuple[str, ...] = ALL,
    first: str = "",
    cluster_of: str = "big",
) -> Iterator[Lab]:
    """Run a pipeline over files until the block ends; the statements `first` run before its items are created."""
    with proxy(server.s3) as (s3, s3_rule), proxy(server.rest) as (rest, rest_rule):
        sql = connections(server, s3=s3, rest=rest) + first
        items = script(name, tables)
        found = Lab(cluster, server, Feed(server, name), tables, s3_rule, rest_rule)
        with found.run(folder, catalogs, sql, items, conf=conf or {}, cluster_of=cluster_of):
            yield found


@contextmanager
def lab_of(
    feed: Feeding, sql: str, items: str, folder: Path, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    """Run a custom pipeline until the block ends."""
    found = Lab(cluster, server, feed, tuple(feed.expected()))
    with found.run(folder, catalogs, sql, items):
        yield found
