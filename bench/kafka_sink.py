"""Measure writing rows of files to a topic: by a sink, by Spark's Kafka sink, and by a bare producer loop.

    python -m bench.kafka_sink [--rows 1000000] [--runs 3] [--cores 2] [--only json avro spark producer]

Prints rows per CPU-second of the process tree, the median of the runs. Start-up, a run of 25,000 rows, is subtracted.

* "json" and "avro" are `sinkql exec --once` of a sink with ENVELOPE UPSERT, in transactions.
* "spark" is Structured Streaming from the same files into Spark's own Kafka sink, as JSON, without transactions.
* "producer" is Python code that reads the lines, finds the key of each, and passes both to the client library
  unchanged.

They take turns. The topic of each run must have each key once. Uses the broker and the registry stub of the tests;
their CPU does not count.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.common import HOME, ROOT, median, run_sinkql, show
from bench.data import EVENT_COLUMNS, SPARK_EVENTS, write_events
from bench.meter import Cost, measure
from bench.peer import jars

WAYS = ("json", "avro", "spark", "producer")
_PARTITIONS = 4
_FILES = 8
_WARM_UP = 25_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=WAYS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.kafka import kafka
    from support.registry import stub_registry

    home = HOME / "kafka_sink"
    shutil.rmtree(home, ignore_errors=True)
    sizes = {"small": _WARM_UP, "large": arguments.rows}
    for name, rows in sizes.items():
        write_events(home / name, rows, _FILES)
    starts: dict[str, list[float]] = {way: [] for way in arguments.only}
    rates: dict[str, list[float]] = {way: [] for way in arguments.only}
    with kafka() as broker, stub_registry() as registry:
        for run in range(arguments.runs):
            for way in arguments.only:
                costs = {
                    name: _written(way, broker, registry.url, home, f"{name}-{way}-{run}", rows, arguments.cores)
                    for name, rows in sizes.items()
                }
                starts[way].append(costs["small"].cpu_s)
                rates[way].append((arguments.rows - _WARM_UP) / (costs["large"].cpu_s - costs["small"].cpu_s))
                told = f"start-up {starts[way][-1]:.1f} CPU-s, {costs['large'].peak_mb:,.0f} MB"
                print(f"run {run + 1}, {way}: {rates[way][-1]:,.0f} rows/CPU-s, {told}", flush=True)
    lines = [(way, f"{median(starts[way]):.1f}", f"{median(rates[way]):,.0f}") for way in arguments.only]
    show([("into a topic", "start-up CPU-s", "rows/CPU-s"), *lines])


def _written(way: str, broker: Any, registry: str, home: Path, name: str, rows: int, cores: int) -> Cost:
    """Write the rows of a folder to a new topic, check the topic, and return the cost."""
    topic, source, work = broker.topic(_PARTITIONS), home / name.partition("-")[0], home / name
    match way:
        case "spark":
            cost = _program("spark", broker.address, topic, source, work, cores)
        case "producer":
            cost = _program("produce", broker.address, topic, source, work, cores)
        case _:
            cost = run_sinkql(_script(way, broker.address, registry, topic, source, cores), work)
    broker.settle(topic)
    keys = [message.key() for message in broker.committed(topic, broker.ends(topic))]
    assert (len(keys), len(set(keys))) == (rows, rows), f"the topic has {len(keys)} messages, {len(set(keys))} keys"
    shutil.rmtree(work)
    return cost


def _script(format_: str, address: str, registry: str, topic: str, source: Path, cores: int) -> str:
    typed = ", ".join(f"{name} {type_}" for name, type_ in EVENT_COLUMNS.items())
    written = {"json": "JSON", "avro": "AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry"}[format_]
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        f"CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL 'PLAINTEXT');\n"
        f"CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL '{registry}');\n"
        f"CREATE SOURCE s ({typed}) FROM FILES (PATH = '{source}') FORMAT JSON;\n"
        f"CREATE SINK k IN CLUSTER bench FROM s INTO KAFKA CONNECTION kafka (TOPIC '{topic}')\n"
        f"  KEY (id) NOT ENFORCED FORMAT {written} ENVELOPE UPSERT;\n"
    )


def _program(what: str, address: str, topic: str, source: Path, work: Path, cores: int) -> Cost:
    work.mkdir(parents=True)
    command = [sys.executable, "-m", "bench.kafka_sink", what, address, topic, str(source), str(work), str(cores)]
    return measure(command, folder=work, environment={"PYTHONPATH": str(ROOT)})


def spark(address: str, topic: str, source: str, work: str, cores: str) -> None:
    """Write the rows as a user of Spark would."""
    from pyspark.sql import SparkSession

    settings: Mapping[str, str] = {
        "spark.jars": ",".join(map(str, sorted(jars("spark_kafka").glob("*.jar")))),
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    session = SparkSession.builder.master(f"local[{cores}]").config(map=dict(settings)).getOrCreate()
    rows = session.readStream.schema(SPARK_EVENTS).json(source)
    messages = rows.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")
    options = {
        "kafka.bootstrap.servers": address,
        "topic": topic,
        "kafka.compression.type": "lz4",
        "checkpointLocation": f"{work}/checkpoint",
    }
    query = messages.writeStream.format("kafka").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()


def produce(address: str, topic: str, source: str, work: str, cores: str) -> None:
    """Send the lines of the files unchanged, each with the id at its start as the key."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "lz4"}
    producer = Producer({**settings, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    for path in sorted(Path(source).iterdir()):
        with path.open("rb") as lines:
            for line in lines:
                key = line[line.index(b":") + 1 : line.index(b",")].strip()
                while True:
                    try:
                        producer.produce(topic, line.rstrip(b"\n"), key)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    assert producer.flush(600) == 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["spark"], ["produce"]):
        {"spark": spark, "produce": produce}[sys.argv[1]](*sys.argv[2:])
    else:
        main()
