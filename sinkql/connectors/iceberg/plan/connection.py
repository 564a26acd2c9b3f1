"""Plan CREATE CONNECTION … TO ICEBERG CATALOG: check the options that its catalog type allows.

`options.CatalogConnection` describes the planned options; options that the statement does not set are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from sinkql import ast, logical
from sinkql.connector_api.options import bind, missing_option_error, option_field, option_span, secret_data
from sinkql.connector_api.planning import PlanningContext
from sinkql.errors import Notice, SinkqlError, Span, nearest

SUPPORTED = ("glue", "hive", "memory", "rest", "s3tablesrest", "sql")
TYPES = ("glue", "hadoop", "hive", "memory", "rest", "s3tablesrest", "sql")
OWNER = "iceberg catalog connections"
PLACE = ("CATALOG TYPE", "URL", "WAREHOUSE")
"""Options that determine the tables of the catalog."""
_ALLOWED = {
    "sql": ("URL", "WAREHOUSE", "CREDENTIAL"),
    "memory": ("WAREHOUSE",),
    "rest": (
        "URL",
        "WAREHOUSE",
        "CREDENTIAL",
        "SCOPE",
        "OAUTH2 SERVER URL",
        "STORAGE PROVIDER",
        "ACCESS DELEGATION",
        "GCP CONNECTION",
    ),
    "s3tablesrest": ("URL", "WAREHOUSE", "AWS CONNECTION"),
    "glue": ("URL", "WAREHOUSE", "AWS CONNECTION"),
    "hive": ("URL", "WAREHOUSE"),
}
_INSTEAD = {
    "hadoop": "In a folder without a catalog, commits of concurrent writers can be lost.",
}
_AWS_TYPES = ("glue", "s3tablesrest")
BIGLAKE = "https://biglake.googleapis.com/iceberg/v1/restcatalog"
_HERE = ("localhost", "127.0.0.1", "::1")
_OF_TOKENS = ("CREDENTIAL", "SCOPE", "OAUTH2 SERVER URL")


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The options of all catalog types; `_ALLOWED` lists the options of each type."""

    catalog_type: str = option_field("the type of the catalog", choices=SUPPORTED)
    url: str | None = option_field(
        "the address of the catalog; for `sql` a database, by default `catalog.db` in the warehouse",
        default=None,
    )
    warehouse: str | None = option_field(
        "a folder (`sql`), name (`rest`), table bucket (`s3tablesrest`), or location of new databases (`glue`, `hive`)",
        default=None,
        local_path=True,
    )
    credential: logical.SecretText | None = option_field(
        "`client-id:client-secret` of OAuth2 (`rest`), or `user:password` of the database (`sql`)",
        default=None,
    )
    scope: str | None = option_field("the OAuth2 scope of `rest`; `catalog` by default", default=None)
    oauth2_server_url: str | None = option_field("the token server of `rest`; the catalog by default", default=None)
    storage_provider: Literal["s3", "gcs", "adls"] | None = option_field(
        "the store of the files of `rest`", default=None, choices=("s3", "gcs")
    )
    access_delegation: Literal["vended-credentials"] | None = option_field(
        "the catalog sends keys for a table's files (`rest`)", default=None
    )
    aws_connection: ast.Name | None = option_field(
        "the AWS connection for requests and files; required for `s3tablesrest` and `glue`",
        default=None,
    )
    gcp_connection: ast.Name | None = option_field(
        "the GCP connection for BigLake's requests and files (`rest`)", default=None
    )


