"""Check what statements about database servers have in common: host, port, certificates, and the clauses of a source.

`ColumnChoice` resolves TEXT COLUMNS and EXCLUDE COLUMNS against the columns of the server's tables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sinkql import ast
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.options import option_span
from sinkql.errors import SinkqlError, Span, nearest

_MOST_PORT = 65535
_PAIR = (
    ("SSL CERTIFICATE", "SSL KEY", "SSL KEY = SECRET name"),
    ("SSL KEY", "SSL CERTIFICATE", "SSL CERTIFICATE = '…'"),
)
_WHOLE = re.compile(r"(?=.*(?:://|:\d+$))(\w+://)?(?:[^/@]*@)?([^/:@]+)(?::(\d+))?(?:/.*)?")
"""A URL, or a host with a port; an IPv6 address is neither."""
_OF_SSL = ("SSL CERTIFICATE", "SSL KEY", "SSL CERTIFICATE AUTHORITY")


def check_port(options: Sequence[ast.Option], port: int, *, usual: int, otherwise: Span) -> None:
    """Raise SQ2550 for a PORT out of range; `usual` is the port in the hint."""
    if not 1 <= port <= _MOST_PORT:
        span = option_span(options, "PORT", otherwise)
        raise SinkqlError("SQ2550", f"{port} is not a port", span, hint=f"Write PORT = {usual}.")


def check_host(options: Sequence[ast.Option], host: str, otherwise: Span) -> None:
    """Raise SQ2555 for a HOST that is a URL or includes a port."""
    match = _WHOLE.fullmatch(host)
    if match is None:
        return
    _, name, port = match.groups()
    hint = f"Write HOST = '{name}'{f', PORT = {port}' if port else ''}."
    raise SinkqlError("SQ2555", f'invalid host "{host}"', option_span(options, "HOST", otherwise), hint=hint)


def check_certificate(options: Sequence[ast.Option], otherwise: Span) -> None:
    """Raise SQ2551 for a certificate without its key, or a key without its certificate."""
    names = {option.name for option in options}
    for one, other, example in _PAIR:
        if one in names and other not in names:
            span = option_span(options, one, otherwise)
            raise SinkqlError("SQ2551", f"{one} requires {other}", span, hint=f"Add {example}.")


def check_encryption(options: Sequence[ast.Option], mode: str, *, off: str, on: str, otherwise: Span) -> None:
    """Raise SQ2552 if SSL MODE verifies certificates without an authority, SQ2553 for certificates that are not used.

    `off` is the SSL MODE without encryption, and `on` the mode in the hint. The modes in which the server decides on
    encryption do not use certificates either.
    """
    names = {option.name for option in options}
    if mode.startswith("verify") and "SSL CERTIFICATE AUTHORITY" not in names:
        raise SinkqlError(
            "SQ2552",
            f"SSL MODE {mode} requires SSL CERTIFICATE AUTHORITY",
            option_span(options, "SSL MODE", otherwise),
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name with the PEM certificate of the issuing authority.",
        )
    unused = next((name for name in _OF_SSL if name in names), None)
    if mode in (off, "prefer", "preferred") and unused is not None:
        span = option_span(options, unused, otherwise)
        raise SinkqlError("SQ2553", f"{unused} is not used without SSL", span, hint=f"Add SSL MODE = {on}.")


def encryption_check(version: str, mode: str, full: str) -> HealthCheck:
    """Return the check of a connection's encryption: the TLS `version`, empty for none; `full` also checks names."""
    if not version:
        return HealthCheck("encryption", "ok", f"none: SSL MODE is {mode}")
    checked = {"verify_ca": "its certificate is checked", full: "its certificate and its name are checked"}
    return HealthCheck("encryption", "ok", f"{version}, {checked.get(mode, 'its certificate is not checked')}")


