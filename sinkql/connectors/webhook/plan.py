"""Plan CREATE SOURCE … FROM WEBHOOK: how requests become rows, which requests pass, and where the source listens."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from sinkql import ast, logical, physical
from sinkql.connector_api.cdc import CapturedTable, LogRetention, source_options, table_options
from sinkql.connector_api.database_options import check_certificate, check_port
from sinkql.connector_api.options import bind, option_span, secret_data
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connector_api.source_options import log_in_cluster_state, log_path, parse_size
from sinkql.connector_api.types import parse_type
from sinkql.connectors.webhook.options import SOURCE_OWNER, SourceOptions
from sinkql.connectors.webhook.request import Filter, Header, Kind, Layout
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.keywords import split_name

_MOST_BODY = 256 << 20
_TABLE = "requests"
_TYPES: Mapping[Kind, str] = {"json": "jsonb", "json array": "jsonb", "text": "text", "bytes": "bytea"}


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source, whose rows are the rows of its log. Raise SQ2840 to SQ2845."""
    _check_clauses(statement)
    options = bind(
        statement.with_options, SourceOptions, owner=SOURCE_OWNER, span=statement.kind_span, secret=planning.secret
    )
    _check_address(statement, options)
    layout = _layout(statement)
    columns = _columns(statement, layout)
    full_name = planning.catalog.locate(statement.name)
    listen = _listen_options(options)
    _add_notices(statement, full_name, listen, planning)
    source = source_options(
        facts.get("source_id"),
        full_name,
        {"tuning": _tuning(statement, options, listen, planning)},
        _retention(statement, options, facts, planning),
    )
    typed = tuple(physical.Column(column.name, column.type, column.nullable) for column in columns)
    table = CapturedTable(_TABLE, (_TABLE,), typed, (), options=msgspec.to_builtins(layout), pushed=True)
    return SourcePlan(table_options(source, table), logical.Shape(columns, (), logical.Change.APPEND))


def url_of(full_name: str, listen: Mapping[str, Any]) -> str:
    """Return the URL of a source."""
    address = listen["address"]
    host = f"[{address}]" if ":" in address else address
    scheme = "https" if listen["ssl"] else "http"
    return f"{scheme}://{host}:{listen['port']}{path_of(full_name)}"


def path_of(full_name: str) -> str:
    """Return the path of a source's URL."""
    return "/api/webhook/" + "/".join(quote(part, safe="") for part in split_name(full_name))


def _check_clauses(statement: ast.CreateSource) -> None:
    """Refuse a source without BODY FORMAT (SQ2842)."""
    if not statement.pushed:
        raise SinkqlError(
            "SQ2842",
            f"{SOURCE_OWNER} require BODY FORMAT",
            statement.kind_span,
            hint="Write FROM WEBHOOK BODY FORMAT JSON, JSON ARRAY, TEXT or BYTES, with nothing between.",
        )


def _check_address(statement: ast.CreateSource, options: SourceOptions) -> None:
    def span(name: str) -> Span:
        return option_span(statement.with_options, name, statement.kind_span)

    check_port(statement.with_options, options.port, usual=6876, otherwise=statement.kind_span)
    try:
        ipaddress.ip_address(options.address)
    except ValueError:
        raise SinkqlError(
            "SQ2844",
            f'"{options.address}" is not an IP address',
            span("ADDRESS"),
            hint="Write ADDRESS = '0.0.0.0' to be reached from other machines, or '127.0.0.1'.",
        ) from None
    check_certificate(statement.with_options, statement.kind_span)


def _layout(statement: ast.CreateSource) -> Layout:
    """Return how a request becomes rows; raise SQ2842 and SQ2843."""
    form = statement.format
    assert form is not None  # the grammar demands it
    kinds: Mapping[tuple[str, bool], Kind] = {
        ("JSON", False): "json",
        ("JSON", True): "json array",
        ("TEXT", False): "text",
        ("BYTES", False): "bytes",
    }
    kind = kinds.get((form.name, form.array))
    if kind is None:
        raise SinkqlError(
            "SQ2842", f"a webhook's body cannot be of FORMAT {form.name}", form.span, hint="Write JSON, TEXT or BYTES."
        )
    filters = [include for include in statement.include if include.name == "HEADERS"]
    if len(filters) > 1:
        raise SinkqlError(
            "SQ2843", "INCLUDE HEADERS is given twice", filters[1].span, hint="Write all names in one INCLUDE HEADERS."
        )
    mapped = [Header((item.header or "").lower(), item.binary) for item in statement.include if item.name == "HEADER"]
    return Layout(kind, _filter(filters[0]) if filters else None, tuple(mapped))


