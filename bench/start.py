"""Measure a whole run, from the start of Java to its end, without and with an archive of Spark's classes.

    python -m bench.start [--runs 3]

Prints medians of the quickstart's `sinkql exec --once`, and the cost of the run that creates the archive.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench.meter import Cost, measure

_EXAMPLE = Path(__file__).parents[1] / "examples" / "quickstart"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as cache:
        bare, full = Path(cache) / "bare", Path(cache) / "full"
        _cost(bare)  # fills the rest of the cache
        _show("that makes the archive", [_made(full)])
        costs = [(_cost(bare), _cost(full)) for _ in range(runs)]
        for name, each in zip(("without an archive", "with the archive"), zip(*costs, strict=True), strict=True):
            _show(name, list(each))


def _made(cache: Path) -> Cost:
    cache.mkdir()
    command = [sys.executable, "-m", "sinkql.runtime.spark.class_archive_run"]
    return measure(command, folder=cache, environment={"XDG_CACHE_HOME": str(cache)})


def _cost(cache: Path) -> Cost:
    """Run the example in a new folder, so that runs share only their cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "quickstart"
        shutil.copytree(_EXAMPLE, project)
        command = [sys.executable, "-m", "sinkql", "exec", "--once", "pipeline.sql"]
        return measure(command, folder=project, environment={"XDG_CACHE_HOME": str(cache), "SINKQL_ARCHIVE": "off"})


def _show(name: str, costs: list[Cost]) -> None:
    cpu, wall = (statistics.median(each) for each in zip(*((cost.cpu_s, cost.wall_s) for cost in costs), strict=True))
    print(f"a run {name + ':':25} {wall:6.1f} s, {cpu:6.1f} s CPU")


if __name__ == "__main__":
    main()
