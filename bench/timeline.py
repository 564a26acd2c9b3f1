"""Compare a join of two materialized views of one source: read from their logs at one tick, and inlined.

    python -m bench.timeline [--customers 100000] [--base 1000000] [--changes 20000] [--rounds 10]

Creates a table of orders, two aggregates of it by customer, and their join, each a materialized view job. From the
logs, the join reads both views at the same tick. Inlined, it reads the table and computes both again. Rows arrive in
`--rounds` rounds of `--changes` changes.

Prints, for the median round, the CPU milliseconds of the two views together and of the join, and the bytes of the
join's state. Runs in one process without Spark, which would add the same cost to both. Both joins must return the same
sums.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.common import HOME, ROOT, median, show
from sinkql import logical
from sinkql.logical.type import BIGINT
from sinkql.lowering.job import lower
from sinkql.session import Session
from sinkql.table.file import TableFile, table_path
from sinkql.table.row import Codec

if TYPE_CHECKING:
    from sinkql.runtime.batch.loop import BatchLoop

_TABLE = "CREATE TABLE t (id bigint, customer bigint NOT NULL, amount bigint)"
_QUERIES = {
    "totals": "SELECT customer, count(*) AS orders, sum(amount) AS total FROM t GROUP BY customer",
    "extremes": "SELECT customer, min(amount) AS least, max(amount) AS most FROM t GROUP BY customer",
}
_JOIN = "SELECT customer, a.orders, a.total, b.least, b.most FROM {0} AS a JOIN {1} AS b USING (customer)"
_OPTIONS = "WITH (COMMIT INTERVAL = '1s')"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, default=100_000)
    parser.add_argument("--base", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    home = HOME / "timeline"
    shutil.rmtree(home, ignore_errors=True)
    rows, found = [("", "views, CPU-ms", "join, CPU-ms", "join, MB of state")], set()
    for side, logs in (("from their logs", True), ("in line", False)):
        views, join, state, sums = _measure(home / side.replace(" ", "-"), arguments, logs=logs)
        found.add(sums)
        rows.append((side, f"{views * 1000:,.0f}", f"{join * 1000:,.0f}", f"{state / 1e6:,.1f}"))
    assert len(found) == 1, found
    show(rows)


def _measure(home: Path, arguments: argparse.Namespace, *, logs: bool) -> tuple[float, float, int, tuple[Any, ...]]:
    """Return the CPU seconds of a round for views and join, and the state size and sums of the join."""
    home.mkdir(parents=True)
    os.chdir(home)
    random, written = np.random.default_rng(1), 0
    with Session() as session:
        session.execute(_script(logs=logs))
        item = session.catalog.plans.item("materialize.public.t")
        assert isinstance(item, logical.Source)
        file = TableFile(
            table_path(session.catalog.database.folder, item.options["table_id"], item.name), Codec([BIGINT] * 3)
        )
        loops = {name: _loop(session, name) for name in (*_QUERIES, "joined")}
        costs: list[tuple[float, float]] = []
        for count in (arguments.base, *[arguments.changes] * (arguments.rounds + 1)):
            customers = random.integers(0, arguments.customers, count).tolist()
            with file.statement() as edit:
                for number, each in enumerate(customers, written):
                    edit.insert((number, each, number * 7 % 1000))
            written += count
            costs.append((_drained(loops[name] for name in _QUERIES), _drained([loops["joined"]])))
        (result,) = session.execute("SELECT count(*), sum(orders), sum(total), sum(least), sum(most) FROM joined")
        state = sum(path.stat().st_size for path in loops["joined"].folder.glob("state/**/*") if path.is_file())
    views, join = zip(*costs[2:], strict=True)  # the first two are the base and a warm-up
    return median(views), median(join), state, result.rows[0]


def _script(*, logs: bool) -> str:
    views = [f"CREATE MATERIALIZED VIEW {name} {_OPTIONS} AS {query}" for name, query in _QUERIES.items()]
    views += [f"CREATE VIEW {name}_in_line AS {query}" for name, query in _QUERIES.items()]
    read = [name if logs else f"{name}_in_line" for name in _QUERIES]
    views.append(f"CREATE MATERIALIZED VIEW joined {_OPTIONS} AS {_JOIN.format(*read)}")
    return "".join(f"{each};\n" for each in (_TABLE, *views))


def _loop(session: Session, name: str) -> BatchLoop:
    from support.running import loop_of

    job = lower(f"materialize.public.{name}", session.catalog.plans)
    loop = loop_of(job, session.context(job), session.catalog.registry)
    loop.start(epoch=1)
    return loop


def _drained(loops: Iterable[BatchLoop]) -> float:
    """Commit all pending input; return the CPU seconds."""
    from support.running import drain

    before = time.process_time()
    for loop in loops:
        drain(loop)
    return time.process_time() - before


if __name__ == "__main__":
    main()
