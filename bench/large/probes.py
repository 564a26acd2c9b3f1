"""Measure the CPU of the same look-ups in the key index of an upsert sink, at 1, 10 and 100 million keys.

The index is a single run, whose hashes are random numbers, like the hashes of any keys. Each batch looks up `--batch`
different known keys, spread over the whole run. The first batch of a process maps the pages that it touches. The figure
for later batches is the median of nine. All pages are in the system's cache, so that no disk is measured.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.common import HOME, show
from sinkql.connectors.iceberg.key_index.run import Entries, map_run, probe, write_run

_PART = 1 << 22
_BATCHES = 9


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--keys", default="1,10,100", help="millions of keys, separated by commas")
    parser.add_argument("--batch", default="1000,10000,100000", help="keys of a batch, separated by commas")


def run(arguments: argparse.Namespace) -> None:
    """Measure each size in a separate process."""
    batches = [int(each) for each in arguments.batch.split(",")]
    lines = []
    for millions in map(int, arguments.keys.split(",")):
        path = HOME / "probes" / f"{millions}.run"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_run(path, millions * 1_000_000, _entries(millions * 1_000_000))
        _warm(path)
        lines += [(f"{millions} M", *_in_process(path, batch)) for batch in batches]
    show([("keys", "batch", "first, ms", "later, ms", "faults, first", "faults, later", "resident MB"), *lines])


def _entries(rows: int) -> Iterator[Entries]:
    """Yield sorted entries, one range of hashes at a time."""
    rng = np.random.default_rng(rows)
    for start in range(0, rows, _PART):
        some = min(_PART, rows - start)
        low, high = (start << 64) // rows, ((start + some) << 64) // rows
        h1 = np.sort(rng.integers(low, high - 1, some, dtype=np.uint64))
        h2 = rng.integers(0, 2**64 - 1, some, dtype=np.uint64)
        file = rng.integers(0, 1000, some, dtype=np.uint32)
        yield Entries(h1, h2, file, rng.integers(0, 1 << 20, some, dtype=np.uint32))


def _warm(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def _in_process(path: Path, batch: int) -> tuple[str, ...]:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, "\0".join(_measure(path, batch)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        return tuple(file.read().decode().split("\0"))


def _measure(path: Path, batch: int) -> tuple[str, ...]:
    rng = np.random.default_rng(7)
    asked = []
    with path.open("rb"):
        told = map_run(path)
        for _ in range(_BATCHES + 1):
            places = np.sort(rng.integers(0, told.rows, batch))
            asked.append((np.array(told.h1[places]), np.array(told.h2[places])))
        del told
    run = map_run(path)  # mapped again, so that this process has touched none of its pages
    before = _resident_mb()
    times, failpoints = [], []
    for h1, h2 in asked:
        began, minor = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        files, _ = probe([run], h1, h2)
        times.append((time.process_time() - began) * 1000)
        failpoints.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - minor)
        assert (files != 0xFFFF_FFFF).all()
    return (
        f"{batch:,}",
        f"{times[0]:.1f}",
        f"{statistics.median(times[1:]):.1f}",
        f"{failpoints[0]:,}",
        f"{statistics.median(failpoints[1:]):,.0f}",
        f"{_resident_mb() - before:,.0f}",
    )


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
