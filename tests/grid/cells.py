"""The cells of the grid: each engine's result for a template on a row, compared with Postgres and each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from expressions import vectors
from grid import edges, values
from grid.exceptions import AT_ONCE, BESIDE_NULL, LARGE, WIDE, documented, loud, number_of
from grid.postgres_values import ERROR, Answer, Oracle
from grid.templates import Template
from sinkql import evaluate, logical
from sinkql.errors import SinkqlError
from sinkql.logical.expression import children, walk
from sinkql.runtime.local.arrow_form import RowsNeededError, arrow_form
from sinkql.runtime.local.map import python_rows

if TYPE_CHECKING:
    from grid.engine import Engine

Outcome = tuple[str, Any]
_COLUMNS = {column.name: column for column in edges.columns()}
_NAMES = list(_COLUMNS)
_STRING = re.compile(r"'[^']*'")
_UNSURE: Outcome = ("unsure", None)
_PLANNED = 256


@dataclass(slots=True)
class Report:
    """The differences, the number of cells of each kind, and the documented differences that occurred."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    met: set[str] = field(default_factory=set)


@lru_cache(_PLANNED)
def planned(template: Template) -> logical.Expression:
    """Plan a template over the columns that it uses."""
    return vectors.placed(template.sql, tuple(_COLUMNS[each] for each in dict.fromkeys(template.places)))


def named(template: Template) -> str:
    """Return the name of the column that a query of the template has."""
    columns = {column.name: str(column.type) for column in (_COLUMNS[each] for each in template.places)}
    planned = vectors.query(f"SELECT {template.sql} FROM t", vectors.table(columns))
    return planned.relation.shape.columns[0].name


def evaluated(expression: logical.Expression, rows: Sequence[tuple[Any, ...]], numbers: Sequence[int]) -> list[Outcome]:
    """Return Python's outcome for each row: a value, an error, or unsure."""
    function = evaluate.function_of(expression, _NAMES)
    if function is None:
        return [_UNSURE] * len(numbers)
    return [_outcome(function, rows[number]) for number in numbers]


def in_columns(expression: logical.Expression, rows: pa.Table) -> list[Outcome]:
    """Return the outcome of the form over Arrow columns for each row: a value, or unsure."""
    form = arrow_form(expression)
    if form is None:
        return [_UNSURE] * len(rows)
    try:
        return [("value", value) for (value,) in python_rows(pa.table({"value": form(rows)}))]
    except (RowsNeededError, SinkqlError):
        if len(rows) <= 1:
            return [_UNSURE] * len(rows)
        half = len(rows) // 2
        return in_columns(expression, rows.slice(0, half)) + in_columns(expression, rows.slice(half))


def _outcome(function: Any, row: tuple[Any, ...]) -> Outcome:
    try:
        return "value", function(row)
    except evaluate.NotEvaluableError:
        return _UNSURE
    except SinkqlError as error:
        return "error", error.message


def compare(
    templates: Iterable[Template], numbers: Sequence[int], oracle: Oracle, engine: Engine | None, *, together: int = 96
) -> Report:
    """Compare the engines with Postgres, and with each other, on all cells."""
    report, rows, left = Report(), edges.rows(), iter(templates)
    table = edges.table().take(pa.array(numbers, pa.int64()))
    while part := list(islice(left, together)):
        expressions = [planned(each) for each in part]
        answers = [None if each.oracle is None else oracle.answers(each.oracle, numbers) for each in part]
        here = [evaluated(each, rows, numbers) for each in expressions]
        columns = [in_columns(each, table) for each in expressions]
        there: Sequence[dict[int, Outcome] | None] = [None] * len(part)
        if engine is not None:
            there = engine.outcomes(expressions, numbers)
        for template, expression, answer, mine, quick, its in zip(
            part, expressions, answers, here, columns, there, strict=True
        ):
            report.counts["expressions"] += 1
            at_once = answer is not None and _fails_at_once(template, answer, oracle)
            report.counts[AT_ONCE] += at_once
            for place, number in enumerate(numbers):
                engines = {"evaluator": mine[place], "columns": quick[place]}
                engines |= {} if its is None else {"Spark": its[number]}
                text = None if answer is None or at_once else answer[place]
                judged = answer is not None and not at_once
                cell = Cell(template, expression, number, rows[number], text, oracle, judged)
                found = list(_differences(cell, engines, report))
                if found:
                    shown = {name: rows[number][_NAMES.index(name)] for name in dict.fromkeys(template.places)}
                    report.wrong.append(f"{template.sql} over {shown}: {'; '.join(found)}")
                    break  # one row of a template is enough
    return report