@dataclass(frozen=True, slots=True)
class _StatementCheck:
    """A statement with its bound options during the checks; `type` is the catalog type in lower case."""

    statement: ast.CreateConnection
    options: CatalogOptions
    type: str
    planning: PlanningContext

    def span(self, name: str) -> Span:
        return option_span(self.statement.options, name, self.statement.kind_span)

    def error(self, code: str, message: str, option: str, hint: str) -> SinkqlError:
        return SinkqlError(code, message, self.span(option), hint=hint)

    def missing(self, name: str, example: str) -> SinkqlError:
        owner = f"iceberg catalog connections of type {self.type}"
        return missing_option_error(name, owner=owner, span=self.statement.kind_span, example=example)


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the options of the connection's catalog type; raises SQ21xx, SQ2519 to SQ2535, SQ2913 and SQ2988."""
    _check_type(statement)
    options = bind(statement.options, CatalogOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    checked = _StatementCheck(statement, options, options.catalog_type.lower(), planning)
    if checked.type == "rest":
        _check_rest(checked)
    _check_allowed(checked)
    if checked.type in _AWS_TYPES:
        _check_aws(checked)
    if checked.type == "hive" and options.url is None:
        raise checked.missing("URL", "'thrift://localhost:9083'")
    return _plan_options(checked, url=_url(checked), warehouse=_warehouse(checked))


def _check_type(statement: ast.CreateConnection) -> None:
    """Refuse an unsupported catalog type before the checks of its options."""
    written = next((option for option in statement.options if option.name == "CATALOG TYPE"), None)
    if written is None:
        hint = "Add CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'."
        raise SinkqlError("SQ2519", f"{OWNER} require the option CATALOG TYPE", statement.kind_span, hint=hint)
    match written.value:
        case ast.Text(value=type_, span=span) | ast.Word(name=ast.Name(parts=(ast.Ident(value=type_),)), span=span):
            type_name = type_.lower()
        case _:
            return  # the check of all options refuses a value that is no string
    if type_name in SUPPORTED:
        return
    if type_name in TYPES:
        raise SinkqlError(
            "SQ2913",
            f"catalog type {type_name} is not supported yet",
            span,
            detail=_INSTEAD[type_name],
            hint="Use CATALOG TYPE = 'sql', 'rest', 's3tablesrest', 'glue' or 'hive'.",
        )
    near = nearest(type_name, SUPPORTED)
    raise SinkqlError(
        "SQ2520",
        f'catalog type "{type_}" does not exist',
        span,
        hint=f"Did you mean '{near}'?" if near else f"The types are {', '.join(SUPPORTED)}.",
    )


def _check_rest(checked: _StatementCheck) -> None:
    options = checked.options
    if options.url is None:
        raise checked.missing("URL", "'https://…'")
    if options.storage_provider == "adls":
        message = "storage provider adls is not supported yet"
        raise checked.error("SQ2988", message, "STORAGE PROVIDER", "Use a catalog whose files are in S3 or GCS.")
    if options.gcp_connection is not None:
        _check_google(checked, options.url)
    elif options.credential is None:
        checked.planning.notice(
            Notice(
                "SQ2530",
                "the catalog is used without credentials",
                checked.statement.kind_span,
                hint="Add GCP CONNECTION = name."
                if options.url.rstrip("/") == BIGLAKE
                else "Add CREDENTIAL = SECRET name, unless the catalog needs none.",
            )
        )


def _check_google(checked: _StatementCheck, url: str) -> None:
    """Refuse other credentials than Google's (SQ2533), and another server for Google's (SQ2534)."""
    names = {option.name for option in checked.statement.options}
    other = next((name for name in _OF_TOKENS if name in names), None)
    if other is not None:
        message = f"GCP CONNECTION cannot be combined with {other}"
        raise checked.error("SQ2533", message, other, f"Leave out {other} or GCP CONNECTION.")
    if url.rstrip("/") != BIGLAKE and (urlsplit(url).hostname if _web_address(url) else None) not in _HERE:
        raise checked.error(
            "SQ2534",
            "GCP CONNECTION is only for the BigLake catalog",
            "URL",
            f"Write URL = '{BIGLAKE}', or use CREDENTIAL instead of GCP CONNECTION.",
        )


def _check_aws(checked: _StatementCheck) -> None:
    if checked.type == "s3tablesrest":
        if checked.options.url is None:
            raise checked.missing("URL", "'https://s3tables.us-east-1.amazonaws.com'")
        if not checked.options.warehouse:
            raise checked.missing("WAREHOUSE", "'my-table-bucket'")
    if checked.options.aws_connection is None:
        raise checked.missing("AWS CONNECTION", "name")


def _check_allowed(checked: _StatementCheck) -> None:
    allowed = ("CATALOG TYPE", *_ALLOWED[checked.type])
    for option in checked.statement.options:
        if option.name not in allowed:
            raise SinkqlError(
                "SQ2528",
                f"catalog type {checked.type} has no option {option.name}",
                option.name_span,
                hint="Use CATALOG TYPE = 's3tablesrest'; for files in S3 add USING AWS CONNECTION to the sink."
                if (checked.type, option.name) == ("rest", "AWS CONNECTION")
                else f"Its options are {', '.join(allowed)}.",
            )


def _url(checked: _StatementCheck) -> str | None:
    url = checked.options.url
    if checked.type == "sql":
        if (url is None or url.startswith("sqlite")) and checked.options.credential is not None:
            raise checked.error(
                "SQ2532",
                "SQLite databases have no users",
                "CREDENTIAL",
                "Leave out CREDENTIAL, or set URL to a database with users.",
            )
        if url is None or re.match(r"[a-z][a-z0-9+]*://", url):
            return url
        example = "'sqlite:///lake/catalog.db'"
    elif checked.type == "hive":
        if url is None or re.fullmatch(r"thrift://[^/:?#@]+:\d{1,5}", url):
            return url
        example = "'thrift://host:9083'"
    else:
        if url is None or _web_address(url):
            return url
        example = "'https://host/path'"
    raise checked.error("SQ2527", f'invalid URL "{url}"', "URL", f"Write URL = {example}.")


def _web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _warehouse(checked: _StatementCheck) -> str | None:
    warehouse = checked.options.warehouse
    places = {"glue": r"s3a?://[^/]+", "hive": r"s3a?://[^/]+|file:///"}.get(checked.type, "")
    if warehouse is not None and not re.match(places, warehouse):
        message = f'warehouse "{warehouse}" is not a location in S3'
        raise checked.error("SQ2531", message, "WAREHOUSE", "Write WAREHOUSE = 's3://bucket/path'.")
    if checked.type == "s3tablesrest":
        _check_bucket(checked, warehouse or "")
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
            "Write WAREHOUSE = 'lake'; tables in S3 need CATALOG TYPE = 'rest', 's3tablesrest', 'glue' or 'hive'.",
        )
    return folder


