"""Read a sink's table in the sink's types, and write lines that read it with DuckDB and PyIceberg."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy.engine import make_url

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.iceberg.plan.options import CatalogConnection, IcebergSink
from sinkql.connectors.iceberg.storage import CATALOG_NAME, job_stores, local_folder
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.rest_catalog import rest_url, token_access
from sinkql.errors import SinkqlError, UnfitTableError
from sinkql.keywords import qualified_name
from sinkql.logical import Type
from sinkql.logical.nested import entries
from sinkql.logical.range import EMPTY, SUBTYPES, write_range


def rows(
    table: Table | None, columns: tuple[physical.Column, ...], scan: Callable[[Table, tuple[str, ...]], pa.Table]
) -> pa.Table:
    """Return the rows that `scan` reads from a table, in the columns' declared types; no rows without a table.

    Columns that the table lacks are NULL. Raises SQ3504 if the table has other columns instead.
    """
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    if table is None:
        return schema.empty_table()
    present = {field.name for field in table.schema().fields}
    if present - set(schema.names) and set(schema.names) - present:
        raise UnfitTableError(
            "SQ3504",
            f'table "{qualified_name(*table.name())}" has other columns than the sink writes',
            detail=f"missing: {', '.join(name for name in schema.names if name not in present)}",
            hint="Run the sink, which renames the columns if the view has new names for them.",
        )
    read = scan(table, tuple(name for name in schema.names if name in present))
    arrays = [
        _convert_column(read.column(column.name), column)
        if column.name in present
        else pa.chunked_array([pa.nulls(read.num_rows, arrow_type(column.type))])
        for column in columns
    ]
    return pa.table(arrays, schema=schema)


class _ShapeError(Exception):
    """An array has several dimensions, whose lengths the table does not store."""


def _convert(value: Any, type_: Type) -> Any:
    """Return a nested value of the table in SinkQL's form: the table stores arrays and ranges as structs."""
    if value is None:
        return None
    if type_.name == "record":
        return tuple(_convert(value[field.name], field.type) for field in type_.fields)
    if type_.name == "map":
        return entries((key, _convert(item, type_.value)) for key, item in value)
    if type_.name in SUBTYPES:
        return _range_text(value)
    if type_.element is None:
        return value
    if type_.name != "array":
        return [_convert(item, type_.element) for item in value]
    if value["dimensions"] > 1:
        raise _ShapeError
    return [_convert(item, type_.element) for item in value["items"]]


def _range_text(value: Mapping[str, Any]) -> str:
    """Return the text of a range from its struct in the table."""
    if value["empty"]:
        return EMPTY
    flags = {"lower_in": bool(value["lower_inclusive"]), "upper_in": bool(value["upper_inclusive"])}
    return write_range(value["lower"], value["upper"], **flags)


def _convert_column(column: pa.ChunkedArray, wanted: physical.Column) -> pa.ChunkedArray:
    """Return a column in its declared type; a uuid stored as bytes becomes its text.

    Raises SQ3513 for an array with several dimensions.
    """
    declared, type_ = wanted.type, arrow_type(wanted.type)
    if declared.nested or declared.name in SUBTYPES:
        try:
            return pa.chunked_array([pa.array([_convert(value, declared) for value in column.to_pylist()], type_)])
        except _ShapeError:
            raise SinkqlError(
                "SQ3513",
                f'the table does not store the dimensions of the arrays in column "{wanted.name}"',
                hint="Select from the relation that the sink reads.",
            ) from None
    if pa.types.is_string(type_) and (pa.types.is_fixed_size_binary(column.type) or column.type == pa.uuid()):
        texts = [None if value is None else str(_uuid(value)) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, type_)])
    return column.cast(type_)


def _uuid(value: bytes | uuid.UUID) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)


def count_rows(write: physical.Write, context: Context) -> int | None:
    """Return the table's number of rows according to its present snapshot; None if either does not exist."""
    table = load(write, context)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None or snapshot.summary is None:
        return None if table is None else 0
    total, deleted = snapshot.summary["total-records"], snapshot.summary["total-position-deletes"]
    return None if total is None else int(total) - int(deleted or 0)


