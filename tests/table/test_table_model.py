"""Random statements have the same effect on a table, on its log's sum and on a model."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sinkql import logical, physical
from sinkql.connector_api.stream import Context, ReadCounts
from sinkql.connector_api.types import python_values
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower_relation
from sinkql.session import Session
from sinkql.table.reader import TableReader

Row = tuple[int, str | None, Decimal | None]


class Model:
    """Rows of (id bigint PRIMARY KEY, name text UNIQUE, n numeric(6, 1))."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def put(self, rows: list[Row]) -> bool:
        """Replace all rows, unless the new rows violate a key; return whether they were accepted."""
        names = [name for _, name, _ in rows if name is not None]
        if len({key for key, _, _ in rows}) < len(rows) or len(set(names)) < len(names):
            return False
        self.rows = rows
        return True


def text(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def step(model: Model, random_: random.Random) -> tuple[str, str | None]:
    """Change the model by a random statement; return the statement and its tag, None if it must fail."""
    key, name = random_.randrange(8), random_.choice([None, "a", "b", "c", "d", "é", "it"])
    n = random_.choice([None, Decimal("0"), Decimal("1.5"), Decimal("-2.5"), Decimal("9.9")])
    match random_.randrange(8):
        case 0 | 1 | 2:
            new: list[Row] = [(key + place, None if place else name, n) for place in range(random_.randrange(1, 4))]
            values = ", ".join(f"({', '.join(map(text, row))})" for row in new)
            return f"INSERT INTO t VALUES {values}", tag(model.put([*model.rows, *new]), f"INSERT 0 {len(new)}")
        case 3:
            hit = [row for row in model.rows if row[0] >= key]
            changed = [(row[0] + 1, *row[1:]) if row in hit else row for row in model.rows]
            return f"UPDATE t SET id = id + 1 WHERE id >= {key}", tag(model.put(changed), f"UPDATE {len(hit)}")
        case 4:
            hit = [row for row in model.rows if row[2] is None or row[0] == key]
            changed = [(row[0], name, n) if row in hit else row for row in model.rows]
            statement = f"UPDATE t SET name = {text(name)}, n = {text(n)} WHERE n IS NULL OR id = {key}"
            return statement, tag(model.put(changed), f"UPDATE {len(hit)}")
        case 5:
            hit = [row for row in model.rows if row[2] is not None and row[2] > 1]
            changed = [(row[0], row[1], row[2] - Decimal("1.5")) if row in hit else row for row in model.rows]  # type: ignore[operator]  # not None
            return "UPDATE t SET n = n - 1.5 WHERE n > 1", tag(model.put(changed), f"UPDATE {len(hit)}")
        case 6:
            hit = [row for row in model.rows if row[1] == name and name is not None]
            model.put([row for row in model.rows if row not in hit])
            return f"DELETE FROM t WHERE name = {text(name)}", f"DELETE {len(hit)}"
        case _:
            hit = [row for row in model.rows if row[0] in (key, key + 1) or (row[1] or "") > "c"]
            model.put([row for row in model.rows if row not in hit])
            return f"DELETE FROM t WHERE id IN ({key}, {key + 1}) OR name > 'c'", f"DELETE {len(hit)}"


def tag(done: bool, text_: str) -> str | None:  # what happened, not an option
    return text_ if done else None


def replayed(session: Session) -> list[Row]:
    """Return the sum of the log, and check that it never retracts a missing row."""
    item = session.catalog.plans.item("materialize.public.t")
    assert isinstance(item, logical.Source)
    read = lower_relation(item, session.catalog.plans)
    assert isinstance(read, physical.Read)
    reader = TableReader.of(read, Context("s", "s", Path(".sinkql/sinks/s").absolute(), str))
    start = reader.initial(at_end=False)
    found: Counter[Row] = Counter()
    splits, counts = reader.splits(start, reader.target(start)), ReadCounts()
    for split in splits:
        for batch in reader.read(split, counts):
            for *row, diff in zip(*map(python_values, batch.columns), strict=True):
                found[tuple(row)] += diff
                assert found[tuple(row)] >= 0
    size = reader.size(splits)
    assert size.rows == counts.rows
    assert size.bytes >= counts.bytes
    assert (size.bytes > 0) is (size.rows > 0)
    return list(found.elements())


@pytest.mark.share(5)
@pytest.mark.parametrize("seed", range(10))
def test_twenty_sequences_of_statements_do_what_a_model_does(session: Session, seed: int) -> None:
    random_ = random.Random(seed)
    failures = 0
    session.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text UNIQUE, n numeric(6, 1))")
    for _ in range(20):
        model = Model()
        for _ in range(random_.randrange(2, 8)):
            statement, wanted = step(model, random_)
            assert (outcome(session, statement), statement) == (wanted, statement)
            failures += wanted is None
        assert session.execute("SELECT * FROM t ORDER BY id")[0].rows == tuple(sorted(model.rows, key=lambda r: r[0]))
        assert Counter(replayed(session)) == Counter(model.rows)
        session.execute("DELETE FROM t")
    assert failures > 1


def outcome(session: Session, statement: str) -> str | None:
    """Return a statement's tag, None if it violated a key."""
    try:
        return session.execute(statement)[0].tag
    except SinkqlError as error:
        if error.code != "SQ2420":
            raise
        return None
