"""The cells of the grid: what each engine gives for a template on a row, held against Postgres and each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expressions import vectors
from grid import edges, values
from grid.exceptions import BESIDE_NULL, documented
from grid.judge import ERROR, Answer, Judge
from grid.templates import Template
from sinkql import evaluate, logical
from sinkql.errors import SinkqlError
from sinkql.logical.expression import walk

if TYPE_CHECKING:
    from grid.engine import Engine

Outcome = tuple[str, Any]
_COLUMNS = {column.name: column for column in edges.columns()}
_NAMES = list(_COLUMNS)
_UNSURE: Outcome = ("unsure", None)


@dataclass(slots=True)
class Report:
    """What differs, how many cells of each kind there were, and which documented differences have been met."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)


def planned(template: Template) -> logical.Expression:
    """Plan a template over the columns that stand in it."""
    return vectors.over(template.sql, tuple(_COLUMNS[each] for each in dict.fromkeys(template.places)))


def evaluated(expression: logical.Expression, rows: Sequence[tuple[Any, ...]], numbers: Sequence[int]) -> list[Outcome]:
    """Return what Python gives for each of the rows: a value, an error, or nothing that it is sure of."""
    function = evaluate.function_of(expression, _NAMES)
    if function is None:
        return [_UNSURE] * len(numbers)
    return [_outcome(function, rows[number]) for number in numbers]


def _outcome(function: Any, row: tuple[Any, ...]) -> Outcome:
    try:
        return "value", function(row)
    except evaluate.UnsureError:
        return _UNSURE
    except SinkqlError as error:
        return "error", error.message


def compare(
    templates: Sequence[Template], numbers: Sequence[int], judge: Judge, engine: Engine | None, *, together: int = 96
) -> Report:
    """Hold the engines against Postgres, and each other, on all cells."""
    report, rows = Report(), edges.rows()
    for start in range(0, len(templates), together):
        part = templates[start : start + together]
        expressions = [planned(each) for each in part]
        answers = [None if each.judge is None else judge.answers(each.judge, numbers) for each in part]
        here = [evaluated(each, rows, numbers) for each in expressions]
        there: Sequence[dict[int, Outcome] | None] = [None] * len(part)
        if engine is not None:
            failing = [_failing(*each, numbers) for each in zip(answers, here, strict=True)]
            there = engine.outcomes(expressions, failing, numbers)
        for template, expression, answer, mine, its in zip(part, expressions, answers, here, there, strict=True):
            for place, number in enumerate(numbers):
                engines = {"evaluator": mine[place]} | ({} if its is None else {"Spark": its[number]})
                text = None if answer is None else answer[place]
                cell = Cell(template, expression, rows[number], text, judged=answer is not None)
                found = list(_differences(cell, engines, report))
                if found:
                    shown = {name: rows[number][_NAMES.index(name)] for name in dict.fromkeys(template.places)}
                    report.wrong.append(f"{template.sql} over {shown}: {'; '.join(found)}")
                    break  # one row of a template tells enough
    return report


def _failing(answers: list[Answer] | None, here: list[Outcome], numbers: Sequence[int]) -> frozenset[int]:
    """Return the rows on which Postgres or Python fails: what Spark does there, it is asked for alone."""
    judged = answers or [None] * len(numbers)
    return frozenset(
        number
        for number, answer, outcome in zip(numbers, judged, here, strict=True)
        if (answer or "").startswith(ERROR) or outcome[0] == "error"
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """A template on a row, and what Postgres gives for it."""

    template: Template
    expression: logical.Expression
    row: tuple[Any, ...]
    answer: Answer
    judged: bool


def _differences(cell: Cell, engines: dict[str, Outcome], report: Report) -> Iterator[str]:
    for name, outcome in engines.items():
        report.counts[f"{name}: {outcome[0]}"] += 1
        if not cell.judged or outcome[0] == "unsure" or _right(outcome, cell.answer, cell.expression.type):
            continue
        known = documented(cell.template, outcome, cell.answer, cell.row)
        if known is not None:
            report.met.add(known.name)
        elif outcome[0] == "value" and (cell.answer or "").startswith(ERROR) and _beside_null(cell):
            report.met.add(BESIDE_NULL.name)
        else:
            yield f"{name} gives {_shown(outcome)}, Postgres {cell.answer!r}"
    mine, its = engines["evaluator"], engines.get("Spark")
    if its is None or mine[0] == "unsure" or _same(mine, its):
        return
    if {mine[0], its[0]} == {"value", "error"} and _beside_null(cell):
        report.met.add(BESIDE_NULL.name)
    else:
        yield f"the evaluator gives {_shown(mine)}, Spark {_shown(its)}"


def _beside_null(cell: Cell) -> bool:
    """Tell whether a call somewhere within has an operand that is NULL and another that fails, or is an engine's."""
    for node in walk(cell.expression):
        if isinstance(node, logical.Call) and len(node.arguments) > 1:
            found = [evaluated(each, [cell.row], [0])[0] for each in node.arguments]
            if ("value", None) in found and any(kind != "value" for kind, _ in found):
                return True
    return False


def _right(outcome: Outcome, answer: Answer, type_: logical.Type) -> bool:
    if (answer or "").startswith(ERROR):
        return outcome[0] == "error"
    return outcome[0] == "value" and values.judged(outcome[1], answer, type_)


def _same(one: Outcome, other: Outcome) -> bool:
    return one[0] == other[0] and (one[0] == "error" or values.alike(one[1], other[1]))


def _shown(outcome: Outcome) -> str:
    return f"{outcome[0]} {str(outcome[1])[:200]!r}"
