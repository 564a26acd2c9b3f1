"""Run INSERT, UPDATE and DELETE, and change the file of a table atomically."""

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
from sinkql.session.row.inputs import Columns, Inputs, columns_changed_error, table_file
from sinkql.session.row.query import by_spark, first_rows, rows_of
from sinkql.statement.operation import ChangeRows
from sinkql.table.file import DuplicateError, Edit, TableFile, WiderError
from sinkql.table.row import NarrowError, Row, normal

if TYPE_CHECKING:
    from sinkql.planner.edit.dml import Deleted, Inserted, NewValue, Target, Updated
    from sinkql.planner.expression.assign import Cell
    from sinkql.planner.query.plan import OneShotQuery

_CHANGED = "$changed"
_NUMBER = "$row"


def change_rows(operation: ChangeRows, workspace: Workspace) -> Result:
    """Change rows of a table."""
    from sinkql.planner.edit.dml import Deleted, Inserted, Updated  # loads sqlglot, which only DML needs

    match operation.planned:
        case Inserted() as planned:
            return _insert(planned, operation.statement, workspace)
        case Updated() as planned:
            return _update(planned, operation.statement, workspace)
        case Deleted() as planned:
            return _delete(planned, operation.statement, workspace)


def _insert(planned: Inserted, statement: ast.RowChange, workspace: Workspace) -> Result:
    """Add rows. Raise SQ2420 for a duplicate key, SQ2421 for NULL and SQ2422 for a value that is too long."""
    rows = _inserted_rows(planned, workspace, statement.span)
    row_converter = RowConverter(planned.target, statement.span)
    converted = [row_converter.row(row) for row in rows]
    with _EditStatement(planned.target, workspace, statement.table.span) as edit:
        for row in converted:
            edit.insert(row)
    return Result(f"INSERT 0 {len(converted)}")


def _inserted_rows(planned: Inserted, workspace: Workspace, span: Span) -> list[list[Any]]:
    if planned.query is None:
        return _computed_rows(planned.rows, workspace)
    (defaults,) = _computed_rows((planned.defaults,), workspace)
    rows = []
    for row in _query_rows(planned, planned.query, workspace, span):
        complete = list(defaults)
        for place, value in zip(planned.places, row, strict=False):
            complete[place] = value
        rows.append(complete)
    return rows


def _query_rows(planned: Inserted, query: OneShotQuery, workspace: Workspace, span: Span) -> list[Row]:
    """Return the rows of a query, converted to the types of the target columns."""
    from sinkql.planner.expression.assign import converter

    plans = workspace.catalog.plans
    inputs = Inputs(workspace, span, first_rows(query, plans))
    visible = query.relation.shape.columns[: query.width]
    candidates = [
        converter(column.type, planned.target.columns[place])
        for place, column in zip(planned.places, visible, strict=True)
    ]
    converters = [candidate for candidate in candidates if candidate is not None]
    if len(converters) == len(candidates):
        rows = rows_of(query, workspace, inputs)
        try:
            return [tuple(convert(value) for convert, value in zip(converters, row, strict=False)) for row in rows]
        except NotEvaluableError:
            pass
    assert planned.converted is not None
    return by_spark(replace(query, relation=planned.converted), workspace, inputs.rows)


def _computed_rows(rows: tuple[tuple[Cell, ...], ...], workspace: Workspace) -> list[list[Any]]:
    """Return rows of values. One Spark query computes all expressions that are not constants."""
    expressions = {cell.expression: None for row in rows for cell in row if cell.expression is not None}
    results: dict[logical.Expression, Any] = {}
    if expressions:
        relation = _project(logical.ONE, {f"$c{number}": expression for number, expression in enumerate(expressions)})
        (computed,) = by_spark(_one_shot(relation), workspace, _no_input)
        results = dict(zip(expressions, computed, strict=True))
    return [[cell.value if cell.expression is None else results[cell.expression] for cell in row] for row in rows]


def _no_input(name: str) -> Columns:
    raise AssertionError(name)


def _update(planned: Updated, statement: ast.RowChange, workspace: Workspace) -> Result:
    """Change rows. SET and WHERE see the old values."""
    row_converter = RowConverter(planned.target, statement.span)

    def edit_rows(change_rows: Changed) -> int:
        count = 0
        with _EditStatement(planned.target, workspace, statement.table.span) as edit:
            for number, old, values in change_rows(edit.rows()):
                count += 1
                new = list(old)
                for new_value, value in zip(planned.values, values, strict=True):
                    new[new_value.place] = value
                converted = row_converter.row(new)
                if converted != old:
                    edit.delete(number, old)
                    edit.insert(converted)
        return count

    return Result(f"UPDATE {_run_change(edit_rows, planned, planned.values, workspace)}")


def _delete(planned: Deleted, statement: ast.RowChange, workspace: Workspace) -> Result:
    """Delete rows."""

    def edit_rows(change_rows: Changed) -> int:
        count = 0
        with _EditStatement(planned.target, workspace, statement.table.span) as edit:
            for number, old, _ in change_rows(edit.rows()):
                count += 1
                edit.delete(number, old)
        return count

    return Result(f"DELETE {_run_change(edit_rows, planned, (), workspace)}")


Changed = Callable[[list[tuple[int, Row]]], Sequence[tuple[int, Row, Sequence[Any]]]]
"""Select the numbered rows that match WHERE, with the values of SET."""


