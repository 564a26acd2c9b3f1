"""What a batch of joins on one key costs, with all processes: FULL JOINs of ten sources that are done in one task.

    python -m bench.chain [--sources 10] [--keys 20000] [--changes 200] [--runs 3] [--cores 2] [--tree .]

Rows that overwrite each other come from each source; a batch has `--changes` of them of each. A run goes through some
batches, and the next one through many: the difference of their CPU, for one batch. DuckDB reads the table.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

from bench.common import HOME, ROOT, median, read_back, run_sinkql

_START = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_SOURCE = """CREATE SOURCE s{n} (k bigint NOT NULL, x{n} bigint, PRIMARY KEY (k) NOT ENFORCED)
  FROM FILES (PATH = 's{n}', MAX FILES PER COMMIT = 1) FORMAT JSON;
"""
_VIEW = """CREATE MATERIALIZED VIEW v AS SELECT k, {columns} FROM {joins};
CREATE SINK k IN CLUSTER bench FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_FEW, _MANY = 2, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=10)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout of SinkQL that is measured")
    given = parser.parse_args()
    costs = []
    for run in range(given.runs):
        folder = HOME / "chain" / str(run)
        shutil.rmtree(folder, ignore_errors=True)
        chain = Chain(folder, given.sources, given.keys, given.cores, given.tree)
        chain.come([given.keys])
        few, many = (chain.come([given.changes] * count) for count in (_FEW, _MANY))
        costs.append((many - few) / (_MANY - _FEW))
        chain.check()
        state = sum(path.stat().st_size for path in folder.rglob("state/*/b*/*.arrow"))
        print(f"{given.sources} FULL JOINs: {costs[-1]:.2f} CPU-s a batch, {state / 1e6:.1f} MB of state", flush=True)
    print(f"median {median(costs):.2f} CPU-s a batch")


class Chain:
    """A pipeline over folders of JSON lines, one for each source, which goes through a file of each at a time."""

    def __init__(self, folder: Path, sources: int, keys: int, cores: int, tree: Path) -> None:
        self.folder, self.sources, self.keys, self.tree = folder, sources, keys, tree
        columns = ", ".join(f"x{n}" for n in range(sources))
        joins = "s0 " + " ".join(f"FULL JOIN s{n} USING (k)" for n in range(1, sources))
        made = "".join(_SOURCE.format(n=n) for n in range(sources))
        self.sql = _START.format(cores=cores) + made + _VIEW.format(columns=columns, joins=joins)
        self.rng, self.made, self.now = np.random.default_rng(1), 0, [dict[int, int]() for _ in range(sources)]

    def come(self, counts: list[int]) -> float:
        """Have so many rows come of each source in each batch, and return the CPU seconds that they take."""
        for count in counts:
            self.made += 1
            for number, now in enumerate(self.now):
                keys = self.rng.choice(self.keys, count, replace=False).tolist()
                rows = dict(zip(keys, self.rng.integers(0, 10**6, count).tolist(), strict=True))
                now.update(rows)
                path = self.folder / f"s{number}"
                path.mkdir(parents=True, exist_ok=True)
                lines = (f'{{"k":{key},"x{number}":{value}}}\n' for key, value in rows.items())
                (path / f"part-{self.made:05}.json").write_text("".join(lines))
        return run_sinkql(self.sql, self.folder, tree=self.tree).cpu_s

    def check(self) -> None:
        """Assert that the table has what the sources have."""
        found = read_back(self.folder / "lake" / "n" / "t", [f"x{n}" for n in range(self.sources)])
        assert [int(each) for each in found] == [len(set().union(*self.now)), *(sum(now.values()) for now in self.now)]


if __name__ == "__main__":
    main()
