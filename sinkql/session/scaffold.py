"""Write a script that copies the tables or topics of a server into Iceberg tables, and preview and check a server.

Each statement first runs in a temporary catalog, so that the script works. A comment in the script names each table
that cannot be read, with the reason and the fix.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sinkql import ast, logical
from sinkql.connector_api.health_check import HealthCheck
from sinkql.connector_api.planning import AddressKind
from sinkql.connector_api.registry import Registry, discover
from sinkql.connector_api.scaffold import (
    PERCENT,
    Address,
    ConnectionScaffold,
    ScaffoldRequest,
    SourceScaffold,
    option,
    read_address,
    relation_name,
)
from sinkql.errors import Family, SinkqlError, nearest
from sinkql.planner.name import as_name
from sinkql.printer.clause import ident, text
from sinkql.script.format import format_script
from sinkql.session.result import Result
from sinkql.session.server_check import checks_of_catalog
from sinkql.session.session import Session

_REGISTRY = "registry"
_REGISTRY_VARIABLE = "REGISTRY_PASSWORD"
_LAKE = "lake"


@dataclass(slots=True)
class _Draft:
    """A script that is being written. Its statements have run in `session`, except CREATE SINK.

    `relations` maps names on the server to the names of sources and tables in the script.
    """

    session: Session
    kind: AddressKind
    address: Address
    parts: list[str] = field(default_factory=list)
    relations: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, SinkqlError] = field(default_factory=dict)
    used_names: set[str] = field(default_factory=lambda: {_LAKE, _REGISTRY, f"{_REGISTRY}_password"})
    variables: list[str] = field(default_factory=list)

    def run(self, statement: str) -> None:
        """Run a statement and add it to the script."""
        self.session.execute(statement)
        self.parts.append(statement)

    def connect(self, draft: ConnectionScaffold, *, variable: str, password: str | None, validate: bool = True) -> None:
        """Add a connection with its secret. A password in the address is used here but not written."""
        self.used_names |= {draft.name, f"{draft.name}_password"}
        options = list(draft.options)
        if password is not None or variable in os.environ:
            secret = f"{draft.name}_password"
            value = text(password) if password is not None else f"env_var({text(variable)})"
            self.session.execute(f"CREATE SECRET {secret} AS {value};")
            self.parts.append(f"CREATE SECRET {secret} AS env_var({text(variable)});")
            options.append(f"{draft.password} SECRET {secret}")
            self.variables.append(variable)
        validation = "" if validate else " WITH (VALIDATE = false)"
        self.run(f"CREATE CONNECTION {draft.name} TO {draft.kind} ({', '.join(options)}){validation};")

    def read(self, wanted: ScaffoldRequest) -> None:
        """Add the sources that the connector proposes, and their tables."""
        catalog, access = self.session.catalog, self.session.access
        connection = logical.get_item(
            catalog.plans, catalog.plans.resolve(as_name(wanted.connection)), logical.Connection
        )
        for source in self.kind.sources(connection, wanted, access):
            name = self._named(source.name, source.found)
            error = self._try(source, name)
            if error is not None:
                if source.whole:
                    raise error
                self.used_names.discard(name)
                self._leave_out(source.found, error)
                continue
            item = logical.get_item(catalog.plans, catalog.plans.resolve(as_name(name)), logical.Source)
            if item.tables:
                self._tables(name, item, wanted)
            else:
                self.relations[source.found] = name

    def _try(self, source: SourceScaffold, name: str) -> SinkqlError | None:
        """Add the source with the first clauses that can be planned. Return the error if none can."""
        first_error = None
        for clauses in source.clauses:
            try:
                self.session.execute(f"CREATE SOURCE {name} {clauses};")
            except SinkqlError as error:
                first_error = first_error or error
                continue
            notes = "".join(f"-- {note}\n" for note in source.notes)
            self.parts.append(f"{notes}CREATE SOURCE {name} {clauses};")
            return None
        return first_error or SinkqlError("SQ4040", " ".join(source.notes))

    def _tables(self, source: str, item: logical.Source, wanted: ScaffoldRequest) -> None:
        tables = [table for table in item.tables if wanted.schema in ("", table.name[0])]
        last_names = Counter(relation_name(table.name[-1]) for table in tables)
        for table in tables:
            full_name = ".".join(table.name)
            if not wanted.names or {full_name, table.name[-1]} & set(wanted.names):
                long_name = "_".join(table.name)
                is_short = table.name[0] == "public" or last_names[relation_name(table.name[-1])] == 1
                name = self._named(table.name[-1] if is_short else long_name, long_name)
                reference = ".".join(ident(ast.Ident(part)) for part in table.name)
                options = self.kind.options(table)
                try:
                    self.run(f"CREATE TABLE {name} FROM SOURCE {source} (REFERENCE {reference}){options};")
                    self.relations[full_name] = name
                except SinkqlError as error:
                    self.used_names.discard(name)
                    self._leave_out(full_name, error)

    def _leave_out(self, name: str, error: SinkqlError) -> None:
        self.left_out[name] = error
        lines = [f"{name} is left out: {error.message}", *((error.hint or "").splitlines())]
        self.parts.append("\n".join(f"-- {line}" for line in lines))

    def _named(self, short: str, long: str) -> str:
        """Return a free relation name and reserve it."""
        for name in (relation_name(short), relation_name(long), *(f"{relation_name(long)}_{n}" for n in range(2, 99))):
            if name not in self.used_names:
                self.used_names.add(name)
                return name
        raise AssertionError

    def sinks(self, namespace: str) -> None:
        """Add a sink for each relation."""
        for name in self.relations.values():
            plans = self.session.catalog.plans
            item = logical.get_item(plans, plans.resolve(as_name(name)), logical.Source)
            table = text(as_name(name).parts[-1].value)
            sink = self._named(f"{name}_sink", f"{name}_iceberg_sink")
            head = f"CREATE SINK {sink} FROM {name} INTO ICEBERG CATALOG CONNECTION {_LAKE}"
            target = f"(NAMESPACE = {text(namespace)}, TABLE = {table})"
            self.parts.append(f"{_note(item)}{head} {target} {_mode(item)} WITH (COMMIT INTERVAL = '10s');")


def _mode(item: logical.Source) -> str:
    """Return the clauses of a sink that fit the rows of a source."""
    if item.shape.change is logical.Change.APPEND:
        return "ENVELOPE NONE"
    if not item.shape.keys:
        return "MODE APPEND"
    key = [ident(ast.Ident(column.name)) for column in item.shape.columns if column.name in item.shape.keys[0]]
    return f"KEY ({', '.join(key)}) MODE UPSERT"


def _note(item: logical.Source) -> str:
    keyless = item.shape.change is logical.Change.RETRACT and not item.shape.keys
    return "-- Without a key, the sink writes each change as a row with changelog columns.\n" if keyless else ""


def write_script(
    written: str, names: Sequence[str] = (), *, registry: str | None = None, namespace: str | None = None
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a script for a server, the environment variables of its passwords, and the tables that it omits.

    `names` selects tables or topics, by default all. `registry` is the URL of a schema registry. Raise SQ4039, SQ4040
    and the errors of the server.
    """
    with _read_server(written, names, registry=registry) as draft:
        if not draft.relations:
            raise _unreadable_error(draft) if draft.left_out else _missing_error(names, draft)
        draft.parts.append(
            f"CREATE CONNECTION {_LAKE} TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = {text(_LAKE)});"
        )
        draft.sinks(namespace or relation_name(draft.address.path or draft.address.scheme).strip('"'))
        words = draft.session.catalog.registry.keywords
        return format_script("\n\n".join(draft.parts) + "\n", words), tuple(draft.variables), tuple(draft.left_out)


