"""Rows that are there beside rows that were expected → nothing, or an AssertionError that shows how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sinkql.testing.row import alike

Given = Mapping[str, Any]


def assert_rows(actual: Iterable[Given], expected: Iterable[Given]) -> None:
    """Raise AssertionError unless both have the same rows, in any order and in the same number.

    The message has a line for each row that is missing (-) or not expected (+).
    """
    __tracebackhide__ = True
    there, wanted = list(actual), list(expected)
    missing, extra = _without(wanted, there), _without(there, wanted)
    if missing or extra:
        equal = len(wanted) - len(missing)
        head = f"{_many(missing)} missing (-), {_many(extra)} not expected (+), {equal} as expected"
        raise AssertionError("\n".join([head, *_table(missing, extra)]))


def _many(rows: Sequence[Given]) -> str:
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}"


def _without(rows: Sequence[Given], others: Sequence[Given]) -> list[Given]:
    """Return the rows for which there is none among the others; each of these stands for one."""
    left = [_comparable(each) for each in others]
    found = []
    for row in rows:
        if _comparable(row) in left:
            left.remove(_comparable(row))
        else:
            found.append(row)
    return found


def _comparable(row: Given) -> dict[str, Any]:
    return dict(zip(row, alike(tuple(row.values())), strict=True))


def _table(missing: Sequence[Given], extra: Sequence[Given]) -> list[str]:
    """Return a table of the rows, like ones beside each other; a column that a row has not is empty."""
    columns = list(dict.fromkeys(name for row in (*extra, *missing) for name in row))
    marked = [*(("-", row) for row in missing), *(("+", row) for row in extra)]
    shown = [[mark, *(repr(row[name]) if name in row else "" for name in columns)] for mark, row in marked]
    shown.sort(key=lambda line: (line[1:2], line[1:], line[0]))
    lines = [["", *columns], *shown]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
