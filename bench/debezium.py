"""Measure upserting Debezium's JSON changes from a topic into a table of a million keys.

    python -m bench.debezium [--keys 1000000] [--changes 1000000] [--commit-rows 250000] [--runs 3] [--cores 2]
      [--only sinkql flink] [--exchange] [--read-all]

A tenth of the changes are inserts, a twentieth are deletes, and the rest are updates of random keys. Nine tenths of the
keys are in the table before. Prints changes per CPU-second of the process tree, the median of the runs, for `sinkql
exec --once` and for Flink SQL, which upserts into an Iceberg table and commits every ten seconds. Each reads a quarter
of the changes and then, in another process, all others; the rate is the slope between the two.

SinkQL's batches run in process. With `--exchange` they run in Spark, and a second time with the rows in Spark SQL's
shuffle instead of Arrow blobs.

After each run, DuckDB checks SinkQL's table. It checks Flink's only with `--read-all`, because reading its equality
deletes takes many minutes. Uses the Kafka broker of the tests; its CPU does not count.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.common import HOME, ROOT, median, read_back, run_sinkql, show
from bench.data import EVENT_COLUMNS
from bench.figure import report
from bench.kafka import PARTITIONS, send
from bench.meter import Cost
from bench.peer import FLINK_EVENTS, flink_topic, run_flink_kafka

_SMALLER = 4
_BY_ROWS = "sinkql, rows"
_SCRIPT = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]', EXECUTION = {execution});
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL 'PLAINTEXT');
CREATE SOURCE s ({columns}, PRIMARY KEY (id) NOT ENFORCED) FROM KAFKA CONNECTION kafka (TOPIC '{topic}')
  FORMAT JSON ENVELOPE DEBEZIUM;
CREATE SINK k IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '10s', MAX ROWS PER COMMIT = {commit_rows});
"""
_FLINK_KEY = ", PRIMARY KEY (id) NOT ENFORCED"
_FLINK_TABLE = (
    f"CREATE TABLE IF NOT EXISTS ice.n.t ({FLINK_EVENTS}{_FLINK_KEY})\n"
    "  WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');\n"
)
_Messages = Iterable[tuple[int, bytes]]
_Drained = Callable[[_Messages], Cost]


