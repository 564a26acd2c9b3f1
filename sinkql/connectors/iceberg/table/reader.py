"""A sink's table → lines to read it with in DuckDB and PyIceberg, and its rows in the sink's types."""

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
from sinkql.connectors.iceberg.storage import CATALOG_NAME, job_stores, local_folder
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.rest_catalog import token_access
from sinkql.errors import SinkqlError, UnfitTableError
from sinkql.keywords import qualified_name
from sinkql.logical import Type
from sinkql.logical.nested import entries
from sinkql.logical.range import EMPTY, SUBTYPES, write_range


def rows(
    table: Table | None, columns: tuple[physical.Column, ...], scan: Callable[[Table, tuple[str, ...]], pa.Table]
) -> pa.Table:
    """Return what `scan` gives of a table in the columns' declared types; no rows without a table.

    Columns that the table has not are NULL. Raises SQ3504 where it has others in their place.
    """
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    if table is None:
        return schema.empty_table()
    known = {field.name for field in table.schema().fields}
    if known - set(schema.names) and set(schema.names) - known:
        raise UnfitTableError(
            "SQ3504",
            f'table "{qualified_name(*table.name())}" has other columns than the sink writes',
            detail=f"missing: {', '.join(name for name in schema.names if name not in known)}",
            hint="Run the sink, which gives them other names if the view has changed so.",
        )
    found = scan(table, tuple(name for name in schema.names if name in known))
    arrays = [
        _declared(found.column(column.name), column)
        if column.name in known
        else pa.chunked_array([pa.nulls(found.num_rows, arrow_type(column.type))])
        for column in columns
    ]
    return pa.table(arrays, schema=schema)


class _ShapeError(Exception):
    """An array has several dimensions, whose lengths no table has."""


def _own(value: Any, type_: Type) -> Any:
    """Return a nested value as SinkQL has it: arrays and ranges are structs in the table."""
    if value is None:
        return None
    if type_.name == "record":
        return tuple(_own(value[each.name], each.type) for each in type_.fields)
    if type_.name == "map":
        return entries((key, _own(each, type_.value)) for key, each in value)
    if type_.name in SUBTYPES:
        return _range_text(value)
    if type_.element is None:
        return value
    if type_.name != "array":
        return [_own(each, type_.element) for each in value]
    if value["dimensions"] > 1:
        raise _ShapeError
    return [_own(each, type_.element) for each in value["items"]]


def _range_text(value: Mapping[str, Any]) -> str:
    """Return the text of a range that a table has."""
    if value["empty"]:
        return EMPTY
    flags = {"lower_in": bool(value["lower_inclusive"]), "upper_in": bool(value["upper_inclusive"])}
    return write_range(value["lower"], value["upper"], **flags)


def _declared(column: pa.ChunkedArray, wanted: physical.Column) -> pa.ChunkedArray:
    """Return a column in its declared type; a uuid that the table keeps as bytes becomes its text.

    Raises SQ3513 for one with an array of several dimensions.
    """
    declared, type_ = wanted.type, arrow_type(wanted.type)
    if declared.nested or declared.name in SUBTYPES:
        try:
            return pa.chunked_array([pa.array([_own(each, declared) for each in column.to_pylist()], type_)])
        except _ShapeError:
            raise SinkqlError(
                "SQ3513",
                f'the table does not say how long the dimensions of the arrays in column "{wanted.name}" are',
                hint="Select from what the sink reads.",
            ) from None
    if pa.types.is_string(type_) and (pa.types.is_fixed_size_binary(column.type) or column.type == pa.uuid()):
        texts = [None if value is None else str(_uuid(value)) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, type_)])
    return column.cast(type_)


def _uuid(value: bytes | uuid.UUID) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)


def count_rows(write: physical.Write, context: Context) -> int | None:
    """Return how many rows the table has by its present snapshot, None without a table or without that number."""
    table = load(write, context)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None or snapshot.summary is None:
        return None if table is None else 0
    total, deleted = snapshot.summary["total-records"], snapshot.summary["total-position-deletes"]
    return None if total is None else int(total) - int(deleted or 0)