def lines(write: physical.Write, context: Context) -> list[str]:
    """Return lines that read the table: SQL for DuckDB and Python for PyIceberg; none without a table.

    The lines have no secrets. They read credentials from environment variables, which a first line names.
    """
    catalog = CatalogConnection.from_plan(write.connection.options)
    if catalog.catalog_type in ("memory", "hive"):
        return []  # PyIceberg's client does not support Hive 4's metastores, and DuckDB has none
    if write.store is not None and write.store.kind != "AWS":
        return []  # readers cannot renew tokens
    table = load(write, context)
    if table is None:
        return []
    match catalog.catalog_type:
        case "sql":
            duckdb, properties = _read_sql_catalog(table)
        case "rest" if catalog.gcp_connection is not None:
            duckdb, properties = None, _biglake_properties(table)
        case "rest":
            duckdb, properties = _read_rest_catalog(table, catalog, write, context)
        case _:
            duckdb, properties = _read_aws_catalog(table, catalog, write, context)
    load_text = f"load_catalog({CATALOG_NAME!r}, {', '.join(_arguments(properties))})"
    path = _identifier(IcebergSink.from_plan(write.options))
    name = path if "." in path[-1] else ".".join(path)  # PyIceberg splits a text at its dots
    ref = f".use_ref({branch!r})" if (branch := _present_branch(table)) is not None else ""
    scan_text = f".load_table({name!r}).scan(limit=10){ref}.to_arrow().to_pylist())"
    variables = [part for text in properties.values() for part in text if isinstance(part, _Variable)]
    named = variables + [part.variable for text in properties.values() for part in text if isinstance(part, _Code)]
    imports = ["from pyiceberg.catalog import load_catalog"]
    imports[:0] = ["import os"] if variables else []
    imports[:0] = ["from urllib.parse import quote"] if any(variable.in_url for variable in variables) else []
    return [
        *([f"Set first: {', '.join(variable.name for variable in named)} in the environment"] if named else []),
        *([f"DuckDB:    {duckdb}"] if duckdb else []),
        f"PyIceberg: {'; '.join(imports)}; print({load_text}{scan_text}",
    ]


_ID, _SECRET, _PASSWORD = "ICEBERG_CLIENT_ID", "ICEBERG_CLIENT_SECRET", "CATALOG_PASSWORD"
_KEYS = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}


@dataclass(frozen=True, slots=True)
class _Variable:
    """An environment variable with a credential, which is quoted in a URL."""

    name: str
    in_url: bool = False


@dataclass(frozen=True, slots=True)
class _Code:
    """A Python expression as an argument; the library reads its credential from the variable."""

    code: str
    variable: _Variable


_Text = tuple[str | _Variable | _Code, ...]
"""A text in parts; some of them are environment variables."""

_GOOGLE = _Code(
    "{'type': 'google', 'google': {'scopes': ['https://www.googleapis.com/auth/cloud-platform']}}",
    _Variable("GOOGLE_APPLICATION_CREDENTIALS"),
)


