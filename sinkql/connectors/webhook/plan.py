"""CREATE SOURCE … FROM WEBHOOK → how requests become rows, who may send them, and where the source listens."""

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
from sinkql.connector_api.source_options import log_elsewhere, log_path, size
from sinkql.connector_api.types import parse_type
from sinkql.connectors.webhook.options import SOURCE_OWNER, SourceOptions
from sinkql.connectors.webhook.request import Filter, Header, Kind, Layout
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.planner.name import split_name

_MOST_BODY = 256 << 20
_TABLE = "requests"
_TYPES: Mapping[Kind, str] = {"json": "jsonb", "json array": "jsonb", "text": "text", "bytes": "bytea"}


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source: its rows are all that the log will have. Raises SQ2840 to SQ2845."""
    _check_clauses(statement)
    given = bind(
        statement.with_options, SourceOptions, owner=SOURCE_OWNER, span=statement.kind_span, secret=planning.secret
    )
    _check_place(statement, given)
    layout = _layout(statement)
    columns = _columns(statement, layout)
    full_name = planning.catalog.locate(statement.name)
    where = _place(given)
    _tell(statement, full_name, where, planning)
    source = source_options(
        facts.get("source_id"),
        full_name,
        {"tuning": _tuning(statement, given, where, planning)},
        _keeping(statement, given, facts, planning),
    )
    typed = tuple(physical.Column(each.name, each.type, each.nullable) for each in columns)
    table = CapturedTable(_TABLE, (_TABLE,), typed, (), options=msgspec.to_builtins(layout), pushed=True)
    return SourcePlan(table_options(source, table), logical.Shape(columns, (), logical.Change.APPEND))


def url_of(full_name: str, where: Mapping[str, Any]) -> str:
    """Return where requests go to for a source."""
    address = where["address"]
    host = f"[{address}]" if ":" in address else address
    scheme = "https" if where["ssl"] else "http"
    return f"{scheme}://{host}:{where['port']}{path_of(full_name)}"


def path_of(full_name: str) -> str:
    """Return the path of a source's URL."""
    return "/api/webhook/" + "/".join(quote(part, safe="") for part in split_name(full_name))


def _check_clauses(statement: ast.CreateSource) -> None:
    """Refuse a kind of source that is not sent, and what is written as for others (SQ2842)."""
    if not statement.pushed:
        raise SinkqlError(
            "SQ2842",
            f"{SOURCE_OWNER} require BODY FORMAT",
            statement.kind_span,
            hint="Write FROM WEBHOOK BODY FORMAT JSON, JSON ARRAY, TEXT or BYTES, with nothing between.",
        )


def _check_place(statement: ast.CreateSource, given: SourceOptions) -> None:
    def span(name: str) -> Span:
        return option_span(statement.with_options, name, statement.kind_span)

    check_port(statement.with_options, given.port, usual=6876, otherwise=statement.kind_span)
    try:
        ipaddress.ip_address(given.address)
    except ValueError:
        raise SinkqlError(
            "SQ2844",
            f'"{given.address}" is not an IP address',
            span("ADDRESS"),
            hint="Write ADDRESS = '0.0.0.0' to be reached from other machines, or '127.0.0.1'.",
        ) from None
    check_certificate(statement.with_options, statement.kind_span)


def _layout(statement: ast.CreateSource) -> Layout:
    """Return how a request becomes rows; raises SQ2842 and SQ2843."""
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
    filters = [each for each in statement.include if each.name == "HEADERS"]
    if len(filters) > 1:
        raise SinkqlError(
            "SQ2843", "INCLUDE HEADERS is given twice", filters[1].span, hint="Write all names in one of them."
        )
    mapped = [Header((each.header or "").lower(), each.binary) for each in statement.include if each.name == "HEADER"]
    return Layout(kind, _filter(filters[0]) if filters else None, tuple(mapped))


def _filter(include: ast.Include) -> Filter:
    kept = tuple(each.name.lower() for each in include.filters if not each.excluded)
    dropped = tuple(each.name.lower() for each in include.filters if each.excluded)
    return Filter(kept, dropped)


def _columns(statement: ast.CreateSource, layout: Layout) -> tuple[logical.Column, ...]:
    """Return the body, the headers if all are included, and each that is; raises SQ2843 for a name that is twice."""
    found = [logical.Column("body", parse_type(_TYPES[layout.kind]), nullable=False)]
    if layout.filter is not None:
        found.append(logical.Column("headers", parse_type("map[text=>text]"), nullable=False))
    for each in statement.include:
        if each.name != "HEADER":
            continue
        assert each.alias is not None  # the grammar demands it
        if any(each.alias.value == column.name for column in found):
            raise SinkqlError(
                "SQ2843",
                f'column "{each.alias.value}" is there already',
                each.alias.span,
                hint="Give the header another name with AS.",
            )
        found.append(logical.Column(each.alias.value, parse_type("bytea" if each.binary else "text"), nullable=True))
    return tuple(found)


def _place(given: SourceOptions) -> dict[str, Any]:
    place: dict[str, Any] = {"address": given.address, "port": given.port, "ssl": given.ssl_key is not None}
    return place


def _tuning(
    statement: ast.CreateSource, given: SourceOptions, where: Mapping[str, Any], planning: PlanningContext
) -> dict[str, Any]:
    """Return what decides no value of a row: where requests come to, and which are let in."""
    check, secrets = None, []
    if statement.check is not None:
        from sinkql.connectors.webhook.check import plan_check  # sqlglot

        check = plan_check(statement.check, planning)
        secrets = [{"secret": planning.secret(each.secret).name} for each in statement.check.inputs if each.secret]
    ssl = {
        name: secret_data(text)
        for name, text in (("certificate", given.ssl_certificate), ("key", given.ssl_key))
        if text is not None
    }
    most = size(given.max_body_size, "MAX BODY SIZE", statement.with_options, statement.kind_span)
    if most > _MOST_BODY:
        raise SinkqlError(
            "SQ2845",
            "MAX BODY SIZE is more than 256MB",
            option_span(statement.with_options, "MAX BODY SIZE", statement.kind_span),
            hint="Have senders split what they send.",
        )
    url = url_of(planning.catalog.locate(statement.name), where)
    return {**where, "url": url, "ssl": ssl or None, "check": check, "secrets": secrets or None, "max_body": most}


def _keeping(
    statement: ast.CreateSource, given: SourceOptions, facts: logical.Facts, planning: PlanningContext
) -> LogRetention:
    written, span = statement.with_options, statement.kind_span
    most = size(given.max_log_size, "MAX LOG SIZE", written, span)
    log = log_path(given.log, given.aws_connection, written, span, planning)
    return LogRetention(keep="log", max_log=most, log=log or log_elsewhere(statement, facts, planning))


def _tell(statement: ast.CreateSource, full_name: str, where: Mapping[str, Any], planning: PlanningContext) -> None:
    """Say where requests go, and warn where anybody may send them."""
    planning.notice(
        Notice(
            "SQ2846",
            f"requests go to {url_of(full_name, where)} while a sink of the source runs",
            statement.name.span,
        )
    )
    if statement.check is None and not ipaddress.ip_address(where["address"]).is_loopback:
        planning.notice(
            Notice(
                "SQ2847",
                "all requests are let in, from whoever reaches the port",
                statement.name.span,
                hint="Add CHECK (WITH (HEADERS, SECRET name) constant_time_eq(headers->'authorization', name)).",
            )
        )
