"""INSERT, UPDATE, DELETE → rows of a table's file, all of a statement's or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.evaluate import NotEvaluableError, function_of
from sinkql.logical.type import BIGINT
from sinkql.planner.item.table import is_char, length
from sinkql.planner.name import short_name, sql_name
from sinkql.session.result import Result, Workspace
from sinkql.session.row.inputs import Columns, Inputs, table_file
from sinkql.session.row.inputs import changed as changed_meanwhile
from sinkql.session.row.query import by_spark, first_rows, rows_now, rows_of
from sinkql.table.file import DuplicateError, Edit, TableFile, WiderError
from sinkql.table.row import NarrowError, Row, normal

if TYPE_CHECKING:
    from sinkql.planner.edit.dml import Deleted, Inserted, NewValue, Target, Updated
    from sinkql.planner.expression.assign import Cell
    from sinkql.planner.query.plan import OneShotQuery

_CHANGED = "$changed"
_NUMBER = "$row"


def run_dml(statement: ast.RowChange, workspace: Workspace) -> Result:
    """Run a statement that changes rows."""
    match statement:
        case ast.Insert():
            return insert(statement, workspace)
        case ast.Update():
            return update(statement, workspace)
        case ast.Delete():
            return delete(statement, workspace)


def insert(statement: ast.Insert, workspace: Workspace) -> Result:
    """Add rows; raises SQ2420 (key is there), SQ2421 (NULL), SQ2422 (does not fit)."""
    from sinkql.planner.edit.dml import plan_insert  # sqlglot loads only where there is a statement for it

    planned = plan_insert(statement, workspace.catalog.plans, rows_now())
    rows = _rows(planned, workspace, statement.span)
    fitting = RowConverter(planned.target, statement.span)
    kept = [fitting.row(row) for row in rows]
    with _changing(planned.target, workspace, statement.table.span) as edit:
        for row in kept:
            edit.insert(row)
    return Result(f"INSERT 0 {len(kept)}")


def _rows(planned: Inserted, workspace: Workspace, span: Span) -> list[list[Any]]:
    if planned.query is None:
        return _filled(planned.rows, workspace)
    (defaults,) = _filled((planned.defaults,), workspace)
    found = []
    for row in _converted(planned, planned.query, workspace, span):
        whole = list(defaults)
        for place, value in zip(planned.places, row, strict=False):
            whole[place] = value
        found.append(whole)
    return found


def _converted(planned: Inserted, query: OneShotQuery, workspace: Workspace, span: Span) -> list[Row]:
    """Return the rows of a query in the types of the columns that they go to."""
    from sinkql.planner.expression.assign import converter

    plans = workspace.catalog.plans
    inputs = Inputs(workspace, span, first_rows(query, plans))
    shown = query.relation.shape.columns[: query.width]
    found = [
        converter(column.type, planned.target.columns[place])
        for place, column in zip(planned.places, shown, strict=True)
    ]
    converters = [each for each in found if each is not None]
    if len(converters) == len(found):
        rows = rows_of(query, workspace, inputs)
        try:
            return [tuple(convert(value) for convert, value in zip(converters, row, strict=False)) for row in rows]
        except NotEvaluableError:
            pass
    assert planned.converted is not None
    return by_spark(replace(query, relation=planned.converted), workspace, inputs.rows)


def _filled(rows: tuple[tuple[Cell, ...], ...], workspace: Workspace) -> list[list[Any]]:
    """Return rows of values; Spark computes all expressions that are not plain, at once."""
    wanted = {cell.expression: None for row in rows for cell in row if cell.expression is not None}
    known: dict[logical.Expression, Any] = {}
    if wanted:
        relation = _project(logical.ONE, {f"$c{number}": each for number, each in enumerate(wanted)})
        (found,) = by_spark(_once(relation), workspace, _nothing)
        known = dict(zip(wanted, found, strict=True))
    return [[cell.value if cell.expression is None else known[cell.expression] for cell in row] for row in rows]


def _nothing(name: str) -> Columns:
    raise AssertionError(name)


def update(statement: ast.Update, workspace: Workspace) -> Result:
    """Change rows; what SET and WHERE say sees each row as it was."""
    from sinkql.planner.edit.dml import plan_update

    planned = plan_update(statement, workspace.catalog.plans, rows_now())
    fitting = RowConverter(planned.target, statement.span)

    def edit_rows(changed: Changed) -> int:
        count = 0
        with _changing(planned.target, workspace, statement.table.span) as edit:
            for number, old, values in changed(edit.rows()):
                count += 1
                new = list(old)
                for each, value in zip(planned.values, values, strict=True):
                    new[each.place] = value
                fitted = fitting.row(new)
                if fitted != old:
                    edit.delete(number, old)
                    edit.insert(fitted)
        return count

    return Result(f"UPDATE {_either(edit_rows, planned, planned.values, workspace)}")


def delete(statement: ast.Delete, workspace: Workspace) -> Result:
    """Take rows away."""
    from sinkql.planner.edit.dml import plan_delete

    planned = plan_delete(statement, workspace.catalog.plans, rows_now())

    def edit_rows(changed: Changed) -> int:
        count = 0
        with _changing(planned.target, workspace, statement.table.span) as edit:
            for number, old, _ in changed(edit.rows()):
                count += 1
                edit.delete(number, old)
        return count

    return Result(f"DELETE {_either(edit_rows, planned, (), workspace)}")


Changed = Callable[[list[tuple[int, Row]]], Sequence[tuple[int, Row, Sequence[Any]]]]
"""Numbered rows → those that WHERE keeps, each with the values of SET."""


def _either(
    edit_rows: Callable[[Changed], int],
    planned: Updated | Deleted,
    values: Sequence[NewValue],
    workspace: Workspace,
) -> int:
    """Change rows as Python finds them, or as Spark does where Python is not enough."""
    plain = _in_python(planned, values)
    if plain is not None:
        try:
            return edit_rows(plain)
        except NotEvaluableError:
            pass  # nothing was changed
    anything = _project(logical.ONE, {_NUMBER: logical.literal(1, BIGINT)})
    by_spark(_once(anything), workspace, _nothing)  # started before others are kept waiting
    return edit_rows(_in_spark(planned, values, workspace))


def _in_python(planned: Updated | Deleted, values: Sequence[NewValue]) -> Changed | None:
    from sinkql.planner.expression.assign import assigned

    columns = planned.target.columns
    names = [column.name for column in columns]
    keep = function_of(planned.where, names) if planned.where is not None else lambda row: True
    found = [
        assigned(each.cell.expression, columns[each.place], names)
        if each.cell.expression is not None
        else _known(each.cell.value)
        for each in values
    ]
    functions = [each for each in found if each is not None]
    if keep is None or len(functions) < len(found):
        return None
    return lambda rows: [(number, row, [each(row) for each in functions]) for number, row in rows if keep(row)]


def _known(value: Any) -> Callable[[Row], Any]:
    return lambda row: value


def _in_spark(planned: Updated | Deleted, values: Sequence[NewValue], workspace: Workspace) -> Changed:
    columns = (*planned.target.columns, logical.Column(_NUMBER, BIGINT, nullable=False))
    relation: logical.Relation = logical.Get(_CHANGED, logical.Shape(columns))
    if planned.where is not None:
        relation = logical.Filter(relation, planned.where, relation.shape)
    wanted = {f"$c{each.place}": each.cell.expression for each in values if each.cell.expression is not None}
    number = logical.Reference(_NUMBER, BIGINT, nullable=False)
    once = _once(_project(relation, {_NUMBER: number, **wanted}))

    def changed(rows: list[tuple[int, Row]]) -> Sequence[tuple[int, Row, Sequence[Any]]]:
        known = dict(rows)

        def read(_: str) -> Columns:
            import pyarrow as pa

            codec = _file(planned.target, workspace).codec
            try:
                arrays = [*codec.arrays(row for _, row in rows), pa.array([number for number, _ in rows], pa.int64())]
            except NarrowError:
                raise changed_meanwhile(planned.target.item) from None
            return columns, pa.table(arrays, names=[column.name for column in columns])

        found = []
        for place, *computed in by_spark(once, workspace, read):
            rest = iter(computed)
            given = [each.cell.value if each.cell.expression is None else next(rest) for each in values]
            found.append((place, known[place], given))
        return found

    return changed


def _project(relation: logical.Relation, outputs: Mapping[str, logical.Expression]) -> logical.Relation:
    columns = (logical.Column(name, each.type, each.nullable) for name, each in outputs.items())
    named = tuple(logical.Output(name, each) for name, each in outputs.items())
    return logical.Project(relation, named, logical.Shape(tuple(columns)))


def _once(relation: logical.Relation) -> OneShotQuery:
    from sinkql.planner.query.plan import OneShotQuery

    return OneShotQuery(relation, (), len(relation.shape.columns))


def _file(target: Target, workspace: Workspace) -> TableFile:
    return table_file(target.item, target.statement, workspace.catalog)


class _changing:  # noqa: N801  # a context manager, used as a function
    """Open a statement of a table's file; a key that is there already is SQ2420."""

    def __init__(self, target: Target, workspace: Workspace, span: Span) -> None:
        self._target, self._span = target, span
        self._file = _file(target, workspace)
        self._statement = self._file.statement()

    def __enter__(self) -> Edit:
        try:
            return self._statement.__enter__()
        except WiderError:
            raise changed_meanwhile(self._target.item, self._span) from None

    def __exit__(self, *raised: Any) -> bool | None:
        try:
            return self._statement.__exit__(*raised)
        except DuplicateError as error:
            hint = f"Use UPDATE {sql_name(self._target.item.name)} SET … to change the row that is there."
            key = self._file.keys[error.rule]
            raise duplicate(self._target, key, error.row, span=self._span, hint=hint) from None


