"""A pipeline of many kinds of sources, views and sinks, with tables in simulated S3 and Glue on this machine.

Its input is in its folder, one step at a time, so that DuckDB can read it too. Two sources generate all their rows in
the first step. It runs without Spark.
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
"""The error of a capture that is too busy to answer; the product retries as well."""
_EPOCH = datetime(2024, 1, 1)
_REGIONS = ("north", "south", "west")
_PRODUCTS = ("apple", "bread", "cheese", "dates")


@dataclass(frozen=True)
class Store:
    """The address of a server that simulates S3 and Glue."""

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

    def catalog(self) -> GlueCatalog:
        """Return PyIceberg's catalog of the tables."""
        keys = {
            "s3.endpoint": self.address,
            "s3.region": REGION,
            "s3.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        return GlueCatalog("default", self.client("glue"), **keys)

    def tables(self) -> dict[str, Table]:
        """Return all tables by name."""
        catalog = self.catalog()
        return {name[-1]: catalog.load_table(name) for name in sorted(catalog.list_tables(NAMESPACE))}


@contextmanager
def stored() -> Iterator[Store]:
    """Run an empty server, and set the environment that makes Glue's clients use it."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # silences one line per request
    with aws() as running, patch.dict("os.environ", {**KEYS, "AWS_ENDPOINT_URL": running.address}):
        yield Store(running.address)


@dataclass
class Pipeline:
    """A session in a project's folder.

    By job name, `events` has the reported events, and `plans` the plan hashes of the first checkpoints.
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
        """Change the port of the webhook source to this run's port."""
        self.session.execute(f"ALTER SOURCE {HOOKS} SET (PORT = {self.port})")

    def jobs(self) -> list[physical.Job]:
        """Return all jobs of the catalog, views first."""
        return sorted(self.session.jobs(), key=lambda job: not job.view)

    @property
    def captured(self) -> CapturedTable:
        """Return the captured table, whose sink is not in the catalog."""
        lake = next(job.write.connection for job in self.jobs() if not job.view)
        return captured(self.folder, self.session, lake, NAMESPACE)

    def step(self, number: int, *, ahead: bool = False) -> None:
        """Write the input of a step, and run all jobs to its end; with `ahead`, only captures and views."""
        write_input(self.folder, number)
        for path in sorted((self.folder / "objects").glob(f"{number}-*")):
            self.store.client("s3").put_object(Bucket=BUCKET, Key=f"objects/{path.name}", Body=path.read_bytes())
        self.session.execute((self.folder / "statements" / f"{number}.sql").read_text())
        newest = self._newest()
        with capturing(self.session):
            self._send(number)
            deadline = Deadline()
            while ahead and self._newest() == newest:  # sinks request rows from the capture; no sink runs here
                deadline.check("an entry of the capture log")
                time.sleep(0.01)
            self.run([job for job in self.jobs() if job.view or not ahead])
        captured = self.captured
        progress = self.events[captured.job().sink].append
        captured.step(number, None if ahead else self._drain_captured, progress)

    def _newest(self) -> str:
        """Return the name of the newest entry of the capture log; it contains the entry's number."""
        return max((each.name for each in self.folder.glob(".sinkql/capture/*/log/*.json")), default="")

    def _send(self, number: int) -> None:
        sender = Sender(self.port)
        sender.listening(path_of(HOOKS))
        for line in (self.folder / "requests" / f"{number}.json").read_text().splitlines():
            request = json.loads(line)
            answered = sender.send(path_of(HOOKS), request["body"], {"Idempotency-Key": request["key"]})
            assert answered.status == 200, answered

    def run(self, jobs: Sequence[physical.Job]) -> None:
        """Run jobs until they have read all available data."""
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
        assert not loop.needs_full_refresh(), f"{job.sink} needs a full refresh"
        if loop.has_unread_output():
            assert loop.checkpoint.plan == NO_PLAN, f"{job.sink} needs a commit without new rows"
            loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
        catch_up(loop)


@contextmanager
def opened(folder: Path, store: Store, port: int) -> Iterator[Pipeline]:
    """Open the project in a folder."""
    with Session(folder) as session:
        yield Pipeline(folder, store, port, session)


def write_input(folder: Path, step: int) -> None:
    """Write the input files of a step, which depend only on its number."""
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
    """Return the statements by which a step changes the customers; DuckDB runs them too."""
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
