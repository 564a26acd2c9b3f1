"""What statements about servers have in common: their ports and certificates, and sources of a database's tables.

TEXT COLUMNS and EXCLUDE COLUMNS of sources of databases → which columns of their tables these name.
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
"""A URL, or a host with a port; an address of version 6 is neither."""
_OF_SSL = ("SSL CERTIFICATE", "SSL KEY", "SSL CERTIFICATE AUTHORITY")


def check_port(options: Sequence[ast.Option], port: int, *, usual: int, otherwise: Span) -> None:
    """Raise SQ2550 for a PORT that is none."""
    if not 1 <= port <= _MOST_PORT:
        span = option_span(options, "PORT", otherwise)
        raise SinkqlError("SQ2550", f"{port} is not a port", span, hint=f"Write PORT = {usual}.")


def check_host(options: Sequence[ast.Option], host: str, otherwise: Span) -> None:
    """Raise SQ2555 for a HOST that has a port, or is a URL: neither is looked up."""
    found = _WHOLE.fullmatch(host)
    if found is None:
        return
    _, name, port = found.groups()
    hint = f"Write HOST = '{name}'{f', PORT = {port}' if port else ''}."
    raise SinkqlError("SQ2555", f'invalid host "{host}"', option_span(options, "HOST", otherwise), hint=hint)


def check_certificate(options: Sequence[ast.Option], otherwise: Span) -> None:
    """Raise SQ2551 for a certificate without its key, or a key alone."""
    given = {each.name for each in options}
    for one, other, example in _PAIR:
        if one in given and other not in given:
            span = option_span(options, one, otherwise)
            raise SinkqlError("SQ2551", f"{one} requires {other}", span, hint=f"Add {example}.")


def check_encryption(options: Sequence[ast.Option], mode: str, *, off: str, on: str, otherwise: Span) -> None:
    """Raise SQ2552 where a server's certificate is to be checked with nothing, SQ2553 for what is not used.

    `off` is the SSL MODE without encryption, and `on` what to write for one with it. Where the server alone decides
    whether there is any, nothing is checked either.
    """
    given = {each.name for each in options}
    if mode.startswith("verify") and "SSL CERTIFICATE AUTHORITY" not in given:
        raise SinkqlError(
            "SQ2552",
            f"SSL MODE {mode} requires SSL CERTIFICATE AUTHORITY",
            option_span(options, "SSL MODE", otherwise),
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name, the certificate that signed the server's.",
        )
    unused = next((name for name in _OF_SSL if name in given), None)
    if mode in (off, "prefer", "preferred") and unused is not None:
        span = option_span(options, unused, otherwise)
        raise SinkqlError("SQ2553", f"{unused} is not used without SSL", span, hint=f"Add SSL MODE = {on}.")


def encryption(version: str, mode: str, full: str) -> HealthCheck:
    """Return what to say of how a connection is encrypted: `version` of TLS, empty for none; `full` checks all."""
    if not version:
        return HealthCheck("encryption", "ok", f"none: SSL MODE is {mode}")
    checked = {"verify_ca": "its certificate is checked", full: "its certificate and its name are checked"}
    return HealthCheck("encryption", "ok", f"{version}, {checked.get(mode, 'its certificate is not checked')}")


def connection_of(statement: ast.CreateSource, owner: str, example: str) -> ast.Name:
    """Return the connection that a source names; raises SQ2815."""
    if statement.connection is None:
        raise SinkqlError("SQ2815", f"{owner} require a connection", statement.kind_span, hint=f"Write {example}.")
    return statement.connection


def check_clauses(statement: ast.CreateSource, owner: str) -> None:
    """Refuse what a database's server decides: columns, formats, envelopes (SQ2816)."""
    parts: tuple[tuple[str, Span | None], ...] = (
        ("columns", statement.columns[0].name.span if statement.columns else None),
        ("PRIMARY KEY", statement.primary_key[0].span if statement.primary_key else None),
        *((f"FORMAT {each.name}", each.span) for each in (statement.format,) if each is not None),
        ("INCLUDE", statement.include[0].span if statement.include else None),
        (f"ENVELOPE {statement.envelope}", statement.kind_span if statement.envelope not in (None, "NONE") else None),
    )
    for what, span in parts:
        if span is not None:
            hint = f"Leave out {what}: the server says what its tables are."
            raise SinkqlError("SQ2816", f"{owner} cannot have {what}", span, hint=hint)


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
