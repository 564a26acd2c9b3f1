"""Split all rows of relations into batches: most rows first, then inserts, updates and deletes (60:20:20)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from views.harness import Change, Relation
from views.rows import Row

Update = Callable[[Row, random.Random], Row]


def batches(
    relations: Sequence[Relation],
    rows: Mapping[str, Sequence[Row]],
    updates: Mapping[str, Update],
    *,
    commits: int,
    changes: int,
    random_: random.Random,
) -> Iterator[dict[str, list[Change]]]:
    """Yield the changes of `commits` batches: first 60 percent of all rows, then about `changes` changes per batch.

    Relations without an update get all their rows in the first batch.
    """
    churned = [each for each in relations if each.name in updates]
    there: dict[str, list[Row]] = {}
    waiting: dict[str, list[Row]] = {}
    for each in relations:
        mixed = random_.sample(list(rows[each.name]), len(rows[each.name]))
        cut = len(mixed) * 6 // 10 if each in churned else len(mixed)
        there[each.name], waiting[each.name] = mixed[:cut], mixed[cut:]
    yield {name: [(row, 1) for row in each] for name, each in there.items()}
    weights = [len(rows[each.name]) ** 0.5 for each in churned]
    for _ in range(commits - 1):
        found: dict[str, list[Change]] = {each.name: [] for each in churned}
        for each in random_.choices(churned, weights, k=changes):
            found[each.name] += _change(each, there[each.name], waiting[each.name], updates[each.name], random_)
        yield found


def _change(
    relation: Relation, there: list[Row], waiting: list[Row], update: Update, random_: random.Random
) -> list[Change]:
    kind = random_.choices(("insert", "update", "delete"), (60, 20, 20))[0]
    if kind == "insert" or not there or relation.kind == "append":
        if not waiting:
            return []
        there.append(waiting.pop())
        return [(there[-1], 1)]
    place = random_.randrange(len(there))
    old = there[place]
    if kind == "delete":
        waiting.insert(0, there.pop(place))
        return [(old, -1)]
    there[place] = update(old, random_)
    gone: list[Change] = [] if relation.kind == "upsert" else [(old, -1)]
    return [*gone, (there[place], 1)]


def of(relation: Relation, values: Mapping[str, Callable[[random.Random], object]]) -> Update:
    """Return an update of one of these columns, sometimes to NULL if the column is nullable."""

    def update(row: Row, random_: random.Random) -> Row:
        name = random_.choice(list(values))
        place = list(relation.columns).index(name)
        nullable = not relation.columns[name].endswith("NOT NULL")
        value = None if nullable and not random_.randrange(8) else values[name](random_)
        return (*row[:place], value, *row[place + 1 :])

    return update
