"""Compare sinks that look up a materialized view's index with sinks that store the view's rows themselves.

    python -m bench.index [--rows 500000] [--facts 50000] [--changes 5000] [--sinks 5] [--cores 2]

The view has a row for each of `--rows` keys, and each sink joins some of `--facts` rows to it. Then `--changes` rows of
the view change, and as many facts are added. Prints the bytes of state, of the view's job and of all sinks, and the CPU
seconds of the process tree in both runs. Both start Spark. The counts and sums of the tables must be the same, as
DuckDB reads them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path

from bench.common import HOME, read_back, run_sinkql, show

_START = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE items (id bigint NOT NULL, price bigint, note text) FROM FILES (PATH = '{home}/items') FORMAT JSON;
CREATE SOURCE facts (id bigint NOT NULL, item bigint) FROM FILES (PATH = '{home}/facts') FORMAT JSON;
CREATE MATERIALIZED VIEW v IN CLUSTER bench WITH (COMMIT INTERVAL = '1s') AS
  SELECT id, sum(price) AS price, max(note) AS note FROM items GROUP BY id;
{index}
"""
_SINK = """
CREATE MATERIALIZED VIEW j{number} AS SELECT f.id, v.price, v.note
  FROM facts AS f JOIN v ON v.id = f.item WHERE f.id % {sinks} = {number};
CREATE SINK k{number} IN CLUSTER bench FROM j{number}
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{number}')
  KEY (id) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--facts", type=int, default=50_000)
    parser.add_argument("--changes", type=int, default=5_000)
    parser.add_argument("--sinks", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    found = {name: _run(name, arguments) for name in ("index", "separate sides")}
    (shared, same), (apart, others) = found.values()
    if same != others:
        raise SystemExit(f"the tables differ: {same} and {others}")
    head = ("", "state of the view, MB", "of the sinks, MB", "first run, CPU-s", "changes, CPU-s")
    show([head, *((name, *(f"{each:.1f}" for each in row)) for name, row in zip(found, (shared, apart), strict=True))])


def _run(name: str, arguments: argparse.Namespace) -> tuple[tuple[float, ...], list[tuple[object, ...]]]:
    home = HOME / "index" / name.partition(" ")[0]
    shutil.rmtree(home, ignore_errors=True)
    rows, facts, changes = arguments.rows, arguments.facts, arguments.changes
    index = "CREATE INDEX ON v (id);" if name == "index" else ""
    sinks = "".join(_SINK.format(number=number, sinks=arguments.sinks) for number in range(arguments.sinks))
    script = _START.format(home=home, cores=arguments.cores, index=index) + sinks
    _write(home / "items/1.json", (f'{{"id":{i},"price":{i % 97},"note":"item {i}"}}\n' for i in range(rows)))
    _write(home / "facts/1.json", (f'{{"id":{i},"item":{i * 7 % rows}}}\n' for i in range(facts)))
    first = run_sinkql(script, home / "work")
    _write(home / "items/2.json", (f'{{"id":{i * 11 % rows},"price":1,"note":"new"}}\n' for i in range(changes)))
    _write(home / "facts/2.json", (f'{{"id":{i},"item":{i * 7 % rows}}}\n' for i in range(facts, facts + changes)))
    second = run_sinkql(script, home / "work")
    tables = [read_back(home / f"work/lake/n/t{number}", ("id", "price")) for number in range(arguments.sinks)]
    own, state = (home / "work/.sinkql" / each for each in ("views", "sinks"))
    views = {path.name for path in own.iterdir()}
    sizes = {path.name: _size(path / "state") for path in state.iterdir()}
    view = sum(size for each, size in sizes.items() if each in views)
    return (view / 1e6, (sum(sizes.values()) - view) / 1e6, first.cpu_s, second.cpu_s), tables


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(lines)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.arrow"))


if __name__ == "__main__":
    main()