def preview_server(written: str, name: str, limit: int, *, registry: str | None = None) -> Result:
    """Return the first rows of a table or topic at an address. The server keeps no resources for it."""
    with _read_server(written, (name,), registry=registry, looking=True) as draft:
        if not draft.relations:
            raise next(iter(draft.left_out.values()))
        return draft.session.preview(next(iter(draft.relations.values())), limit=limit)


def check_address(written: str, *, registry: str | None = None) -> Iterator[HealthCheck]:
    """Yield the checks of the server at an address, and leave no resources there. Raise SQ4039."""
    with _connect(written, registry=registry, validate=False) as (draft, wanted):
        failure = None
        try:
            draft.read(wanted)
            if not draft.relations and not draft.left_out:
                failure = _missing_error((), draft)
        except SinkqlError as error:
            failure = error
        checks = [_login_check(check, draft) for check in checks_of_catalog(draft.session.catalog, permanent=False)]
        yield from checks
        if failure is not None and not any(check.state == "wrong" for check in checks):
            yield HealthCheck(draft.address.scheme, "wrong", failure.message, failure.hint)
        checked = {check.name.rpartition(": table ")[2] for check in checks if check.state != "ok"}
        for name, reason in draft.left_out.items():
            if name not in checked:
                yield HealthCheck(name, "warning", reason.message, reason.hint)


@contextmanager
def _read_server(
    written: str, names: Sequence[str], *, registry: str | None, looking: bool = False
) -> Iterator[_Draft]:
    with _connect(written, registry=registry, looking=looking, names=names) as (draft, wanted):
        draft.read(wanted)
        suffixes = [f".{suffix}" for suffix in (*draft.relations, *draft.left_out)]
        missing = [name for name in names if not any(suffix.endswith(f".{name}") for suffix in suffixes)]
        if missing:
            raise _missing_error(missing, draft, wanted.unmatched)
        yield draft