@dataclass(frozen=True, slots=True)
class Cell:
    """A template on a row, with Postgres's answer."""

    template: Template
    expression: logical.Expression
    number: int
    row: tuple[Any, ...]
    answer: Answer
    oracle: Oracle
    judged: bool

    def here(self, part: logical.Expression) -> Outcome:
        """Return Python's outcome for a part of the expression."""
        return evaluated(part, [self.row], [0])[0]

    def asked(self, part: logical.Expression) -> Answer:
        """Return Postgres's answer for a part; its SQL must not be empty."""
        (found,) = self.oracle.answers(self.text(part), [self.number])
        return found

    def text(self, part: logical.Expression) -> str:
        """Return the SQL of a part; empty if the part has no SQL, or if Postgres has different SQL."""
        if self.template.oracle != self.template.sql:
            return ""
        found = self.template.sql[part.span.start : part.span.end]
        return found if _whole(_STRING.sub("", found)) else ""  # the span of one comparison of LIKE ANY is incomplete

    def fails(self, part: logical.Expression) -> bool:
        """Return whether a part fails."""
        kind, _ = self.here(part)
        if kind == "unsure" and self.text(part):
            return (self.asked(part) or "").startswith(ERROR)
        return kind == "error"

    def null(self, part: logical.Expression, whole: logical.Expression) -> bool:
        """Return whether a part is NULL; if the planner expanded a call to it, whether one of its inputs is."""
        kind, value = self.here(part)
        if kind != "unsure" or not self.text(part):
            return (kind, value) == ("value", None)
        if part.span == whole.span:
            return any(self.null(each, whole) for each in children(part))
        return self.asked(part) is None


def _whole(text: str) -> bool:
    """Return whether all brackets are balanced."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _fails_at_once(template: Template, answer: Sequence[Answer], oracle: Oracle) -> bool:
    """Return whether Postgres fails while it plans, which is independent of the rows."""
    failed = all((each or "").startswith(ERROR) for each in answer)
    return failed and template.oracle is not None and oracle.fails_at_once(template.oracle)


def _differences(cell: Cell, engines: dict[str, Outcome], report: Report) -> Iterator[str]:
    for name, outcome in engines.items():
        report.counts[f"{name}: {outcome[0]}"] += 1
        if not cell.judged or outcome[0] == "unsure" or _right(outcome, cell.answer, cell.expression.type):
            continue
        known = documented(cell.template.sql, outcome, cell.answer, cell.row) or _documented_within(cell, outcome)
        if known is not None:
            report.met.add(known)
        elif outcome[0] == "value" and (cell.answer or "").startswith(ERROR) and _beside_null(cell):
            report.met.add(BESIDE_NULL)
        else:
            yield f"{name} gives {_shown(outcome)}, Postgres {cell.answer!r}"
    mine, its = engines["evaluator"], engines.get("Spark")
    if its is None or mine[0] == "unsure" or _same(mine, its):
        return
    if {mine[0], its[0]} == {"value", "error"} and _beside_null(cell):
        report.met.add(BESIDE_NULL)
    else:
        yield f"the evaluator gives {_shown(mine)}, Spark {_shown(its)}"


def _documented_within(cell: Cell, outcome: Outcome) -> str | None:
    """Return the documented difference of a part that fails here although none of its inputs fails.

    If Python is unsure about the expression, any part may have failed in Spark.
    """
    if outcome[0] != "error" or (cell.answer or "").startswith(ERROR):
        return None
    kinds = ("error",) if cell.here(cell.expression)[0] == "error" else ("error", "unsure")
    for part in walk(cell.expression):
        if not isinstance(part, logical.Call | logical.Cast) or not cell.text(part):
            continue
        kind = cell.here(part)[0]
        if kind in kinds and (kind == "unsure" or all(cell.here(each)[0] != "error" for each in children(part))):
            found = WIDE if _large(cell, part) else loud(cell.text(part), cell.asked(part))
            if found is not None:  # a part that fails may be in a branch that is not taken
                return found
    return None


def _large(cell: Cell, part: logical.Call | logical.Cast) -> bool:
    """Return whether an operand or the result is a number with many digits before the decimal point."""
    outcomes = [cell.here(each) for each in children(part) if each.type.name == "numeric"]
    found = [value for kind, value in outcomes if kind == "value"]
    if part.type.name == "numeric":
        found.append(number_of(cell.asked(part)))
    return any(isinstance(each, Decimal) and abs(each) >= LARGE for each in found)


def _beside_null(cell: Cell) -> bool:
    """Return whether a call has one operand that is NULL and another that fails."""
    for node in walk(cell.expression):
        if not isinstance(node, logical.Call) or len(node.arguments) < 2:
            continue
        if not any(cell.null(each, node) for each in node.arguments):
            continue
        if any(map(cell.fails, node.arguments)) or _large(cell, node):
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
