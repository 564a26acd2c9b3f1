"""INSERT, UPDATE, DELETE → rows of a table's file, all of a statement's or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sinkql import ast, logical
from sinkql.connectors.table.file import Change, DuplicateError, TableFile
from sinkql.connectors.table.row import Row, normal
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import short_name
from sinkql.planner.table import length
from sinkql.session.inputs import Inputs, table_file
from sinkql.session.query import enough, now, rows_of
from sinkql.session.result import Result

if TYPE_CHECKING:
    from sinkql.planner.assign import Cell
    from sinkql.planner.change import Deleted, Inserted, Target, Updated
    from sinkql.session.session import Session

_NUMBER = "$row"


def run(statement: ast.Change, session: Session) -> Result:
    """Run a statement that changes rows."""
    match statement:
        case ast.Insert():
            return insert(statement, session)
        case ast.Update():
            return update(statement, session)
        case ast.Delete():
            return delete(statement, session)


def insert(statement: ast.Insert, session: Session) -> Result:
    """Add rows; raises SQ2420 (key is there), SQ2421 (NULL), SQ2422 (does not fit)."""
    from sinkql.planner.change import plan_insert  # sqlglot loads only where there is a statement for it

    planned = plan_insert(statement, session.catalog.plans, now())
    rows = _rows(planned, session, statement.span)
    fitting = _Fitting(planned.target, statement.span)
    kept = [fitting.row(row) for row in rows]
    with _changing(planned.target, session, statement.table.span) as change:
        for row in kept:
            change.insert(row)
    return Result(f"INSERT 0 {len(kept)}")


def _rows(planned: Inserted, session: Session, span: Span) -> list[list[Any]]:
    if planned.query is None:
        return _filled(planned.rows, session)
    from sinkql.planner.assign import fitted

    (defaults,) = _filled((planned.defaults,), session)
    inputs = Inputs(session, span, enough(planned.query))
    columns = planned.target.columns
    found = []
    for row in rows_of(planned.query, session, inputs):
        whole = list(defaults)
        for place, value in zip(planned.places, row, strict=False):
            whole[place] = fitted(value, columns[place])
        found.append(whole)
    return found


def _filled(rows: tuple[tuple[Cell, ...], ...], session: Session) -> list[list[Any]]:
    """Return rows of values; what no plain value is, Spark computes, all of it at once."""
    wanted = {cell.expression.sql: cell.expression for row in rows for cell in row if cell.expression is not None}
    known: dict[str, Any] = {}
    if wanted:
        terms = ", ".join(f"{sql} AS c{number}" for number, sql in enumerate(wanted))
        found = session.spark.query(f"SELECT {terms}", {})
        known = dict(zip(wanted, (column[0].as_py() for column in found.columns), strict=True))
    return [[cell.value if cell.expression is None else known[cell.expression.sql] for cell in row] for row in rows]


def update(statement: ast.Update, session: Session) -> Result:
    """Change rows; what SET and WHERE say sees each row as it was."""
    from sinkql.planner.change import plan_update

    planned = plan_update(statement, session.catalog.plans, now())
    plain = _plain_where(planned) and all(
        each.function is not None or each.cell.expression is None for each in planned.values
    )
    fitting = _Fitting(planned.target, statement.span)
    count = 0
    if not plain:
        session.spark.query("SELECT 1", {})  # started before others are kept waiting
    with _changing(planned.target, session, statement.table.span) as change:
        rows = change.rows()
        for number, old, new in _new_rows(planned, rows) if plain else _computed(planned, rows, session):
            count += 1
            fitted = fitting.row(new)
            if fitted != old:
                change.delete(number, old)
                change.insert(fitted)
    return Result(f"UPDATE {count}")


def _plain_where(planned: Updated | Deleted) -> bool:
    return planned.where is None or planned.where.function is not None


def _chosen(planned: Updated | Deleted, rows: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    if planned.where is None:
        return rows
    keep = planned.where.function
    assert keep is not None
    return [(number, row) for number, row in rows if keep(row)]


def _new_rows(planned: Updated, rows: list[tuple[int, Row]]) -> list[tuple[int, Row, list[Any]]]:
    from sinkql.planner.assign import fitted

    columns = planned.target.columns
    found = []
    for number, old in _chosen(planned, rows):
        new = list(old)
        for each in planned.values:
            if each.function is None:
                new[each.place] = each.cell.value
            else:
                new[each.place] = fitted(each.function(old), columns[each.place])
        found.append((number, old, new))
    return found


def _computed(planned: Updated, rows: list[tuple[int, Row]], session: Session) -> list[tuple[int, Row, list[Any]]]:
    values = [(each, each.cell.expression) for each in planned.values if each.cell.expression is not None]
    terms = [f"{expression.sql} AS `$c{each.place}`" for each, expression in values]
    old_rows = dict(rows)
    found = []
    for number, *results in _asked(planned, rows, session, terms):
        new = list(old_rows[number])
        for each in planned.values:
            new[each.place] = each.cell.value
        for (each, _), value in zip(values, results, strict=True):
            new[each.place] = value
        found.append((number, old_rows[number], new))
    return found


def _asked(
    planned: Updated | Deleted, rows: list[tuple[int, Row]], session: Session, terms: list[str]
) -> list[tuple[Any, ...]]:
    """Return the numbers of the rows that WHERE keeps, each with the terms over it, as Spark finds them."""
    import pyarrow as pa

    columns = planned.target.columns
    codec = _file(planned.target, session).codec
    arrays = [*codec.arrays(row for _, row in rows), pa.array([number for number, _ in rows], pa.int64())]
    named = (*columns, logical.Column(_NUMBER, logical.Type("bigint"), nullable=False))
    where = f" WHERE {planned.where.expression.sql}" if planned.where is not None else ""
    sql = f"SELECT {', '.join([f'`{_NUMBER}`', *terms])} FROM changed{where}"
    table = pa.table(arrays, names=[column.name for column in named])
    found = session.spark.query(sql, {"changed": (named, table)})
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def delete(statement: ast.Delete, session: Session) -> Result:
    """Take rows away."""
    from sinkql.planner.change import plan_delete

    planned = plan_delete(statement, session.catalog.plans, now())
    plain = _plain_where(planned)
    if not plain:
        session.spark.query("SELECT 1", {})
    with _changing(planned.target, session, statement.table.span) as change:
        rows = change.rows()
        if plain:
            gone = _chosen(planned, rows)
        else:
            kept = dict(rows)
            gone = [(number, kept[number]) for (number,) in _asked(planned, rows, session, [])]
        for number, row in gone:
            change.delete(number, row)
    return Result(f"DELETE {len(gone)}")


def _file(target: Target, session: Session) -> TableFile:
    return table_file(target.item, target.statement, session.catalog)


class _changing:  # noqa: N801  # a context manager, used as a function
    """Open a statement of a table's file; a key that is there already is SQ2420."""

    def __init__(self, target: Target, session: Session, span: Span) -> None:
        self._target, self._span = target, span
        self._file = _file(target, session)
        self._statement = self._file.statement()

    def __enter__(self) -> Change:
        return self._statement.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        try:
            return self._statement.__exit__(*raised)
        except DuplicateError as error:
            raise self._duplicate(error) from None

    def _duplicate(self, error: DuplicateError) -> SinkqlError:
        columns = self._target.columns
        places = self._file.keys[error.rule]
        names = ", ".join(columns[place].name for place in places)
        values = ", ".join(_shown(error.row[place]) for place in places)
        name = short_name(self._target.item.name)
        return SinkqlError(
            "SQ2420",
            f'table "{name}" has a row with this key already',
            self._span,
            detail=f"({names}) = ({values})",
            hint=f"UPDATE {name} SET … WHERE …; changes the row that is there.",
        )


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Fitting:
    """Hold rows against a table's columns: NOT NULL, lengths, the values' form."""

    def __init__(self, target: Target, span: Span) -> None:
        self._columns = target.columns
        self._lengths = [length(column) for column in target.statement.columns]
        self._table = short_name(target.item.name)
        self._span = span

    def row(self, row: list[Any]) -> Row:
        """Return a row as the table holds it; raises SQ2421 and SQ2422."""
        return tuple(map(self._value, row, self._columns, self._lengths))

    def _value(self, value: Any, column: logical.Column, most: int | None) -> Any:
        if value is None:
            if not column.nullable:
                raise SinkqlError(
                    "SQ2421",
                    f'column "{column.name}" of table "{self._table}" is NOT NULL, and its value is NULL',
                    self._span,
                    hint="Give it a value, or a DEFAULT in CREATE TABLE.",
                )
            return None
        if most is not None and len(value) > most:
            raise SinkqlError(
                "SQ2422",
                f'{_shown(value)!r} does not fit column "{column.name}", which takes {most} characters',
                self._span,
            )
        return normal(value, column.type)