def _run_change(
    edit_rows: Callable[[Changed], int],
    planned: Updated | Deleted,
    values: Sequence[NewValue],
    workspace: Workspace,
) -> int:
    """Change rows with expressions in Python, or in Spark if Python cannot evaluate them."""
    plain = _in_python(planned, values)
    if plain is not None:
        try:
            return edit_rows(plain)
        except NotEvaluableError:
            pass  # nothing was changed
    anything = _project(logical.ONE, {_NUMBER: logical.literal(1, BIGINT)})
    by_spark(_one_shot(anything), workspace, _no_input)  # starts Spark before the table is locked
    return edit_rows(_in_spark(planned, values, workspace))


def _in_python(planned: Updated | Deleted, values: Sequence[NewValue]) -> Changed | None:
    from sinkql.planner.expression.assign import assigned

    columns = planned.target.columns
    names = [column.name for column in columns]
    is_match = function_of(planned.where, names) if planned.where is not None else lambda row: True
    candidates = [
        assigned(new.cell.expression, columns[new.place], names)
        if new.cell.expression is not None
        else _constant(new.cell.value)
        for new in values
    ]
    functions = [function for function in candidates if function is not None]
    if is_match is None or len(functions) < len(candidates):
        return None
    return lambda rows: [
        (number, row, [function(row) for function in functions]) for number, row in rows if is_match(row)
    ]


def _constant(value: Any) -> Callable[[Row], Any]:
    return lambda row: value


def _in_spark(planned: Updated | Deleted, values: Sequence[NewValue], workspace: Workspace) -> Changed:
    columns = (*planned.target.columns, logical.Column(_NUMBER, BIGINT, nullable=False))
    relation: logical.Relation = logical.Get(_CHANGED, logical.Shape(columns))
    if planned.where is not None:
        relation = logical.Filter(relation, planned.where, relation.shape)
    expressions = {f"$c{new.place}": new.cell.expression for new in values if new.cell.expression is not None}
    number = logical.Reference(_NUMBER, BIGINT, nullable=False)
    query = _one_shot(_project(relation, {_NUMBER: number, **expressions}))

    def changed(rows: list[tuple[int, Row]]) -> Sequence[tuple[int, Row, Sequence[Any]]]:
        rows_by_number = dict(rows)

        def read(_: str) -> Columns:
            import pyarrow as pa

            codec = _file(planned.target, workspace).codec
            try:
                arrays = [*codec.arrays(row for _, row in rows), pa.array([number for number, _ in rows], pa.int64())]
            except NarrowError:
                raise columns_changed_error(planned.target.item) from None
            return columns, pa.table(arrays, names=[column.name for column in columns])

        changed_rows = []
        for place, *computed in by_spark(query, workspace, read):
            remaining = iter(computed)
            new_values = [new.cell.value if new.cell.expression is None else next(remaining) for new in values]
            changed_rows.append((place, rows_by_number[place], new_values))
        return changed_rows

    return changed


def _project(relation: logical.Relation, outputs: Mapping[str, logical.Expression]) -> logical.Relation:
    columns = (logical.Column(name, expression.type, expression.nullable) for name, expression in outputs.items())
    projected = tuple(logical.Output(name, expression) for name, expression in outputs.items())
    return logical.Project(relation, projected, logical.Shape(tuple(columns)))


def _one_shot(relation: logical.Relation) -> OneShotQuery:
    from sinkql.planner.query.plan import OneShotQuery

    return OneShotQuery(relation, (), len(relation.shape.columns))


def _file(target: Target, workspace: Workspace) -> TableFile:
    return table_file(target.item, target.statement, workspace.catalog)


class _EditStatement:
    """A context manager for one statement on a table's file. Raise SQ2420 for a duplicate key."""

    def __init__(self, target: Target, workspace: Workspace, span: Span) -> None:
        self._target, self._span = target, span
        self._file = _file(target, workspace)
        self._statement = self._file.statement()

    def __enter__(self) -> Edit:
        try:
            return self._statement.__enter__()
        except WiderError:
            raise columns_changed_error(self._target.item, self._span) from None

    def __exit__(self, *raised: Any) -> bool | None:
        try:
            return self._statement.__exit__(*raised)
        except DuplicateError as error:
            hint = f"Use UPDATE {sql_name(self._target.item.name)} SET … to change the existing row."
            key = self._file.keys[error.rule]
            raise duplicate(self._target, key, error.row, span=self._span, hint=hint) from None


def duplicate(target: Target, key: Sequence[int], row: Row, *, span: Span | None = None, hint: str) -> SinkqlError:
    """Return the error for a row with a duplicate key."""
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
    """A converter of rows for a table, which checks NOT NULL and lengths and normalizes values."""

    def __init__(self, target: Target, span: Span | None = None) -> None:
        self._columns = target.columns
        self._lengths = [length(column) for column in target.statement.columns]
        self._blanked = [is_char(column) for column in target.statement.columns]
        self._table = short_name(target.item.name)
        self._span = span

    def row(self, row: list[Any]) -> Row:
        """Return a row in the table's form. Raise SQ2421 for NULL and SQ2422 for a value that is too long."""
        return tuple(map(self._value, row, self._columns, self._lengths, self._blanked))

    def _value(self, value: Any, column: logical.Column, most: int | None, blanked: bool) -> Any:
        if value is None:
            if not column.nullable:
                raise SinkqlError(
                    "SQ2421",
                    f'null value in column "{column.name}" of table "{self._table}", which is NOT NULL',
                    self._span,
                    hint="Insert a value, or set a DEFAULT in CREATE TABLE.",
                )
            return None
        if blanked:
            value = value.rstrip(" ")
        if most is not None and len(value) > most:
            if not value[most:].strip(" "):
                return value[:most]  # SQL cuts off trailing blanks
            raise SinkqlError(
                "SQ2422",
                f'{_shown(value)!r} is too long for column "{column.name}", which holds {most} '
                f"character{'' if most == 1 else 's'}",
                self._span,
            )
        return normal(value, column.type)
