"""A pipeline of many kinds of sources, views and sinks, whose tables lie in S3 and Glue of a server on this machine.

All that it reads lies in its folder, a step at a time, so that DuckDB can read the same. Two sources generate their
rows, all with the first step. Without Spark.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import NO_PLAN
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import Event
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session import Session
from support.aws import KEYS, aws
from support.patience import Deadline
from support.running import catch_up, loop_of
from upgrade.capture import CapturedTable, captured
from webhook.sending import Sender, capturing, path_of

BUCKET = "lake"
NAMESPACE = "shop"
REGION = "eu-west-1"
HOOKS = "hooks"
_SCRIPT = Path(__file__).with_name("pipeline.sql")
_FOLDERS = ("orders", "events", "lines", "objects", "requests", "statements")
_OWNER = "upgrade"
_BUSY = "SQ3431"
"""A capture that is busy does not answer; a run of the product asks again, too."""
_EPOCH = datetime(2024, 1, 1)
_REGIONS = ("north", "south", "west")
_PRODUCTS = ("apple", "bread", "cheese", "dates")


@dataclass(frozen=True)
class Store:
    """Hold the address of a server that stands in for S3 and Glue."""

    address: str

    def client(self, service: str) -> Any:  # boto3 has no types
        """Return a client of a service."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.address,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def create(self) -> None:
        """Create the bucket."""
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def catalog(self) -> Catalog:
        """Return PyIceberg's catalog of the tables."""
        keys = {
            f"{service}.{name}": value
            for service in ("s3", "glue")
            for name, value in (
                ("endpoint", self.address),
                ("region", REGION),
                ("access-key-id", KEYS["AWS_ACCESS_KEY_ID"]),
                ("secret-access-key", KEYS["AWS_SECRET_ACCESS_KEY"]),
            )
        }
        return load_catalog("default", type="glue", **keys)

    def tables(self) -> dict[str, Table]:
        """Return all tables by name."""
        catalog = self.catalog()
        assert isinstance(catalog, GlueCatalog)
        return {name[-1]: catalog.load_table(name) for name in sorted(catalog.list_tables(NAMESPACE))}


@contextmanager
def stored() -> Iterator[Store]:
    """Run an empty server, and have the environment name it for Glue."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # one line for each request
    with aws() as running, patch.dict("os.environ", {**KEYS, "AWS_ENDPOINT_URL": running.address}):
        yield Store(running.address)


@dataclass
class Pipeline:
    """Hold a session in a project's folder.

    By the names of jobs, `events` are what they reported, and `plans` the hashes that were in their first checkpoints.
    """

    folder: Path
    store: Store
    port: int
    session: Session
    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    plans: dict[str, str] = field(default_factory=dict)

    def create(self) -> None:
        """Create all items."""
        for name in _FOLDERS:
            (self.folder / name).mkdir()
        script = _SCRIPT.read_text().replace("http://127.0.0.1:1", self.store.address)
        self.session.execute(script.replace("PORT = 1)", f"PORT = {self.port})"))

    def move(self) -> None:
        """Have requests come to this run's port, and not to that of the run before."""
        self.session.execute(f"ALTER SOURCE {HOOKS} SET (PORT = {self.port})")

    def jobs(self) -> list[physical.Job]:
        """Return all jobs of the catalog, those of views first."""
        return sorted(self.session.jobs(), key=lambda job: not job.view)

    @property
    def captured(self) -> CapturedTable:
        """Return the captured table of a server, whose sink is not in the catalog."""
        lake = next(job.write.connection for job in self.jobs() if not job.view)
        return captured(self.folder, self.session, lake, NAMESPACE)

    def step(self, number: int, *, ahead: bool = False) -> None:
        """Let the input of a step come, and run all jobs to its end; `ahead`, captures and views alone."""
        write_input(self.folder, number)
        for path in sorted((self.folder / "objects").glob(f"{number}-*")):
            self.store.client("s3").put_object(Bucket=BUCKET, Key=f"objects/{path.name}", Body=path.read_bytes())
        self.session.execute((self.folder / "statements" / f"{number}.sql").read_text())
        newest = self._newest()
        with capturing(self.session):
            self._send(number)
            deadline = Deadline()
            while ahead and self._newest() == newest:  # what sinks read they ask the capture for
                deadline.check("an entry of the capture log")
                time.sleep(0.01)
            self.run([job for job in self.jobs() if job.view or not ahead])
        captured = self.captured
        progress = self.events[captured.job().sink].append
        captured.step(number, None if ahead else self._drain_captured, progress)

    def _newest(self) -> str:
        """Return the name of the newest entry of the capture log, which says its number."""
        return max((each.name for each in self.folder.glob(".sinkql/capture/*/log/*.json")), default="")

    def _send(self, number: int) -> None:
        sender = Sender(self.port)
        sender.listening(path_of(HOOKS))
        for line in (self.folder / "requests" / f"{number}.json").read_text().splitlines():
            request = json.loads(line)
            answered = sender.send(path_of(HOOKS), request["body"], {"Idempotency-Key": request["key"]})
            assert answered.status == 200, answered

    def run(self, jobs: Sequence[physical.Job]) -> None:
        """Run jobs to the end of what there is."""
        since_ms = time.time_ns() // 1_000_000
        for job in jobs:
            deadline = Deadline()
            while True:
                try:
                    self._run(job, since_ms)
                    break
                except SinkqlError as error:
                    if error.code != _BUSY:
                        raise
                    deadline.check("an answer of the capture")

    def _run(self, job: physical.Job, since_ms: int) -> None:
        control = self.session.catalog.control
        epoch = control.acquire(job.sink_id, owner=_OWNER, takeover=True)
        try:
            loop = loop_of(
                job,
                self.session.context(job),
                self.session.catalog.registry,
                control=control,
                progress=self.events[job.sink].append,
                since_ms=since_ms,
            )
            self._drain(job, loop, epoch)
        finally:
            control.release(job.sink_id, owner=_OWNER)

    def _drain_captured(self, job: physical.Job, loop: BatchLoop) -> None:
        self._drain(job, loop, 1)

    def _drain(self, job: physical.Job, loop: BatchLoop, epoch: int) -> None:
        self.plans.setdefault(job.sink, loop.start(epoch=epoch, once=True).plan)
        assert not loop.needs_full_refresh(), f"{job.sink} computes all rows again"
        if loop.has_unread_output():
            assert loop.checkpoint.plan == NO_PLAN, f"{job.sink} lacks what it had"
            loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
        catch_up(loop)