def _filter(include: ast.Include) -> Filter:
    included = tuple(name.name.lower() for name in include.filters if not name.excluded)
    excluded = tuple(name.name.lower() for name in include.filters if name.excluded)
    return Filter(included, excluded)


def _columns(statement: ast.CreateSource, layout: Layout) -> tuple[logical.Column, ...]:
    """Return the body, all headers, and each included header; raise SQ2843 for a duplicate name."""
    columns = [logical.Column("body", parse_type(_TYPES[layout.kind]), nullable=False)]
    if layout.filter is not None:
        columns.append(logical.Column("headers", parse_type("map[text=>text]"), nullable=False))
    for include in statement.include:
        if include.name != "HEADER":
            continue
        assert include.alias is not None  # the grammar demands it
        if any(include.alias.value == column.name for column in columns):
            raise SinkqlError(
                "SQ2843",
                f'column "{include.alias.value}" already exists',
                include.alias.span,
                hint="Rename the header with AS.",
            )
        columns.append(
            logical.Column(include.alias.value, parse_type("bytea" if include.binary else "text"), nullable=True)
        )
    return tuple(columns)


def _listen_options(options: SourceOptions) -> dict[str, Any]:
    listen: dict[str, Any] = {"address": options.address, "port": options.port, "ssl": options.ssl_key is not None}
    return listen


def _tuning(
    statement: ast.CreateSource, options: SourceOptions, listen: Mapping[str, Any], planning: PlanningContext
) -> dict[str, Any]:
    """Return the options that change no value of a row: the address, and which requests pass."""
    check, secrets = None, []
    if statement.check is not None:
        from sinkql.connectors.webhook.check_plan import plan_check  # sqlglot is slow to import

        check = plan_check(statement.check, planning)
        secrets = [{"secret": planning.secret(item.secret).name} for item in statement.check.inputs if item.secret]
    ssl = {
        name: secret_data(text)
        for name, text in (("certificate", options.ssl_certificate), ("key", options.ssl_key))
        if text is not None
    }
    max_body = parse_size(options.max_body_size, "MAX BODY SIZE", statement.with_options, statement.kind_span)
    if max_body > _MOST_BODY:
        raise SinkqlError(
            "SQ2845",
            "MAX BODY SIZE is more than 256MB",
            option_span(statement.with_options, "MAX BODY SIZE", statement.kind_span),
            hint="Split the payload into several requests.",
        )
    url = url_of(planning.catalog.locate(statement.name), listen)
    return {**listen, "url": url, "ssl": ssl or None, "check": check, "secrets": secrets or None, "max_body": max_body}


def _retention(
    statement: ast.CreateSource, options: SourceOptions, facts: logical.Facts, planning: PlanningContext
) -> LogRetention:
    with_options, span = statement.with_options, statement.kind_span
    max_log = parse_size(options.max_log_size, "MAX LOG SIZE", with_options, span)
    log = log_path(options.log, options.aws_connection, with_options, span, planning)
    return LogRetention(keep="log", max_log=max_log, log=log or log_in_cluster_state(statement, facts, planning))


def _add_notices(
    statement: ast.CreateSource, full_name: str, listen: Mapping[str, Any], planning: PlanningContext
) -> None:
    """Add a notice with the URL, and a warning if every request passes."""
    planning.notice(
        Notice(
            "SQ2846",
            f"requests go to {url_of(full_name, listen)} while a sink of the source runs",
            statement.name.span,
        )
    )
    if statement.check is None and not ipaddress.ip_address(listen["address"]).is_loopback:
        planning.notice(
            Notice(
                "SQ2847",
                "the source has no CHECK: every request that reaches the port passes",
                statement.name.span,
                hint="Add CHECK (WITH (HEADERS, SECRET name) constant_time_eq(headers->'authorization', name)).",
            )
        )