@contextmanager
def _connect(
    written: str, *, registry: str | None, looking: bool = False, validate: bool = True, names: Sequence[str] = ()
) -> Iterator[tuple[_Draft, ScaffoldRequest]]:
    """Yield a draft with only connections, and the request for the server's scaffold."""
    connectors = discover()
    address = read_address(written, tuple(connectors.addresses))
    kind = connectors.addresses[address.scheme]
    connection = kind.connection(address)
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-init-") as folder,
        Session(
            Path(folder) / "catalog.db",
            registry=_with_sample(connectors, kind) if looking else connectors,
            project=Path.cwd(),
        ) as session,
        _errors_of_address(address, connection.variable),
    ):
        draft = _Draft(session, kind, address)
        draft.connect(connection, variable=connection.variable, password=address.password, validate=validate)
        if registry is not None:
            _connect_registry(draft, registry)
        yield draft, ScaffoldRequest(connection.name, _REGISTRY if registry else None, tuple(names), connection.schema)


@contextmanager
def _errors_of_address(address: Address, variable: str) -> Iterator[None]:
    """Make errors refer to the address, as the user did not write the statements."""
    try:
        yield
    except SinkqlError as error:
        error.span = error.text = None
        if variable and "SECRET" in (error.hint or "").upper() and error.family is Family.ENVIRONMENT:
            error.hint = _password_hint(address, variable)
        raise


def _login_check(check: HealthCheck, draft: _Draft) -> HealthCheck:
    """Make a fix refer to the password in the address instead of a secret."""
    if check.state != "wrong" or "SECRET" not in (check.fix or "").upper():
        return check
    return replace(check, fix=_password_hint(draft.address, draft.kind.connection(draft.address).variable))


def _password_hint(address: Address, variable: str) -> str:
    if address.password is not None:
        return f"Correct the user or the password in the address. {PERCENT}"
    if variable in os.environ:
        return f"Correct {variable}, or the user in the address."
    return f"Set {variable} to the user's password."


def _with_sample(connectors: Registry, kind: AddressKind) -> Registry:
    """Return the connectors, with the lighter sample of one for a preview."""
    if kind.sample is not None:
        connectors.sources[kind.source] = replace(connectors.sources[kind.source], sample=kind.sample)
    return connectors


def _connect_registry(draft: _Draft, url: str) -> None:
    """Add a connection to a schema registry. Its URL may have a user and a password."""
    address = read_address(url, ("http", "https"))
    host = ",".join(name if port is None else f"{name}:{port}" for name, port in address.hosts)
    path = f"/{address.path}" if address.path else ""
    options = [option("URL", f"{address.scheme}://{host}{path}")]
    if address.user is not None:
        options.append(option("USER", address.user))
    kind = next(
        connection.name for connection in draft.session.catalog.registry.connections.values() if connection.schemas
    )
    scaffold = ConnectionScaffold(kind, _REGISTRY, tuple(options), "PASSWORD", _REGISTRY_VARIABLE)
    needed = _REGISTRY_VARIABLE if address.user is not None else ""
    draft.connect(scaffold, variable=needed, password=address.password)


def _tables_of(draft: _Draft) -> tuple[tuple[str, ...], ...]:
    """Return the names of the server's tables."""
    plans = draft.session.catalog.plans
    items = [plans.item(name) for name in plans.names("SOURCE")]
    return tuple(table.name for item in items if isinstance(item, logical.Source) for table in item.tables)


def _unreadable_error(draft: _Draft) -> SinkqlError:
    """Return the error if no table or topic can be read."""
    name, error = next(iter(draft.left_out.items()))
    count = len(draft.left_out) - 1
    detail = f"This is the error of {name}. {count} more cannot be read." if count else None
    return SinkqlError(error.code, error.message, detail=detail, hint=error.hint)


def _missing_error(names: Sequence[str], draft: _Draft, passed: Sequence[str] = ()) -> SinkqlError:
    """Return the error for a missing database, table or topic. `passed` has further names that exist."""
    tables, schema = _tables_of(draft), draft.address.path
    known_names = (*(".".join(table) for table in tables), *passed)
    if not names and tables:  # the address names a database, and only other databases have tables
        match = nearest(schema, sorted({table[0] for table in tables}))
        return SinkqlError(
            "SQ4040",
            f'the server has no database "{schema}" with tables that the user may see',
            hint=f"Did you mean {match}?" if match else "Correct the name, or grant the user the privileges.",
        )
    if not names:
        return SinkqlError(
            "SQ4040",
            "the server has no table or topic that the user may see",
            hint="Create one, or grant the user the privileges.",
        )
    match = nearest(names[0], [*known_names, *(table.rpartition(".")[2] for table in known_names)])
    return SinkqlError(
        "SQ4040",
        f'the server has no table or topic "{names[0]}" that the user may see',
        hint=f"Did you mean {match}?" if match else "Correct the name, or grant the user the privileges.",
    )
