"""CREATE CONNECTION … TO ICEBERG CATALOG → the options of its catalog type, each mistake with an error of its own.

The planned options: `catalog_type`, `url`, `warehouse`, `credential` (a secret text), `scope`, `oauth2_server_url`,
`access_delegation`, `storage_provider`, `aws_connection` (full name); those that are not given are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from sinkql import ast, logical
from sinkql.connector.options import bind, missing, option_span
from sinkql.connector.plan import Planning
from sinkql.connector.secret import secret_data
from sinkql.errors import Notice, SinkqlError, Span, nearest

SUPPORTED = ("memory", "rest", "sql")
TYPES = ("glue", "hadoop", "hive", "memory", "rest", "s3tablesrest", "sql")
OWNER = "iceberg catalog connections"
PLACE = ("CATALOG TYPE", "URL", "WAREHOUSE")
"""Options that say which tables there are."""
_REST_ONLY = ("OAUTH2 SERVER URL", "ACCESS DELEGATION", "STORAGE PROVIDER")
_BIGLAKE = "https://biglake.googleapis.com/iceberg/v1/restcatalog"
_ALLOWED = {
    "sql": ("URL", "WAREHOUSE"),
    "memory": ("WAREHOUSE",),
    "rest": ("URL", "WAREHOUSE", "CREDENTIAL", "SCOPE", "GCP CONNECTION", *_REST_ONLY),
    "s3tablesrest": ("URL", "WAREHOUSE", "AWS CONNECTION"),
    "glue": ("URL", "WAREHOUSE", "AWS CONNECTION"),
    "hive": ("URL", "WAREHOUSE", "AWS CONNECTION"),
    "hadoop": ("WAREHOUSE", "AWS CONNECTION"),
}


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The options of all catalog types; which ones a type has, `_ALLOWED` says."""

    catalog_type: str = field(metadata={"choices": tuple(_ALLOWED)})
    url: str | None = None
    warehouse: str | None = None
    credential: logical.SecretText | None = None
    scope: str | None = None
    oauth2_server_url: str | None = None
    access_delegation: Literal["vended-credentials"] | None = None
    storage_provider: Literal["s3", "gcs", "adls"] | None = None
    aws_connection: ast.Name | None = None
    gcp_connection: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    """Hold a statement with its bound options while they are checked; `type` is the catalog's, in lower case."""

    statement: ast.CreateConnection
    options: CatalogOptions
    type: str
    planning: Planning

    def span(self, name: str) -> Span:
        return option_span(self.statement.options, name, self.statement.kind_span)

    def error(self, code: str, message: str, option: str, hint: str) -> SinkqlError:
        return SinkqlError(code, message, self.span(option), hint=hint)

    def missing(self, name: str, example: str) -> SinkqlError:
        owner = f"iceberg catalog connections of type {self.type}"
        return missing(name, owner=owner, span=self.statement.kind_span, example=example)


