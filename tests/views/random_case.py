"""Run random queries over batches of changes, compare them with Postgres, and shrink failing cases.

A seed has ten queries over the same changes. They are compiled and run together, and one by one if any of them fails.
`python -m views.random_case 0 50` runs these seeds and prints failing cases in their smallest form.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import sqlglot
from sqlglot import exp

from sinkql.errors import SinkqlError
from support.postgres import postgres
from views.harness import Change, Changes, Content, Relation, View, Views
from views.postgres_rows import JudgedContent, asked
from views.random_expression import Query
from views.random_query import query
from views.random_relation import RELATIONS, row

Batches = tuple[dict[str, list[Change]], ...]
Oracle = psycopg.Connection[Any]
_UNKNOWN = "unknown to Postgres"
_ROUNDS = 40
_MOST = 1000
TOGETHER = 10
"""Queries per seed."""
_STEPS = ((9, 6), (9, 6), (9, 6), (9, 3, 3, 3))
"""The most changes of a relation in each batch; seeds use the entries in turn."""


@dataclass(frozen=True)
class Case:
    seed: int
    sql: str
    batches: Batches
    forms: Counter[str] = field(default_factory=Counter)
    """How often the query uses each form of SQL."""

    @property
    def sinks(self) -> Sequence[str]:
        """Return the names of the views that have a sink too."""
        return ["v0"] if self.seed % 2 == 0 else []

    @property
    def buckets(self) -> int:
        """Return the number of buckets of the state."""
        return 2 if self.seed % 4 == 1 else 1

    def __str__(self) -> str:
        lines = [f"seed {self.seed}", self.sql]
        lines += [f"  {number}: {each}" for number, each in enumerate(self.batches, 1)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: its kind, and a message."""

    kind: str
    said: str = ""

    @property
    def wrong(self) -> bool:
        return self.kind in ("wrong", "failed")


def cases(seed: int, oracle: Oracle, count: int = TOGETHER) -> list[Case]:
    """Return the cases of a seed, with queries that Postgres accepts and that return few enough rows.

    Every second seed reorders changes, and adds rows that are inserted and deleted within one batch.
    """
    random_ = random.Random(seed)
    content = JudgedContent(RELATIONS, oracle)
    batches: list[dict[str, list[Change]]] = []
    for most in _STEPS[seed % len(_STEPS)]:
        changes = _changes(content, random_, most, noise=bool(seed % 2))
        content.apply(changes)
        batches.append(changes)
    found: list[Query] = []
    while len(found) < count:
        each = query(random_)
        if _rows(content, each.sql) <= _MOST:
            found.append(each)
    return [Case(seed, each.sql, tuple(batches), each.forms) for each in found]


def _rows(content: Content, sql: str) -> float:
    """Return the number of rows in Postgres; infinity if Postgres refuses the query."""
    try:
        return sum(content.ask(asked(sql)).values())
    except psycopg.Error:
        return math.inf


