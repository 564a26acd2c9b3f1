"""One application on the cluster that goes on through many troubles, and what its tables must have."""

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
"""A cluster of the driver's machine, which keeps its state where the other one finds it."""


class Feeding(Protocol):
    """What comes, and what the tables must have of it, which lie in a namespace of its name."""

    name: str

    def more(self) -> None:
        """Have a turn come."""

    def expected(self) -> dict[str, Rows]:
        """Return what the tables must have."""


@dataclass(slots=True)
class Lab:
    """A pipeline, and the host that drives it, which may be replaced; `s3` and `rest` lie before S3 and the catalog."""

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
        """Run the pipeline until the block ends, whose first turn is in the tables."""
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
        """Feed a turn."""
        self.feed.more()

    def check(self, *, rebuilds: bool = False) -> None:
        """Wait until the tables are as they must be; nothing was computed anew, unless it may be."""
        expected = self.feed.expected()
        self.lake.wait_for({f"{self.feed.name}.{table}": expected[table] for table in self.tables}, self.running)
        bad = [event for event in self.running.events if _bad(event)]
        self.running.events.clear()
        assert rebuilds or not bad, bad

    def turn(self) -> None:
        """Feed a turn, and see it in the tables."""
        self.more()
        self.check()

    def stop_in_tasks(self, rules: str) -> Worker:
        """Feed a turn, and return a worker of which a process has stopped as rules say."""
        arm_tasks(self.workers, rules)
        self.more()
        return wait_for_stopped(self.workers, lambda: self.running.look(0.0))

    def stop_driver(self, rules: str) -> None:
        """Feed a turn, and wait until the driver has stopped as rules say."""
        self.host.arm(rules)
        self.more()
        wait_for_stopped([self.host], lambda: self.running.look(0.0))

    def arm_one(self, rules: str) -> Worker:
        """Have faults in the tasks of one worker, which is returned."""
        arm_tasks(self.workers[:1], rules)
        return self.workers[0]

    def lose(self, worker: Worker) -> None:
        """Kill a worker, and have it again, with nothing in its folders; no fault is left anywhere."""
        worker.kill()
        self._spare(worker)
        restart(self.cluster, worker)

    def hang(self, worker: Worker) -> None:
        """Stop all processes of a worker, of which nothing is heard then; no fault is left elsewhere."""
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
        """Have all that runs go to another cluster of the pipeline while rows come."""
        self.more()
        for _ in range(self.alter(cluster)):
            self.running.wait_for(lambda event: event.get("event") == "starting" and event["cluster"] == cluster)
        self.turn()

    def alter(self, cluster: str) -> int:
        """Say that all is to run on another cluster of the pipeline, and return of how many jobs."""
        moving = [f"ALTER SINK {table}_sink SET CLUSTER {cluster};" for table in self.tables]
        if "twins" in self.tables:  # the view that it shares is a job
            moving.append(f"ALTER MATERIALIZED VIEW groups SET CLUSTER {cluster};")
        self.another("exec", "script.sql", script="\n".join(moving))
        return len(moving)

    def heal(self) -> None:
        """Have all there that a trouble before may have left away."""
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
        """Go on on a new host, with the catalog and STATE; the one before has ended, or is killed."""
        self.host.kill()
        self.take_over()

    def take_over(self) -> Host:
        """Go on on a new host, and return the one before."""
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
    """Run a pipeline over files until the block ends; `first` are statements before those that make its items."""
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
    """Run a pipeline of one's own until the block ends."""
    found = Lab(cluster, server, feed, tuple(feed.expected()))
    with found.run(folder, catalogs, sql, items):
        yield found