def plan_connection(statement: ast.CreateConnection, planning: Planning) -> Mapping[str, Any]:
    """Return the options of the connection's catalog type; raises SQ21xx and SQ2520 to SQ2531."""
    if not any(option.name == "CATALOG TYPE" for option in statement.options):
        raise SinkqlError(
            "SQ2519",
            f"{OWNER} need the option CATALOG TYPE",
            statement.kind_span,
            hint="Add CATALOG TYPE = 'sql', or 'rest'.",
        )
    options = bind(statement.options, CatalogOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    checked = _Checked(statement, options, options.catalog_type.lower(), planning)
    _check_type(checked)
    match checked.type:
        case "rest":
            _check_rest(checked)
        case "s3tablesrest":
            _check_s3_tables(checked)
        case _:
            pass
    _check_allowed(checked)
    return _planned(checked, url=_url(checked), warehouse=_warehouse(checked))


def _check_type(checked: _Checked) -> None:
    if checked.type in TYPES:
        return
    near = nearest(checked.type, TYPES)
    written = next(option for option in checked.statement.options if option.name == "CATALOG TYPE")
    raise SinkqlError(
        "SQ2520",
        f'there is no catalog type "{checked.options.catalog_type}"',
        written.value.span if written.value is not None else written.span,
        hint=f"Did you mean '{near}'?" if near else f"The types are {', '.join(TYPES)}.",
    )


def _check_rest(checked: _Checked) -> None:
    options = checked.options
    if options.aws_connection is not None:
        raise checked.error(
            "SQ2525",
            "catalog type rest takes no AWS CONNECTION",
            "AWS CONNECTION",
            "Write CATALOG TYPE = 's3tablesrest' for S3 Tables; a sink gets to S3 by USING AWS CONNECTION.",
        )
    if options.credential is not None and options.gcp_connection is not None:
        raise checked.error(
            "SQ2526",
            "catalog type rest takes CREDENTIAL or GCP CONNECTION, not both",
            "GCP CONNECTION",
            "Leave out one of them.",
        )
    if options.url is None:
        raise checked.missing("URL", "'https://…'")
    if options.gcp_connection is not None and options.url.rstrip("/") != _BIGLAKE:
        raise checked.error(
            "SQ2529",
            f"GCP CONNECTION goes only with URL = '{_BIGLAKE}'",
            "GCP CONNECTION",
            "Write CREDENTIAL = SECRET name for another catalog.",
        )
    if options.credential is None and options.gcp_connection is None:
        checked.planning.notice(
            Notice(
                "SQ2530",
                "the catalog is used without credentials",
                checked.statement.kind_span,
                hint="Add CREDENTIAL = SECRET name, unless it asks for none.",
            )
        )


def _check_s3_tables(checked: _Checked) -> None:
    options = checked.options
    if options.gcp_connection is not None:
        raise checked.error(
            "SQ2523",
            "catalog type s3tablesrest takes no GCP CONNECTION",
            "GCP CONNECTION",
            "Write AWS CONNECTION = name.",
        )
    for name in _REST_ONLY:
        if any(option.name == name for option in checked.statement.options):
            raise checked.error(
                "SQ2524", f"catalog type s3tablesrest takes no {name}", name, f"Leave out {name}: it is for type rest."
            )
    if options.url is None:
        raise checked.missing("URL", "'https://s3tables.us-east-1.amazonaws.com'")
    if options.warehouse is None:
        raise SinkqlError(
            "SQ2521",
            "catalog type s3tablesrest needs a WAREHOUSE",
            checked.statement.kind_span,
            hint="Add WAREHOUSE = 'my-table-bucket', or the bucket's ARN.",
        )
    if options.aws_connection is None:
        raise SinkqlError(
            "SQ2522",
            "catalog type s3tablesrest needs an AWS CONNECTION",
            checked.statement.kind_span,
            hint="Add AWS CONNECTION = name.",
        )


def _check_allowed(checked: _Checked) -> None:
    allowed = ("CATALOG TYPE", *_ALLOWED[checked.type])
    for option in checked.statement.options:
        if option.name not in allowed:
            raise SinkqlError(
                "SQ2528",
                f"catalog type {checked.type} takes no {option.name}",
                option.name_span,
                hint=f"Its options are {', '.join(allowed)}.",
            )


def _url(checked: _Checked) -> str | None:
    url = checked.options.url
    if url is None:
        return None
    if checked.type == "sql":
        if re.match(r"[a-z][a-z0-9+]*://", url):
            return url
        example = "'sqlite:///lake/catalog.db'"
    else:
        if _web_address(url):
            return url
        example = "'https://host/path'"
    raise checked.error("SQ2527", f'"{url}" is not a URL', "URL", f"Write URL = {example}.")


def _web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https", "thrift") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _warehouse(checked: _Checked) -> str | None:
    warehouse = checked.options.warehouse
    if checked.type != "sql":
        return warehouse
    if warehouse is None:
        raise checked.missing("WAREHOUSE", "'lake'")
    folder = warehouse.removeprefix("file://")
    if not folder or "://" in folder:
        raise checked.error(
            "SQ2531",
            f'warehouse "{warehouse}" is not a local folder',
            "WAREHOUSE",
            "Write WAREHOUSE = 'lake'; tables in S3 need CATALOG TYPE = 'rest'.",
        )
    return folder


def _planned(checked: _Checked, *, url: str | None, warehouse: str | None) -> dict[str, Any]:
    options, planning = checked.options, checked.planning
    if checked.type == "sql" and url is None:
        url = f"sqlite:///{warehouse}/catalog.db"
    planned: dict[str, Any] = {"catalog_type": checked.type, "url": url, "warehouse": warehouse}
    if options.credential is not None:
        planned["credential"] = secret_data(options.credential)
    for name in ("scope", "oauth2_server_url", "access_delegation", "storage_provider"):
        planned[name] = getattr(options, name)
    if options.aws_connection is not None:
        planned["aws_connection"] = planning.connection(options.aws_connection, "AWS").name
    if options.gcp_connection is not None:
        planned["gcp_connection"] = planning.connection(options.gcp_connection, "GCP").name
    return {name: value for name, value in planned.items() if value is not None}


def not_supported(connection: logical.Connection, *, span: Span | None) -> SinkqlError:
    """Return the error for a catalog type that can be written down but not used yet."""
    type_ = connection.options["catalog_type"]
    return SinkqlError(
        "SQ2913", f"catalog type {type_} is not supported yet", span, hint="Use CATALOG TYPE = 'sql' or 'rest'."
    )