@contextmanager
def opened(folder: Path, store: Store, port: int) -> Iterator[Pipeline]:
    """Open the project in a folder."""
    with Session(folder) as session:
        yield Pipeline(folder, store, port, session)


def write_input(folder: Path, step: int) -> None:
    """Write what comes with a step; it follows from the step's number."""
    chance = random.Random(step)
    orders = ["id,customer,amount,ordered_at", f"none,1,2.50,{_EPOCH}"]
    for number in range(20):
        at = _EPOCH + timedelta(days=20 * step + number)
        orders.append(f"{step * 100 + number},{chance.randrange(8)},{chance.randrange(10_000) / 100:.2f},{at}")
    (folder / "orders" / f"{step}.csv").write_text("\n".join(orders) + "\n")
    _write_lines(folder / "events" / f"{step}.json", [_event(step, number, chance) for number in range(20)])
    lines = [_line(step, number, chance) for number in range(20)]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("customer", pa.int64()),
            ("product", pa.string()),
            ("quantity", pa.int32()),
            ("price", pa.decimal128(10, 2)),
        ]
    )
    pq.write_table(pa.Table.from_pylist(lines, schema), folder / "lines" / f"{step}.parquet")
    _write_lines(
        folder / "objects" / f"{step}-a.json", [{"id": step * 10 + each, "v": f"o{each}"} for each in range(3)]
    )
    requests = [{"key": f"{step}-{each % 4}", "body": {"step": step, "n": each % 4}} for each in range(6)]
    _write_lines(folder / "requests" / f"{step}.json", requests)
    (folder / "statements" / f"{step}.sql").write_text(_statements(step))


def _event(step: int, number: int, chance: random.Random) -> dict[str, Any]:
    opens, closes = chance.choice([(2001, 2100), (2001, 2010), (2090, 2100)])
    times = {"opens": f"{opens}-01-01T00:00:00Z", "closes": f"{closes}-01-01T00:00:00Z"}
    return {"id": step * 100 + number, "k": chance.randrange(30), "v": f"v{chance.randrange(1000)}", **times}


def _line(step: int, number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "id": step * 100 + number,
        "customer": chance.randrange(1, 8 + 3 * step),
        "product": chance.choice(_PRODUCTS),
        "quantity": chance.randrange(1, 9),
        "price": Decimal(chance.randrange(100, 10_000)) / 100,
    }


def _statements(step: int) -> str:
    """Return what a step does to the table of customers; DuckDB runs it as well."""
    new = [(step * 10 + each, f"name {step}-{each}", _REGIONS[(step + each) % 3]) for each in range(1, 8)]
    statements = [f"INSERT INTO customers VALUES {', '.join(map(str, new))};"]
    if step > 1:
        before = (step - 1) * 10
        statements.append(f"UPDATE customers SET region = 'east', name = 'moved {step}' WHERE id = {before + 1};")
        statements.append(f"DELETE FROM customers WHERE id = {before + 2};")
    statements.append(f"INSERT INTO customers VALUES ({step}, 'early {step}', '{_REGIONS[step % 3]}');")
    return "\n".join(statements) + "\n"


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