def lines(write: physical.Write, context: Context) -> list[str]:
    """Return how to read the table: a line of SQL for DuckDB and one of Python for PyIceberg; none without a table.

    No secret is in them: they take credentials from variables of the environment, which a line before them names.
    """
    if write.connection.options["catalog_type"] in ("memory", "hive"):
        return []  # PyIceberg's own client does not speak to the metastores that are taken here, and DuckDB has none
    if write.store is not None and write.store.kind != "AWS":
        return []  # readers have no place for tokens that end
    table = load(write, context)
    if table is None:
        return []
    match write.connection.options["catalog_type"]:
        case "sql":
            duckdb, properties = _in_database(table)
        case "rest" if "gcp_connection" in write.connection.options:
            duckdb, properties = None, _at_google(table)
        case "rest":
            duckdb, properties = _at_server(table, write, context)
        case _:
            duckdb, properties = _of_aws(table, write, context)
    loaded = f"load_catalog({CATALOG_NAME!r}, {', '.join(_arguments(properties))})"
    path = _identifier(write)
    name = path if "." in path[-1] else ".".join(path)  # PyIceberg parts a text at its dots
    at = f".use_ref({branch!r})" if (branch := _begun(table)) is not None else ""
    python = f".load_table({name!r}).scan(limit=10){at}.to_arrow().to_pylist())"
    places = [part for text in properties.values() for part in text if isinstance(part, _Place)]
    told = places + [part.place for text in properties.values() for part in text if isinstance(part, _Written)]
    imports = ["from pyiceberg.catalog import load_catalog"]
    imports[:0] = ["import os"] if places else []
    imports[:0] = ["from urllib.parse import quote"] if any(each.in_url for each in places) else []
    return [
        *([f"Set first: {', '.join(each.name for each in told)} in the environment"] if told else []),
        *([f"DuckDB:    {duckdb}"] if duckdb else []),
        f"PyIceberg: {'; '.join(imports)}; print({loaded}{python}",
    ]


_ID, _SECRET, _PASSWORD = "ICEBERG_CLIENT_ID", "ICEBERG_CLIENT_SECRET", "CATALOG_PASSWORD"
_KEYS = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A variable of the environment that has a credential; in a URL it is quoted."""

    name: str
    in_url: bool = False


@dataclass(frozen=True, slots=True)
class _Written:
    """An argument that is no text, as Python writes it; it takes its credential from a variable by itself."""

    code: str
    place: _Place


_Text = tuple[str | _Place | _Written, ...]
"""A text in parts, of which some are to be found in the environment."""

_GOOGLE = _Written(
    "{'type': 'google', 'google': {'scopes': ['https://www.googleapis.com/auth/cloud-platform']}}",
    _Place("GOOGLE_APPLICATION_CREDENTIALS"),
)


def _in_database(table: Table) -> tuple[str | None, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of a catalog of type sql."""
    folder = local_folder(table.location())
    url = make_url(table.catalog.properties["uri"]).difference_update_query(["timeout"])
    if url.get_backend_name() == "sqlite" and url.database:
        url = url.set(database=str(Path(url.database).resolve()))
    uri: _Text = (url.render_as_string(hide_password=True),)
    if url.password is not None:
        before, _, after = url.set(password=_PASSWORD).render_as_string(hide_password=False).partition(_PASSWORD)
        uri = (before, _Place(_PASSWORD, in_url=True), after)
    if folder is None:
        return None, {"type": ("sql",), "uri": uri}
    at = f", snapshot_from_id = {table.metadata.current_snapshot_id}" if _begun(table) is not None else ""
    duckdb = f"SELECT * FROM iceberg_scan({_quoted(str(folder))}{at}) LIMIT 10;"
    return duckdb, {"type": ("sql",), "uri": uri}


def _at_google(table: Table) -> dict[str, _Text]:
    """Return PyIceberg's properties for a table of BigLake, whose readers have a key of Google's."""
    known, names = table.catalog.properties, ("uri", "warehouse", "header.x-goog-user-project")
    return {"type": ("rest",), **{name: (known[name],) for name in names if name in known}, "auth": (_GOOGLE,)}


