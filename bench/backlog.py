"""Measure the memory of SinkQL while it works off a topic's backlog, of small messages and of large ones.

    python -m bench.backlog [--rows 10000000] [--large 100000] [--width 100000] [--cores 2]

Prints the peak memory of all processes of `sinkql exec --once`, Java included, as proportional set sizes sampled twice
a second. Small messages are JSON with ten columns. Large messages have a text of `--width` bytes, ten gigabytes in all.
DuckDB counts the rows of the table. Uses the Kafka broker of the tests.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Iterator

from bench.common import HOME, ROOT, read_back, run_sinkql, show
from bench.data import EVENT_COLUMNS, write_events
from bench.kafka import PARTITIONS, pipeline, send

_DISTINCT = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.kafka import kafka

    home = HOME / "backlog"
    shutil.rmtree(home, ignore_errors=True)
    write_events(home, _DISTINCT, 1)
    small = (home / "events-000.json").read_bytes().splitlines()
    text = b"0123456789abcdef" * (arguments.width // 16)
    large = [b'{"id":%d,"note":"%d %s"}' % (each, each, text) for each in range(64)]
    kinds = {
        "small": (small, arguments.rows, EVENT_COLUMNS),
        "large": (large, arguments.large, {"id": "bigint", "note": "text"}),
    }
    table = [("messages", "rows", "MB", "peak MB", "s")]
    with kafka() as broker:
        for name, (lines, rows, columns) in kinds.items():
            if not rows:
                continue
            topic, work = broker.topic(PARTITIONS), home / name
            send(broker, topic, _again(lines, rows))
            typed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
            cost = run_sinkql(pipeline(broker.address, topic, typed, "FORMAT JSON", arguments.cores), work)
            (count,) = read_back(work / "lake" / "n" / "t", ())
            assert count == rows, f"the table has {count} rows"
            size = rows * sum(map(len, lines)) / len(lines) / 1e6
            table.append((name, f"{count:,}", f"{size:,.0f}", f"{cost.peak_mb:,.0f}", f"{cost.wall_s:.0f}"))
    show(table)


def _again(lines: list[bytes], count: int) -> Iterator[tuple[int, bytes]]:
    """Yield `count` messages with their partitions, repeating the lines as often as necessary."""
    for number, line in enumerate(itertools.islice(itertools.cycle(lines), count)):
        yield number % PARTITIONS, line


if __name__ == "__main__":
    main()
