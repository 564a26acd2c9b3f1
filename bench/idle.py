"""What many sinks of one source cost while nothing comes, and how long it is until all of them run.

    python -m bench.idle [--source files|kafka|postgres] [--sinks 100] [--seconds 30] [--interval 10s]

Prints the seconds from the start of Spark until all sinks run, and until each has its first commit; then CPU
milliseconds a second of the whole process tree, and its memory, as proportional set sizes, while nothing is new. Of
the server only what SinkQL does counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.common import HOME, ROOT, running
from bench.meter import tree_cpu, tree_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=sorted(_SOURCES), default="files")
    parser.add_argument("--sinks", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--interval", default="10s")
    arguments = parser.parse_args()
    home = HOME / "idle"
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    sys.path.insert(0, str(ROOT / "tests"))
    with _SOURCES[arguments.source](home) as source:
        (home / "pipeline.sql").write_text(_script(source, arguments))
        _measure(home, arguments)


def _measure(home: Path, arguments: argparse.Namespace) -> None:
    with running(home) as (pid, events):
        _follow(events, arguments.sinks)
        time.sleep(20)  # what a start leaves behind
        before, began = tree_cpu(pid), time.monotonic()
        time.sleep(arguments.seconds)
        used = (tree_cpu(pid) - before) * 1000 / (time.monotonic() - began)
        print(f"idle: {used:.0f} CPU-ms a second, {tree_memory(pid):.0f} MB")


def _follow(output: IO[str], sinks: int) -> None:
    up, running, committed = 0.0, set[str](), set[str]()
    for event in _events(output):
        match event["event"]:
            case "spark started":
                up = time.monotonic()
            case "started":
                running.add(event["sink"])
                if len(running) == sinks:
                    print(f"{sinks} sinks run {time.monotonic() - up:.1f} s after Spark is up")
            case "committed":
                committed.add(event["sink"])
                if len(committed) == sinks:
                    print(f"each has a commit {time.monotonic() - up:.1f} s after Spark is up")
                    return
    raise RuntimeError("the pipeline ended")


def _events(output: IO[str]) -> Iterator[dict[str, str]]:
    for line in output:
        if line.startswith("{") and "event" in (event := json.loads(line)):
            yield event


def _script(source: str, arguments: argparse.Namespace) -> str:
    keyed = "KEY (id) MODE UPSERT" if arguments.source == "postgres" else "ENVELOPE NONE"
    made = (
        "CREATE SINK k{0} IN CLUSTER bench FROM s\n"
        "  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{0}')"
    )
    return (
        "CREATE CLUSTER bench (SIZE = 'local[2]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
    ) + "".join(
        [
            source,
            *(
                f"{made.format(number)} {keyed} WITH (COMMIT INTERVAL = '{arguments.interval}');\n"
                for number in range(arguments.sinks)
            ),
        ]
    )


@contextmanager
def _files(home: Path) -> Iterator[str]:
    (home / "in" / "a.json").write_text('{"id": 1, "name": "a"}\n')
    yield "CREATE SOURCE s (id bigint NOT NULL, name text) FROM FILES (PATH = 'in') FORMAT JSON;\n"


@contextmanager
def _kafka(home: Path) -> Iterator[str]:
    from support.kafka import kafka  # as tests have it

    with kafka() as broker:
        topic, producer = broker.topic(4), broker.producer()
        producer.produce(topic, b'{"id": 1, "name": "a"}')
        producer.flush()
        yield (
            f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL = 'PLAINTEXT');\n"
            f"CREATE SOURCE s (id bigint NOT NULL, name text) FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT JSON;\n"
        )


@contextmanager
def _postgres(home: Path) -> Iterator[str]:
    from support.postgres import postgres  # as tests have it

    with postgres() as server:
        database = server.database()
        server.execute(
            "CREATE TABLE s (id int8 PRIMARY KEY, name text); INSERT INTO s VALUES (1, 'a');"
            "CREATE PUBLICATION p FOR TABLE s;",
            database,
        )
        yield (
            f"CREATE CONNECTION p TO POSTGRES (HOST '127.0.0.1', PORT {server.port}, DATABASE '{database}', "
            "USER 'postgres');\nCREATE SOURCE pg FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES (public.s);\n"
        )


_SOURCES = {"files": _files, "kafka": _kafka, "postgres": _postgres}


if __name__ == "__main__":
    main()
