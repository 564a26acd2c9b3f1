"""Compare figures with the recorded ones: run their benchmarks, and fail if a ratio fell by more than a tenth.

    python -m bench.regress [NAME ...] [--peers] [--record]

Runs the commands of figures.toml; with names, only those of these figures or modules (`once`). A command whose figures
are worse or missing runs once more, and the better values count. Figures without another side fail if they no longer
reach their goal. `--peers` also runs the commands that need Maven, which take hours. `--record` writes the new values
to recorded.json and to FIGURES.md instead of failing.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from bench import figures as page
from bench.common import ROOT, show
from bench.figure import REPORTS, Figure, Measured, declared, number, record, recorded

Measure = Callable[[str], dict[str, Measured]]
"""Run a command, and return what it reported by the names of the figures."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    figures, last = chosen(declared(), arguments.names, peers=arguments.peers), recorded()
    if not figures:
        parser.error("no figure has such a name; some need --peers")
    now = measured(figures, last, run)
    show([("figure", "ratio", "recorded", "value", "recorded", ""), *(_row(each, now, last) for each in figures)])
    if arguments.record:
        record(last | now)
        page.write()
        return
    if found := failures(figures, now, last):
        sys.exit("worse than recorded, or not reported: " + ", ".join(found))


def chosen(figures: Mapping[str, Figure], names: Sequence[str], *, peers: bool) -> list[Figure]:
    """Return the figures that a command measures, all or those of some names or modules."""
    found = [each for each in figures.values() if each.command and (peers or not each.needs_maven)]
    return [each for each in found if not names or each.name in names or _module(each) in names]


def measured(figures: Sequence[Figure], last: Mapping[str, Measured], measure: Measure) -> dict[str, Measured]:
    """Return the measurements of figures. Commands whose figures are worse run twice, and the better values count."""
    now: dict[str, Measured] = {}
    for command in dict.fromkeys(each.command for each in figures):
        mine = [each for each in figures if each.command == command]
        now |= measure(command)
        if not failures(mine, now, last):
            continue
        again = measure(command)
        for figure in mine:
            pair = [found[figure.name] for found in (now, again) if figure.name in found]
            now |= {figure.name: max(pair, key=figure.rank)} if pair else {}
    return {each.name: now[each.name] for each in figures if each.name in now}


def failures(figures: Sequence[Figure], now: Mapping[str, Measured], last: Mapping[str, Measured]) -> list[str]:
    """Return the names of figures that were not reported, or are worse than recorded."""
    return [
        each.name
        for each in figures
        if each.name not in now or (each.name in last and each.is_worse(now[each.name], last[each.name]))
    ]


def run(command: str) -> dict[str, Measured]:
    """Run a benchmark and return the figures that it reported until its end or its failure."""
    print(f"python -m {command}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures"
        file.touch()
        environment = {**os.environ, REPORTS: str(file)}
        words = [sys.executable, "-m", *shlex.split(command)]
        code = subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode
        reports = [json.loads(line) for line in file.read_text().splitlines()]
    print(f"exit code {code}\n" if code else "", flush=True)
    on, note = date.today().isoformat(), f"load {os.getloadavg()[0]:.0f}"
    return {each.pop("name"): Measured(**each, on=on, note=note) for each in reports}


def _module(figure: Figure) -> str:
    return figure.command.split()[0].removeprefix("bench.")


def _row(figure: Figure, now: Mapping[str, Measured], last: Mapping[str, Measured]) -> tuple[str, ...]:
    both = [found.get(figure.name) for found in (now, last)]
    ratios = [None if each is None else figure.ratio(each) for each in both]
    values = [None if each is None else each.value for each in both]
    cells = ["" if each is None else f"{each:.2f}" for each in ratios]
    cells += ["" if each is None else number(each) for each in values]
    cells[2] += f" {figure.unit}" if cells[2] else ""
    if both[0] is None:
        return (figure.name, *cells, "NOT REPORTED")
    return (figure.name, *cells, "WORSE" if failures([figure], now, last) else "new" if both[1] is None else "")


if __name__ == "__main__":
    main()