def _at_server(table: Table, write: physical.Write, context: Context) -> tuple[str, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of a REST catalog."""
    options = write.connection.options
    url, warehouse = options["url"].rstrip("/"), options.get("warehouse") or ""
    properties: dict[str, _Text] = {"type": ("rest",), "uri": (url,)}
    statements, attached = [], f"TYPE iceberg, ENDPOINT {_quoted(url)}"
    if warehouse:
        properties["warehouse"] = (warehouse,)
    if "credential" in options:
        tokens, scope = token_access(options)
        properties |= {
            "credential": (_Place(_ID), ":", _Place(_SECRET)),
            "scope": (scope,),
            "oauth2-server-uri": (tokens,),
        }
        statements.append(
            f"CREATE OR REPLACE SECRET catalog (TYPE iceberg, CLIENT_ID getenv('{_ID}'), "
            f"CLIENT_SECRET getenv('{_SECRET}'), OAUTH2_SERVER_URI {_quoted(tokens)}, OAUTH2_SCOPE {_quoted(scope)});"
        )
        attached += ", SECRET catalog"
    else:
        attached += ", AUTHORIZATION_TYPE 'none'"
    if write.store is not None:
        known = context.store(write.store).properties()
        properties |= {name: (_Place(_KEYS[name]),) if name in _KEYS else (value,) for name, value in known.items()}
        statements.append(f"CREATE OR REPLACE SECRET storage (TYPE s3, {', '.join(_storage(known))});")
        attached += ", ACCESS_DELEGATION_MODE 'none'"
    statements.append(f"ATTACH {_quoted(warehouse)} AS lake ({attached});")
    statements.append(_query(table, write))
    return " ".join(statements), properties


def _of_aws(table: Table, write: physical.Write, context: Context) -> tuple[str | None, dict[str, _Text]]:
    """Return DuckDB's SQL and PyIceberg's properties for a table of S3 Tables or Glue, whose readers have own keys."""
    stores, known = job_stores(write, context), table.catalog.properties
    assert stores.files is not None
    files = stores.files.properties()
    storage: dict[str, _Text] = {
        name: (_Place(_KEYS[name]),) if name in _KEYS else (value,) for name, value in files.items()
    }
    if write.connection.options["catalog_type"] == "glue":
        endpoint = write.connection.options.get("url")
        return None, {
            "type": ("glue",),
            "glue.region": (known["s3.region"],),
            **({"glue.endpoint": (endpoint,)} if endpoint else {}),
            **storage,
        }
    names = ("uri", "warehouse", "rest.sigv4-enabled", "rest.signing-name", "rest.signing-region")
    properties = {"type": ("rest",), **{name: (known[name],) for name in names}, **storage}
    if not known["warehouse"].startswith("arn:"):
        return None, properties
    return (
        f"CREATE OR REPLACE SECRET storage (TYPE s3, {', '.join(_storage(files))}); "
        f"ATTACH {_quoted(known['warehouse'])} AS lake (TYPE iceberg, ENDPOINT_TYPE s3_tables, SECRET storage); "
        f"{_query(table, write)}"
    ), properties


def _query(table: Table, write: physical.Write) -> str:
    """Return DuckDB's query of a table of an attached catalog; it knows snapshots by their ids, and no branches."""
    schema, name = (part.replace('"', '""') for part in (write.options["namespace"], write.options["table"]))
    at = f" AT (VERSION => {table.metadata.current_snapshot_id})" if _begun(table) is not None else ""
    return f'SELECT * FROM lake."{schema}"."{name}"{at} LIMIT 10;'


def _begun(table: Table) -> str | None:
    """Return the branch that a sink commits to, once the table has it."""
    return table.branch if isinstance(table, BranchTable) and table.branch in table.whole.metadata.refs else None


def _storage(known: Mapping[str, str]) -> Iterator[str]:
    """Yield the options of DuckDB's secret for pyiceberg's properties of an S3 store."""
    names = {"s3.access-key-id": "KEY_ID", "s3.secret-access-key": "SECRET", "s3.session-token": "SESSION_TOKEN"}
    for name, option in names.items():
        if name in known:
            yield f"{option} getenv('{_KEYS[name]}')"
    if "s3.region" in known:
        yield f"REGION {_quoted(known['s3.region'])}"
    if "s3.endpoint" in known:
        scheme, _, host = known["s3.endpoint"].rpartition("://")
        yield f"ENDPOINT {_quoted(host.rstrip('/'))}, URL_STYLE 'path', USE_SSL {str(scheme != 'http').lower()}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _arguments(properties: Mapping[str, _Text]) -> Iterator[str]:
    """Yield properties as Python's arguments."""
    for name, text in properties.items():
        value = " + ".join(_python(part) for part in text if part)
        yield f"{name}={value}" if name.isidentifier() else f"**{{{name!r}: {value}}}"


def _python(part: str | _Place | _Written) -> str:
    if isinstance(part, str):
        return repr(part)
    if isinstance(part, _Written):
        return part.code
    found = f"os.environ[{part.name!r}]"
    return f"quote({found}, safe='')" if part.in_url else found


def _identifier(write: physical.Write) -> tuple[str, ...]:
    return (*write.options["namespace"].split("."), write.options["table"])


def load(write: physical.Write, context: Context) -> Table | None:
    """Return a sink's table as it is now, its branch as main; None where there is none."""
    connection = write.connection
    catalog = open_catalog(connection.name, connection.options, context, job_stores(write, context))
    try:
        table = catalog.load_table(_identifier(write))
    except NoSuchTableError:
        return None
    branch = write.options.get("branch")
    return table if branch is None else BranchTable(table, branch)
