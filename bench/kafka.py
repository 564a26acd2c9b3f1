"""Messages in a topic into an append table: what a task costs, and the whole pipeline.

    python -m bench.kafka [--format json|avro|debezium] [--rows 2000000] [--runs 3] [--cores 2] [--tasks-only]

Prints rows per CPU-second. "consume": messages as the client library gives them; "task": decoded to Arrow; "pipeline":
the process tree of `sinkql exec --once`, start-up (a run of 1,000 rows) taken off, median of the runs, after which
DuckDB reads what is in the table. The broker is one that tests start; its CPU is not counted. Of Debezium's messages
only tasks are measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from bench.common import HOME, ROOT, median, read_back, run_sinkql, show
from bench.data import EVENT_COLUMNS, write_events
from sinkql import physical
from sinkql.extension.registry import discover
from sinkql.extension.stream import Context, Reader, Split, Tally

_PARTITIONS = 4
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
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--tasks-only", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.kafka import kafka  # as tests have it

    home = HOME / "kafka"
    shutil.rmtree(home, ignore_errors=True)
    with kafka() as broker:
        topics = {}
        for name, rows in (("small", 1_000), ("large", arguments.rows)):
            write_events(home / name, rows, 1)
            topics[name] = broker.topic(_PARTITIONS)
            _send(broker, topics[name], home / name / "events-000.json", _encoder(arguments.format))
        table = [("append", "rows/CPU-s")]
        table += [(name, f"{rate:,.0f}") for name, rate in _tasks(broker.address, topics["large"], arguments)]
        if not arguments.tasks_only and arguments.format != "debezium":
            table.append(("pipeline", f"{_pipelines(broker.address, topics, home, arguments):,.0f}"))
        show(table)


def _encoder(format_: str) -> Callable[[bytes], bytes]:
    """Return what makes messages of lines of JSON."""
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


def _send(broker: Any, topic: str, source: Path, encoded: Callable[[bytes], bytes]) -> None:
    producer = broker.producer(linger_ms=50, queue_buffering_max_messages=1_000_000)
    with source.open("rb") as lines:
        for number, line in enumerate(lines):
            if number % 5_000 == 0:
                producer.poll(0)
            while True:
                try:
                    producer.produce(topic, encoded(line.rstrip(b"\n")), partition=number % _PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.2)
    assert producer.flush(600) == 0


def _tasks(address: str, topic: str, arguments: argparse.Namespace) -> Iterator[tuple[str, float]]:
    from sinkql.connectors.kafka.consume import Range, messages
    from sinkql.connectors.kafka.reader import KafkaReader

    reader = _reader(address, topic, arguments.format)
    assert isinstance(reader, KafkaReader)
    start = reader.initial(at_end=False)
    splits = reader.splits(start, reader.target(start))

    def consumed(split: Split) -> int:
        wanted = Range("s", topic, split["partition"], split["from"], split["to"], "bench")
        return sum(len(each) for each in messages(reader.client, wanted))

    def decoded(split: Split) -> int:
        return sum(batch.num_rows for batch in reader.read(split, Tally()))

    for name, done in (("consume", consumed), ("task", decoded)):
        rates = []
        for _ in range(arguments.runs):
            began = time.process_time()
            rows = sum(map(done, splits))
            rates.append(rows / (time.process_time() - began))
        yield name, median(rates)


def _reader(address: str, topic: str, format_: str) -> Reader:
    columns = tuple(physical.Column(name, type_, name != "id") for name, type_ in EVENT_COLUMNS.items())
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


def _pipelines(address: str, topics: dict[str, str], home: Path, arguments: argparse.Namespace) -> float:
    rates = []
    for run in range(arguments.runs):
        costs = {}
        for name, topic in topics.items():
            work = home / f"{name}-{run}"
            costs[name] = run_sinkql(_script(address, topic, arguments), work)
            found = read_back(work / "lake" / "n" / "t", ("id",))
            rows = arguments.rows if name == "large" else 1_000
            assert found == (rows, rows * (rows - 1) // 2), f"the table has {found}"
        rates.append((arguments.rows - 1_000) / (costs["large"].cpu_s - costs["small"].cpu_s))
        start, peak = costs["small"].cpu_s, costs["large"].peak_mb
        print(f"run {run + 1}: {rates[-1]:,.0f} rows/CPU-s, start-up {start:.1f} CPU-s, {peak:,.0f} MB", flush=True)
    return median(rates)


def _script(address: str, topic: str, arguments: argparse.Namespace) -> str:
    typed = ", ".join(f"{name} {type_}" for name, type_ in EVENT_COLUMNS.items())
    format_ = "FORMAT JSON" if arguments.format == "json" else f"FORMAT AVRO USING SCHEMA '{_SCHEMA}'"
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{arguments.cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL 'PLAINTEXT');\n"
        f"CREATE SOURCE s ({typed}) FROM KAFKA CONNECTION kafka (TOPIC '{topic}') {format_};\n"
        "CREATE SINK k IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
        "  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');\n"
    )


if __name__ == "__main__":
    main()