def _changes(content: Content, random_: random.Random, most: int, *, noise: bool) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for relation in RELATIONS:
        there = sorted(content.rows[relation.name].elements(), key=repr)
        taken = {each[0] for each in there} if relation.name == "a" else set()
        changes: list[Change] = []
        for _ in range(random_.randint(most // 2, most)):
            new = row(relation, random_)
            gone = bool(there) and random_.randrange(10) < 4 and relation.kind != "append"
            if relation.kind == "upsert":
                changes.append(((new[0], *(None for _ in new[1:])), -1) if gone else (new, 1))
                continue
            if gone:
                old = there.pop(random_.randrange(len(there)))
                taken.discard(old[0])
                changes.append((old, -1))
            if relation.name == "a":
                if new[0] in taken:
                    continue
                taken.add(new[0])
            changes.append((new, 1))
            if not gone and not random_.randrange(4) and relation.name == "b":
                changes.append((new, 1))
        if noise and relation.kind == "table":
            for _ in range(2):
                extra = row(relation, random_)
                changes += [(extra, 1), (extra, -1)]
            random_.shuffle(changes)
        found[relation.name] = changes
    return found


def _noisy(relation: Relation, changes: Sequence[Change], random_: random.Random) -> list[Change]:
    """Return equivalent changes: reordered, with rows that are inserted and deleted in the same batch."""
    found = list(changes)
    if relation.kind == "table":
        for _ in range(3):
            extra = row(relation, random_)
            found += [(extra, 1), (extra, -1)]
    if relation.kind == "upsert":  # the last change of a key counts
        return [each for change in found for each in ((row(relation, random_, change[0][0]), 1), change)]
    return random_.sample(found, len(found))


def outcomes(cases: Sequence[Case], oracle: Oracle) -> list[Outcome]:
    """Run cases of one seed together, or one by one if a check fails; return the outcome of each.

    The first case is also checked part by part and with other batches.
    """
    found = _outcome(cases, oracle)
    if found == Outcome("held"):
        return [found] * len(cases)
    return [_outcome([each], oracle) for each in cases] if len(cases) > 1 else [found]


def outcome(case: Case, oracle: Oracle) -> Outcome:
    """Run a case and return its outcome."""
    (found,) = outcomes([case], oracle)
    return found


def _outcome(cases: Sequence[Case], oracle: Oracle) -> Outcome:
    first = cases[0]
    views = {f"v{number}": View(each.sql, asked(each.sql)) for number, each in enumerate(cases)}
    content = JudgedContent(RELATIONS, oracle)
    if len(cases) == 1 and (unknown := _unknown(content, first.batches, list(views.values()))):
        return unknown
    with tempfile.TemporaryDirectory(prefix="sinkql-h-") as folder:
        try:
            content = JudgedContent(RELATIONS, oracle)
            held = Views(Path(folder), RELATIONS, views, sinks=first.sinks, buckets=first.buckets, content=content)
        except SinkqlError as error:
            return Outcome("refused", f"{error.code} {error.message}")
        except Exception as error:
            return Outcome("failed", f"planning: {type(error).__name__}: {error}")
        try:
            return _held(held, first)
        finally:
            held.close()


def _unknown(content: Content, batches: Batches, views: Sequence[View]) -> Outcome | None:
    """Return an outcome if Postgres refuses one of the queries after one of the batches; else None."""
    try:
        for each in batches:
            content.apply(each)
            for view in views:
                content.ask(view.asked)
    except psycopg.Error as error:
        return Outcome(_UNKNOWN, str(error).splitlines()[0])
    return None


def _held(views: Views, case: Case) -> Outcome:
    try:
        for each in case.batches:
            views.batch(each)
        random_ = random.Random(case.seed)
        views.check_parts(["v0"])
        if len(case.batches) > 2:
            views.check_cut([2], ["v0"])
        views.check_altered(lambda relation, changes: _noisy(relation, changes, random_), ["v0"])
    except AssertionError as error:
        return Outcome("wrong", str(error))
    except SinkqlError as error:
        if error.code == "SQ2663":
            return Outcome("refused", f"{error.code} {error.message}")
        return Outcome("failed", f"{error.code} {error.message}")
    except Exception as error:
        import traceback

        return Outcome("failed", "".join(traceback.format_exception(error, limit=-3)))
    return Outcome("held")


def shrunk(case: Case, kind: str, oracle: Oracle) -> Case:
    """Return a smaller case with an outcome of the same kind."""
    for _ in range(_ROUNDS):
        smaller = next((each for each in _smaller(case, oracle) if outcome(each, oracle).kind == kind), None)
        if smaller is None:
            return case
        case = smaller
    return case


def _smaller(case: Case, oracle: Oracle) -> Iterator[Case]:
    tree = sqlglot.parse_one(case.sql, read="postgres")
    seen = {case.sql}
    for each in _simpler(tree):
        sql = each.sql(dialect="postgres")
        if sql not in seen and len(sql) < len(case.sql):
            seen.add(sql)
            yield replace(case, sql=sql)
    for number in range(len(case.batches)):
        if len(case.batches) > 1:
            joined = [*case.batches[:number], *case.batches[number + 1 :]]
            if _possible(joined, oracle):
                yield replace(case, batches=tuple(joined))
    for number, batch in enumerate(case.batches):
        for name, changes in batch.items():
            for low, high in _slices(len(changes)):
                less = {**batch, name: [*changes[:low], *changes[high:]]}
                found = [*case.batches[:number], less, *case.batches[number + 1 :]]
                if _possible(found, oracle):
                    yield replace(case, batches=tuple(found))


def _slices(length: int) -> Iterator[tuple[int, int]]:
    if length:
        yield 0, length
    if length > 3:
        yield 0, length // 2
        yield length // 2, length
    if length > 1:
        for place in range(length):
            yield place, place + 1


def _possible(batches: Sequence[Changes], oracle: Oracle) -> bool:
    content = JudgedContent(RELATIONS, oracle)
    try:
        for each in batches:
            content.apply(each)
            keys = [each[0] for each in content.rows["a"].elements()]
            if len(keys) > len(set(keys)):
                return False
    except AssertionError:
        return False
    return True


def _simpler(tree: Any) -> Iterator[Any]:
    """Yield trees with one part removed; many of them are invalid."""
    for number, node in enumerate(tree.walk()):
        for replacement in _replacements(node):
            copy = tree.copy()
            place = next(each for at, each in enumerate(copy.walk()) if at == number)
            if isinstance(replacement, str):
                place.set(replacement, None)
                yield copy
            elif isinstance(replacement, tuple):
                name, at = replacement
                values = list(place.args[name])
                del values[at]
                place.set(name, values)
                yield copy
            elif place.parent is None:
                yield replacement.copy()
            else:
                place.replace(replacement.copy())
                yield copy


def _replacements(node: Any) -> Iterator[Any]:
    match node:
        case exp.Select() | exp.SetOperation():
            for name in ("where", "having", "distinct", "order", "limit", "offset", "with_", "group"):
                if node.args.get(name) is not None:
                    yield name
            for name in ("joins", "expressions"):
                values = node.args.get(name) or []
                if values and (name == "joins" or len(values) > 1):
                    yield from ((name, at) for at in range(len(values)))
            if isinstance(node, exp.SetOperation):
                yield from (node.this.unnest(), node.expression.unnest())
        case exp.And() | exp.Or() | exp.Add() | exp.Sub() | exp.DPipe() | exp.Mul():
            yield from (node.this, node.expression)
        case exp.Filter() | exp.Paren() | exp.Not() | exp.Coalesce() | exp.Abs() | exp.Nullif() | exp.Upper():
            yield node.this
        case exp.Case():
            yield from (each for each in (node.args["ifs"][0].args["true"], node.args.get("default")) if each)
        case exp.Join():
            if node.args.get("side"):
                yield "side"
        case exp.Group() | exp.Order() | exp.Ordered() | exp.In() | exp.Distinct():
            values = node.args.get("expressions") or []
            if len(values) > 1:
                yield from (("expressions", at) for at in range(len(values)))
        case exp.Subquery() if isinstance(node.this, exp.Select) and isinstance(node.parent, exp.From):
            inner = node.this.args.get("from_")
            if inner is not None and isinstance(inner.this, exp.Table):
                table = inner.this.copy()
                table.set("alias", node.args.get("alias"))
                yield table


def main(first: int, last: int, oracle: Oracle) -> None:
    counts: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    known: set[str] = set()
    for seed in range(first, last):
        found = cases(seed, oracle)
        for each, became in zip(found, outcomes(found, oracle), strict=True):
            counts[became.kind] += 1
            forms += each.forms
            if became.kind in ("refused", _UNKNOWN):
                refused[became.said[:100]] += 1
            told = became.said.strip().splitlines()[-1][:60] if became.kind == "failed" else each.sql
            if became.wrong and told not in known:
                known.add(told)
                small = shrunk(each, became.kind, oracle)
                print(f"--- {became.kind}\n{small}\n{outcome(small, oracle).said}\nat first: {each.sql}\n", flush=True)
    print(dict(counts))
    for said, count in (*refused.most_common(30), *forms.most_common()):
        print(f"{count:5} {said}")


if __name__ == "__main__":
    with postgres() as server, server.connect() as connection:
        main(int(sys.argv[1]), int(sys.argv[2]), connection)