@dataclass(slots=True)
class _Rows:
    """The current rows by id, each with the number of its last change, and a generator of changes."""

    versions: dict[int, int] = field(default_factory=dict)
    next: int = 0
    _there: list[int] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(1))

    def inserts(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Yield partitions and messages of new rows."""
        for _ in range(count):
            id_, self.next = self.next, self.next + 1
            self.versions[id_] = 0
            self._there.append(id_)
            yield id_ % PARTITIONS, _change(b"null", event_row(id_, 0), b"c")

    def changes(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Yield partitions and messages of changes to rows."""
        for _ in range(count):
            kind = self._random.random()
            if kind < 0.1 or not self._there:
                yield from self.inserts(1)
                continue
            place = self._random.randrange(len(self._there))
            id_ = self._there[place]
            before = event_row(id_, self.versions[id_])
            if kind < 0.95:
                self.versions[id_] += 1
                yield id_ % PARTITIONS, _change(before, event_row(id_, self.versions[id_]), b"u")
                continue
            self._there[place] = self._there[-1]
            self._there.pop()
            del self.versions[id_]
            yield id_ % PARTITIONS, _change(before, b"null", b"d")

    def sums(self) -> tuple[int, int, int]:
        """Return the expected row count, and the expected sums of id and qty."""
        return len(self.versions), sum(self.versions), sum(_qty(*each) for each in self.versions.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--commit-rows", type=int, default=250_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=("sinkql", "flink"), default=("sinkql", "flink"))
    parser.add_argument("--exchange", action="store_true")
    parser.add_argument("--read-all", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.kafka import kafka

    shutil.rmtree(HOME / "debezium", ignore_errors=True)
    names = [*arguments.only, *([_BY_ROWS] if arguments.exchange else [])]
    found: dict[str, list[Sequence[float]]] = {name: [] for name in names}
    with kafka() as broker:
        for run, (name, rates) in itertools.product(range(arguments.runs), found.items()):
            rates.append(_run(broker, name, run + 1, arguments))
    table = [(name, *(f"{median(each):,.0f}" for each in zip(*rates, strict=True))) for name, rates in found.items()]
    show([("upsert", "changes/CPU-s", "changes/s", "start-up CPU-s", "peak MB"), *table])
    for name in found.keys() - {"sinkql"} if "sinkql" in found else ():
        report(f"debezium beside {name}", *(median([each[0] for each in found[way]]) for way in ("sinkql", name)))


def _run(broker: Any, name: str, run: int, arguments: argparse.Namespace) -> Sequence[float]:
    """Return changes a CPU-second and a second, the CPU-seconds of a start, and the most memory."""
    work, rows = HOME / "debezium" / name.replace(", ", "-"), _Rows()
    drained = _flink(broker, work, arguments) if name == "flink" else _sinkql(broker, name, work, arguments)
    drained(rows.inserts(arguments.keys * 9 // 10))
    few = arguments.changes // _SMALLER
    small, large = drained(rows.changes(few)), drained(rows.changes(arguments.changes))
    if name != "flink" or arguments.read_all:
        found = read_back(work / "lake" / "n" / "t", ("id", "qty"))
        assert found == rows.sums(), f"the table has {found}, expected {rows.sums()}"
    shutil.rmtree(work)
    more = arguments.changes - few
    rate, by_wall = more / (large.cpu_s - small.cpu_s), more / (large.wall_s - small.wall_s)
    print(f"run {run}, {name}: {rate:,.0f} changes/CPU-s, {by_wall:,.0f} a second, {large.peak_mb:,.0f} MB", flush=True)
    return rate, by_wall, small.cpu_s - few / rate, large.peak_mb


def _sinkql(broker: Any, name: str, work: Path, arguments: argparse.Namespace) -> _Drained:
    topic = broker.topic(PARTITIONS)
    columns = ", ".join(f"{name} {type_}" for name, type_ in EVENT_COLUMNS.items())
    known = {"address": broker.address, "topic": topic, "columns": columns}
    execution = "SPARK" if arguments.exchange else "AUTO"
    text = _SCRIPT.format(**known, cores=arguments.cores, commit_rows=arguments.commit_rows, execution=execution)

    def drained(messages: _Messages) -> Cost:
        send(broker, topic, messages)
        return run_sinkql(text, work, blobs=name != _BY_ROWS if arguments.exchange else None)

    return drained


def _flink(broker: Any, work: Path, arguments: argparse.Namespace) -> _Drained:
    # A run does not resume where the last one ended, so each reads a new topic. The first run may append, since all its
    # keys are new.
    first = itertools.chain([" /*+ OPTIONS('upsert-enabled' = 'false') */"], itertools.repeat(""))

    def drained(messages: _Messages) -> Cost:
        topic = broker.topic(PARTITIONS)
        send(broker, topic, messages)
        sql = flink_topic("s", broker.address, topic, "debezium-json", _FLINK_KEY)
        sql += f"{_FLINK_TABLE}INSERT INTO ice.n.t{next(first)} SELECT * FROM s;\n"
        return run_flink_kafka(sql, work, arguments.cores)

    return drained


def _change(before: bytes, after: bytes, kind: bytes) -> bytes:
    return b'{"before":%s,"after":%s,"op":"%s","ts_ms":1767225600100}' % (before, after, kind)


def _qty(id_: int, version: int) -> int:
    return (id_ * 7 + version) % 1000


def event_row(id_: int, version: int) -> bytes:
    """Return the JSON of a row; `version` is the number of its last change."""
    return (
        b'{"id":%d,"user_id":%d,"qty":%d,"price":%d.25,"discount":0.%02d,"sku":"sku-%05d","country":"DE",'
        b'"note":"change %d of order %d","ts":"2026-01-%02dT12:30:15.%06dZ","active":true}'
    ) % (id_, id_ * 31, _qty(id_, version), id_ % 900, id_ % 50, id_ % 50_000, version, id_, id_ % 28 + 1, id_ % 10**6)


if __name__ == "__main__":
    main()