def _read_sql_catalog(table: Table) -> tuple[str | None, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of a catalog of type sql."""
    folder = local_folder(table.location())
    url = make_url(table.catalog.properties["uri"]).difference_update_query(["timeout"])
    if url.get_backend_name() == "sqlite" and url.database:
        url = url.set(database=str(Path(url.database).resolve()))
    uri: _Text = (url.render_as_string(hide_password=True),)
    if url.password is not None:
        before, _, after = url.set(password=_PASSWORD).render_as_string(hide_password=False).partition(_PASSWORD)
        uri = (before, _Variable(_PASSWORD, in_url=True), after)
    if folder is None:
        return None, {"type": ("sql",), "uri": uri}
    snapshot = f", snapshot_from_id = {table.metadata.current_snapshot_id}" if _present_branch(table) else ""
    duckdb = f"SELECT * FROM iceberg_scan({_quote(str(folder))}{snapshot}) LIMIT 10;"
    return duckdb, {"type": ("sql",), "uri": uri}


def _biglake_properties(table: Table) -> dict[str, _Text]:
    """Return PyIceberg's properties for a table of BigLake; readers have a key of Google."""
    values, names = table.catalog.properties, ("uri", "warehouse", "header.x-goog-user-project")
    return {"type": ("rest",), **{name: (values[name],) for name in names if name in values}, "auth": (_GOOGLE,)}


def _read_rest_catalog(
    table: Table, catalog: CatalogConnection, write: physical.Write, context: Context
) -> tuple[str, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of a REST catalog."""
    url, warehouse = rest_url(catalog), catalog.warehouse or ""
    properties: dict[str, _Text] = {"type": ("rest",), "uri": (url,)}
    statements, attached = [], f"TYPE iceberg, ENDPOINT {_quote(url)}"
    if warehouse:
        properties["warehouse"] = (warehouse,)
    if catalog.credential is not None:
        token_url, scope = token_access(catalog)
        properties |= {
            "credential": (_Variable(_ID), ":", _Variable(_SECRET)),
            "scope": (scope,),
            "oauth2-server-uri": (token_url,),
        }
        statements.append(
            f"CREATE OR REPLACE SECRET catalog (TYPE iceberg, CLIENT_ID getenv('{_ID}'), "
            f"CLIENT_SECRET getenv('{_SECRET}'), OAUTH2_SERVER_URI {_quote(token_url)}, OAUTH2_SCOPE {_quote(scope)});"
        )
        attached += ", SECRET catalog"
    else:
        attached += ", AUTHORIZATION_TYPE 'none'"
    if write.store is not None:
        store = context.store(write.store).properties()
        properties |= _storage_properties(store)
        statements.append(f"CREATE OR REPLACE SECRET storage (TYPE s3, {', '.join(_secret_options(store))});")
        attached += ", ACCESS_DELEGATION_MODE 'none'"
    statements.append(f"ATTACH {_quote(warehouse)} AS lake ({attached});")
    statements.append(_query(table, write))
    return " ".join(statements), properties


def _read_aws_catalog(
    table: Table, catalog: CatalogConnection, write: physical.Write, context: Context
) -> tuple[str | None, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of S3 Tables or Glue; readers have other keys."""
    stores, values = job_stores(write, context), table.catalog.properties
    files = stores.for_files().properties()
    storage = _storage_properties(files)
    if catalog.catalog_type == "glue":
        return None, {
            "type": ("glue",),
            "glue.region": (values["s3.region"],),
            **({"glue.endpoint": (catalog.url,)} if catalog.url else {}),
            **storage,
        }
    names = ("uri", "warehouse", "rest.sigv4-enabled", "rest.signing-name", "rest.signing-region")
    properties = {"type": ("rest",), **{name: (values[name],) for name in names}, **storage}
    if not values["warehouse"].startswith("arn:"):
        return None, properties
    return (
        f"CREATE OR REPLACE SECRET storage (TYPE s3, {', '.join(_secret_options(files))}); "
        f"ATTACH {_quote(values['warehouse'])} AS lake (TYPE iceberg, ENDPOINT_TYPE s3_tables, SECRET storage); "
        f"{_query(table, write)}"
    ), properties


def _query(table: Table, write: physical.Write) -> str:
    """Return DuckDB's query of a table in an attached catalog; a branch is named by the id of its snapshot."""
    sink = IcebergSink.from_plan(write.options)
    schema, name = (part.replace('"', '""') for part in (sink.namespace, sink.table))
    version = f" AT (VERSION => {table.metadata.current_snapshot_id})" if _present_branch(table) else ""
    return f'SELECT * FROM lake."{schema}"."{name}"{version} LIMIT 10;'


def _present_branch(table: Table) -> str | None:
    """Return the branch that a sink commits to; None until the table has it."""
    return table.branch if isinstance(table, BranchTable) and table.branch in table.whole.metadata.refs else None


def _storage_properties(store: Mapping[str, str]) -> dict[str, _Text]:
    """Return PyIceberg's properties of an S3 store, with variables instead of keys."""
    return {name: (_Variable(_KEYS[name]),) if name in _KEYS else (value,) for name, value in store.items()}


def _secret_options(store: Mapping[str, str]) -> Iterator[str]:
    """Yield the options of DuckDB's secret for pyiceberg's properties of an S3 store."""
    names = {"s3.access-key-id": "KEY_ID", "s3.secret-access-key": "SECRET", "s3.session-token": "SESSION_TOKEN"}
    for name, option in names.items():
        if name in store:
            yield f"{option} getenv('{_KEYS[name]}')"
    if "s3.region" in store:
        yield f"REGION {_quote(store['s3.region'])}"
    if "s3.endpoint" in store:
        scheme, _, host = store["s3.endpoint"].rpartition("://")
        yield f"ENDPOINT {_quote(host.rstrip('/'))}, URL_STYLE 'path', USE_SSL {str(scheme != 'http').lower()}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _arguments(properties: Mapping[str, _Text]) -> Iterator[str]:
    """Yield properties as Python arguments."""
    for name, text in properties.items():
        value = " + ".join(_python(part) for part in text if part)
        yield f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"


def _python(part: str | _Variable | _Code) -> str:
    if isinstance(part, str):
        return repr(part)
    if isinstance(part, _Code):
        return part.code
    value = f"os.environ[{part.name!r}]"
    return f"quote({value}, safe='')" if part.in_url else value


def _identifier(sink: IcebergSink) -> tuple[str, ...]:
    return (*sink.namespace.split("."), sink.table)


def load(write: physical.Write, context: Context) -> Table | None:
    """Return the present table of a sink, with its branch as main; None if the table does not exist."""
    connection, sink = write.connection, IcebergSink.from_plan(write.options)
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    try:
        table = catalog.load_table(_identifier(sink))
    except NoSuchTableError:
        return None
    return table if sink.branch is None else BranchTable(table, sink.branch)
