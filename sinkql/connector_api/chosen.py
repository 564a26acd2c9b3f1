"""TEXT COLUMNS and EXCLUDE COLUMNS of sources of databases → which columns of their tables these name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sinkql import ast
from sinkql.errors import SinkqlError, Span, nearest

TEXT, EXCLUDE, IGNORE = "TEXT COLUMNS", "EXCLUDE COLUMNS", "IGNORE COLUMNS"
OPTIONS = (TEXT, EXCLUDE, IGNORE)


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column that an option names, with its table or more."""

    option: str
    parts: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TableColumnChoice:
    """Of one table's columns: those that are read as text, and those that are left out."""

    as_text: frozenset[str]
    excluded: frozenset[str]


@dataclass(slots=True)
class ColumnChoice:
    """The columns that the options name: those that are read as text, and those that are left out."""

    references: tuple[ColumnReference, ...]
    found: set[ColumnReference] = field(default_factory=set)
    names: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, options: Sequence[ast.Option], table: tuple[str, ...] = ()) -> ColumnChoice:
        """Read the options; those of one `table` may name its columns alone. Raises SQ2103."""
        read = (each for option in options if option.name in OPTIONS for each in _references(option))
        return cls(tuple(replace(each, parts=(*table, *each.parts)) if len(each.parts) == 1 else each for each in read))

    def of_table(self, table: tuple[str, ...], columns: Sequence[str], key: Collection[str]) -> TableColumnChoice:
        """Return which columns of a table the options name; raises SQ2813 for one of its key that is left out."""
        as_text, excluded = set(), set()
        for column in columns:
            full = (*table, column)
            self.names.append(full)
            by = [each for each in self.references if len(each.parts) > 1 and full[-len(each.parts) :] == each.parts]
            self.found.update(by)
            out = next((each for each in by if each.option != TEXT), None)
            if out is not None and column in key:
                raise SinkqlError(
                    "SQ2813",
                    f'column "{column}" is in the key of table "{".".join(table)}"',
                    out.span,
                    hint="Leave it in; a view may leave it out.",
                )
            if out is not None:
                excluded.add(column)
            elif by:
                as_text.add(column)
        return TableColumnChoice(frozenset(as_text), frozenset(excluded))

    def check(self, example: str) -> None:
        """Raise SQ2812 for a column that no table has."""
        for each in self.references:
            if each not in self.found:
                names = {".".join(name[-len(each.parts) :]) for name in self.names}
                near = nearest(".".join(each.parts), sorted(names))
                hint = f"Did you mean {near}?" if near else f"Write {example}."
                raise SinkqlError("SQ2812", f'there is no column "{".".join(each.parts)}"', each.span, hint=hint)


def _references(option: ast.Option) -> Iterator[ColumnReference]:
    items = option.value.items if isinstance(option.value, ast.Sequence) else ()
    for item in items:
        match item:
            case ast.Word():
                yield ColumnReference(option.name, tuple(part.value for part in item.name.parts), item.span)
            case ast.Text():
                yield ColumnReference(option.name, tuple(item.value.split(".")), item.span)
            case _:
                items = ()
    if not items:
        span = option.value.span if option.value is not None else option.name_span
        hint = f"Write {option.name} (schema.table.column)."
        raise SinkqlError("SQ2103", f"option {option.name} takes a list of columns", span, hint=hint)