def duplicate(target: Target, key: Sequence[int], row: Row, *, span: Span | None = None, hint: str) -> SinkqlError:
    """Return the error for a row whose key is in the table already."""
    name = short_name(target.item.name)
    names = ", ".join(target.columns[place].name for place in key)
    values = ", ".join(_shown(row[place]) for place in key)
    return SinkqlError(
        "SQ2420",
        f'duplicate key value in table "{name}"',
        span,
        detail=f"key ({names}) = ({values}) already exists",
        hint=hint,
    )


def _shown(value: object) -> str:
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


class RowConverter:
    """Checks rows against a table's columns: NOT NULL, lengths, the values' form."""

    def __init__(self, target: Target, span: Span | None = None) -> None:
        self._columns = target.columns
        self._lengths = [length(column) for column in target.statement.columns]
        self._blanked = [is_char(column) for column in target.statement.columns]
        self._table = short_name(target.item.name)
        self._span = span

    def row(self, row: list[Any]) -> Row:
        """Return a row as the table holds it; raises SQ2421 and SQ2422."""
        return tuple(map(self._value, row, self._columns, self._lengths, self._blanked))

    def _value(self, value: Any, column: logical.Column, most: int | None, blanked: bool) -> Any:
        if value is None:
            if not column.nullable:
                raise SinkqlError(
                    "SQ2421",
                    f'null value in column "{column.name}" of table "{self._table}", which is NOT NULL',
                    self._span,
                    hint="Give it a value, or a DEFAULT in CREATE TABLE.",
                )
            return None
        if blanked:
            value = value.rstrip(" ")
        if most is not None and len(value) > most:
            if not value[most:].strip(" "):
                return value[:most]  # blanks at the end may be cut off
            raise SinkqlError(
                "SQ2422",
                f'{_shown(value)!r} is too long for column "{column.name}", which takes {most} '
                f"character{'' if most == 1 else 's'}",
                self._span,
            )
        return normal(value, column.type)