def _check_bucket(checked: _StatementCheck, warehouse: str) -> None:
    if re.fullmatch(r"(arn:aws[a-z-]*:s3tables:[a-z0-9-]+:\d{12}:bucket/)?[a-z0-9_-]+", warehouse) is None:
        raise checked.error(
            "SQ2531",
            f'warehouse "{warehouse}" is not a table bucket',
            "WAREHOUSE",
            "Write its name, or WAREHOUSE = 'arn:aws:s3tables:us-east-1:123456789012:bucket/name'.",
        )


def _plan_options(checked: _StatementCheck, *, url: str | None, warehouse: str | None) -> dict[str, Any]:
    options = checked.options
    if checked.type == "sql" and url is None:
        url = f"sqlite:///{warehouse}/catalog.db"
    planned: dict[str, Any] = {"catalog_type": checked.type, "url": url, "warehouse": warehouse}
    if options.credential is not None:
        planned["credential"] = secret_data(options.credential)
    for name in ("scope", "oauth2_server_url", "storage_provider", "access_delegation"):
        planned[name] = getattr(options, name)
    for option, kind, other_connection in (
        ("aws_connection", "AWS", options.aws_connection),
        ("gcp_connection", "GCP", options.gcp_connection),
    ):
        if other_connection is not None:
            planned[option] = {"connection": checked.planning.connection(other_connection, kind).name}
    return {name: value for name, value in planned.items() if value is not None}
