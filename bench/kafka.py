"""Measure appending messages of a topic to a table: in a task, and in the whole pipeline.

    python -m bench.kafka [--format json|avro|debezium] [--rows 3000000] [--runs 3] [--cores 2] [--tasks-only]
      [--only sinkql flink spark]

Prints rows per CPU-second and per second, the medians of the runs. "consume" reads messages from the client library,
"task" decodes them to Arrow, and "sinkql" is the process tree of `sinkql exec --once`. JSON is also measured with
"flink", Flink SQL into Iceberg with a checkpoint every ten seconds, and with "spark", Structured Streaming from Spark's
Kafka source into Iceberg's sink. Debezium messages are only measured in tasks.

The pipelines take turns, and each runs with a third of the rows and with all of them. A rate is the difference of the
rows divided by the difference of the costs, so nobody pays for starting. DuckDB checks each table; a run of another
system that loses rows is printed and does not count. Uses the Kafka broker of the tests; its CPU does not count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from bench.common import HOME, ROOT, median, read_back, run_sinkql, run_spark, show
from bench.data import EVENT_COLUMNS, write_events
from bench.figure import report
from bench.meter import Cost
from bench.peer import FLINK_EVENTS, flink_topic, jars, run_flink_kafka
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context, ReadCounts, Reader, Split
from sinkql.logical.type import parse_type

PARTITIONS = 4
_ROWS_A_COMMIT = 500_000  # for Spark, which cannot limit a batch in another way
_SMALLER = 3  # both sizes are large, so that the JVM's compilation is subtracted too
_AVRO = {
    "bigint": "long", "integer": "int", "double precision": "double", "text": "string", "boolean": "boolean",
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip
_SCHEMA = json.dumps({
    "type": "record", "name": "event", "fields": [
        {"name": name, "type": _AVRO[type_] if name == "id" else ["null", _AVRO[type_]]}
        for name, type_ in EVENT_COLUMNS.items()
    ],
})  # fmt: skip
_CHANGE = (
    b'{"before":null,"after":%s,"source":{"version":"3.0","connector":"postgresql","name":"bench","ts_ms":1767225600000,'
    b'"snapshot":"false","db":"shop","sequence":"[\\"24023119\\",\\"24023128\\"]","schema":"public","table":"events",'
    b'"txId":571,"lsn":24023128,"xmin":null},"transaction":null,"op":"c","ts_ms":1767225600100}'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("json", "avro", "debezium"), default="json")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--tasks-only", action="store_true")
    parser.add_argument("--only", nargs="*", choices=("sinkql", "flink", "spark"), default=("sinkql", "flink", "spark"))
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.kafka import kafka

    home = HOME / "kafka"
    shutil.rmtree(home, ignore_errors=True)
    with kafka() as broker:
        topics = {}
        for name, rows in (("small", arguments.rows // _SMALLER), ("large", arguments.rows)):
            write_events(home / name, rows, 1)
            topics[name] = broker.topic(PARTITIONS)
            send(broker, topics[name], _lines(home / name / "events-000.json", _encoder(arguments.format)))
        rates = [
            (name, "", f"{rate:,.0f}", f"{by_wall:,.0f}")
            for name, rate, by_wall in _tasks(broker.address, topics["large"], arguments)
        ]
        if not arguments.tasks_only and arguments.format != "debezium":
            rates += _pipelines(broker.address, topics, home, arguments)
        show([("append", "start-up CPU-s", "rows/CPU-s", "rows/s"), *rates])


def _encoder(format_: str) -> Callable[[bytes], bytes]:
    """Return a function that turns a line of JSON into a message."""
    if format_ == "json":
        return lambda line: line
    if format_ == "debezium":
        return lambda line: _CHANGE % line
    import fastavro

    schema = fastavro.parse_schema(json.loads(_SCHEMA))

    def encoded(line: bytes) -> bytes:
        row = json.loads(line)
        row["ts"] = datetime.fromisoformat(row["ts"])
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        return b"\0\0\0\0\1" + stream.getvalue()

    return encoded


def send(broker: Any, topic: str, messages: Iterable[tuple[int, bytes]]) -> None:
    """Send messages to a topic, each to its partition."""
    # Without idempotence, a message that is sent again comes after later ones, and the wrong change of a key wins.
    producer = broker.producer(linger_ms=50, queue_buffering_max_messages=1_000_000, enable_idempotence=True)
    for number, (partition, message) in enumerate(messages):
        if number % 5_000 == 0:
            producer.poll(0)
        while True:
            try:
                producer.produce(topic, message, partition=partition)
                break
            except BufferError:
                producer.poll(0.2)
    assert producer.flush(600) == 0


def _lines(source: Path, encoded: Callable[[bytes], bytes]) -> Iterator[tuple[int, bytes]]:
    with source.open("rb") as lines:
        for number, line in enumerate(lines):
            yield number % PARTITIONS, encoded(line.rstrip(b"\n"))


def _tasks(address: str, topic: str, arguments: argparse.Namespace) -> Iterator[tuple[str, float, float]]:
    from sinkql.connectors.kafka.consumer import Range, messages
    from sinkql.connectors.kafka.reader import KafkaReader

    reader = _reader(address, topic, arguments.format)
    assert isinstance(reader, KafkaReader)
    start = reader.initial(at_end=False)
    splits = reader.splits(start, reader.target(start))

    def consumed(split: Split) -> int:
        wanted = Range("s", topic, split["partition"], split["from"], split["to"], "bench")
        return sum(len(each) for each in messages(reader.client, wanted))

    def decoded(split: Split) -> int:
        return sum(batch.num_rows for batch in reader.read(split, ReadCounts()))

    for name, done in (("consume", consumed), ("task", decoded)):
        rates, by_wall = [], []
        for _ in range(arguments.runs):
            began, began_at = time.process_time(), time.monotonic()
            rows = sum(map(done, splits))
            rates.append(rows / (time.process_time() - began))
            by_wall.append(rows / (time.monotonic() - began_at))
        yield name, median(rates), median(by_wall)


def _reader(address: str, topic: str, format_: str) -> Reader:
    columns = tuple(physical.Column(name, parse_type(type_), name != "id") for name, type_ in EVENT_COLUMNS.items())
    value: dict[str, Any] = {"format": "JSON", "whole": False, "columns": list(EVENT_COLUMNS)}
    if format_ == "avro":
        value |= {"format": "AVRO", "schema": _SCHEMA, "references": [], "wire": True, "name": "data"}
    changes = format_ == "debezium"
    options: dict[str, Any] = {
        "topic": topic,
        "envelope": "debezium" if changes else "none",
        "value": value,
        "include": {},
        "on_error": "fail",
        "tuning": {"refresh_s": 60, "group": ""},
    }
    connection = physical.Connection("k", "KAFKA", {"brokers": [address], "protocol": "PLAINTEXT"})
    change: physical.Change = "upsert" if changes else "append"
    read = physical.Read("s", "KAFKA", options, columns, change, connection, key=("id",) if changes else ())
    return discover().reader(read, Context("s", "s", HOME, lambda _: ""))


def _pipelines(
    address: str, topics: dict[str, str], home: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name of each pipeline, the CPU of its start, and its rates by CPU and by wall time."""
    ways = [name for name in arguments.only if name == "sinkql" or arguments.format == "json"]
    starts: dict[str, list[float]] = {name: [] for name in ways}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    by_wall: dict[str, list[float]] = {name: [] for name in ways}
    peaks: dict[str, list[float]] = {name: [] for name in ways}
    rows = {"small": arguments.rows // _SMALLER, "large": arguments.rows}
    more = rows["large"] - rows["small"]
    for run, way in itertools.product(range(arguments.runs), ways):
        costs, lost = {}, 0
        for name, topic in topics.items():
            work = home / f"{way}-{name}-{run}"
            costs[name] = _drained(way, address, topic, work, arguments)
            found = read_back(work / "lake" / "n" / "t", ("id",))
            if found != (rows[name], rows[name] * (rows[name] - 1) // 2):
                assert way != "sinkql", f"the table has {found}"
                lost += rows[name] - found[0]
            shutil.rmtree(work)
        if lost:
            print(f"run {run + 1}, {way}: {lost:,} rows are missing in its tables", flush=True)
            continue
        cpu_s = costs["large"].cpu_s - costs["small"].cpu_s
        starts[way].append(costs["small"].cpu_s - cpu_s * rows["small"] / more)
        rates[way].append(more / cpu_s)
        by_wall[way].append(more / (costs["large"].wall_s - costs["small"].wall_s))
        peaks[way].append(costs["large"].peak_mb)
        cost = f"start-up {starts[way][-1]:.1f} CPU-s, {costs['large'].peak_mb:,.0f} MB"
        rate = f"{rates[way][-1]:,.0f} rows/CPU-s, {by_wall[way][-1]:,.0f} rows/s"
        print(f"run {run + 1}, {way}: {rate}, {cost}", flush=True)
    ways = [way for way in ways if rates[way]]
    if arguments.format == "json" and "sinkql" in ways:
        for way in set(ways) - {"sinkql"}:
            report(f"kafka beside {way}", median(rates["sinkql"]), median(rates[way]))
        report("kafka memory", median(peaks["sinkql"]), median(peaks["flink"]) if "flink" in ways else None)
    for way in ways:
        yield way, f"{median(starts[way]):.1f}", f"{median(rates[way]):,.0f}", f"{median(by_wall[way]):,.0f}"


def _drained(way: str, address: str, topic: str, work: Path, arguments: argparse.Namespace) -> Cost:
    """Copy a topic into the table `lake/n/t`, and return the cost."""
    if way == "flink":
        table = f"CREATE TABLE ice.n.t ({FLINK_EVENTS}) WITH ('format-version' = '2');\n"
        sql = f"{flink_topic('s', address, topic, 'json')}{table}INSERT INTO ice.n.t SELECT * FROM s;\n"
        return run_flink_kafka(sql, work, arguments.cores)
    if way == "spark":
        return run_spark(
            "kafka",
            f"{address}/{topic}",
            work,
            limit=_ROWS_A_COMMIT,
            cores=arguments.cores,
            jars=sorted(jars("spark_kafka").glob("*.jar")),
        )
    return run_sinkql(_script(address, topic, arguments), work)


def _script(address: str, topic: str, arguments: argparse.Namespace) -> str:
    typed = ", ".join(f"{name} {type_}" for name, type_ in EVENT_COLUMNS.items())
    format_ = "FORMAT JSON" if arguments.format == "json" else f"FORMAT AVRO USING SCHEMA '{_SCHEMA}'"
    return pipeline(address, topic, typed, format_, arguments.cores)


def pipeline(address: str, topic: str, columns: str, format_: str, cores: int) -> str:
    """Return a script that appends a topic's messages to the table n.t."""
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL 'PLAINTEXT');\n"
        f"CREATE SOURCE s ({columns}) FROM KAFKA CONNECTION kafka (TOPIC '{topic}') {format_};\n"
        "CREATE SINK k IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
        "  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');\n"
    )


if __name__ == "__main__":
    main()