def connection_of(statement: ast.CreateSource, owner: str, example: str) -> ast.Name:
    """Return the connection that a source names; raises SQ2815 if it names none."""
    if statement.connection is None:
        raise SinkqlError("SQ2815", f"{owner} require a connection", statement.kind_span, hint=f"Write {example}.")
    return statement.connection


def check_clauses(statement: ast.CreateSource, owner: str) -> None:
    """Raise SQ2816 for a clause that the database server decides: columns, formats, envelopes."""
    parts: tuple[tuple[str, Span | None], ...] = (
        ("columns", statement.columns[0].name.span if statement.columns else None),
        ("PRIMARY KEY", statement.primary_key[0].span if statement.primary_key else None),
        *((f"FORMAT {format_.name}", format_.span) for format_ in (statement.format,) if format_ is not None),
        ("INCLUDE", statement.include[0].span if statement.include else None),
        (f"ENVELOPE {statement.envelope}", statement.kind_span if statement.envelope not in (None, "NONE") else None),
    )
    for clause, span in parts:
        if span is not None:
            hint = f"Leave out {clause}: SinkQL reads the definition of the tables from the server."
            raise SinkqlError("SQ2816", f"{owner} cannot have {clause}", span, hint=hint)


TEXT, EXCLUDE, IGNORE = "TEXT COLUMNS", "EXCLUDE COLUMNS", "IGNORE COLUMNS"
OPTIONS = (TEXT, EXCLUDE, IGNORE)


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column that an option names, with its table and schema, if written."""

    option: str
    parts: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TableColumnChoice:
    """The columns of one table to read as text, and those to leave out."""

    as_text: frozenset[str]
    excluded: frozenset[str]


@dataclass(slots=True)
class ColumnChoice:
    """The columns that the options name, to read as text or to leave out.

    `of_table` records the `names` of a table's columns and which references were `found`, for `check`.
    """

    references: tuple[ColumnReference, ...]
    found: set[ColumnReference] = field(default_factory=set)
    names: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def from_options(cls, options: Sequence[ast.Option], table: tuple[str, ...] = ()) -> ColumnChoice:
        """Parse the options; the options of one `table` may name columns without it. Raises SQ2103."""
        references = (reference for option in options if option.name in OPTIONS for reference in _references(option))
        return cls(
            tuple(
                replace(reference, parts=(*table, *reference.parts)) if len(reference.parts) == 1 else reference
                for reference in references
            )
        )

    def of_table(self, table: tuple[str, ...], columns: Sequence[str], key: Collection[str]) -> TableColumnChoice:
        """Return the columns of a table that the options name; raises SQ2813 if one to leave out is in its key."""
        as_text, excluded = set(), set()
        for column in columns:
            full = (*table, column)
            self.names.append(full)
            matches = [
                reference
                for reference in self.references
                if len(reference.parts) > 1 and full[-len(reference.parts) :] == reference.parts
            ]
            self.found.update(matches)
            exclusion = next((reference for reference in matches if reference.option != TEXT), None)
            if exclusion is not None and column in key:
                raise SinkqlError(
                    "SQ2813",
                    f'column "{column}" is in the key of table "{".".join(table)}"',
                    exclusion.span,
                    hint=f"Remove it from {exclusion.option}. To leave the column out of a result, create a view.",
                )
            if exclusion is not None:
                excluded.add(column)
            elif matches:
                as_text.add(column)
        return TableColumnChoice(frozenset(as_text), frozenset(excluded))

    def check(self, example: str) -> None:
        """Raise SQ2812 for a column that no table has."""
        for reference in self.references:
            if reference not in self.found:
                names = {".".join(name[-len(reference.parts) :]) for name in self.names}
                near = nearest(".".join(reference.parts), sorted(names))
                hint = f"Did you mean {near}?" if near else f"Write {example}."
                message = f'column "{".".join(reference.parts)}" does not exist'
                raise SinkqlError("SQ2812", message, reference.span, hint=hint)


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
