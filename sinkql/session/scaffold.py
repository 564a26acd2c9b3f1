"""The address of a server → a script that reads what is there into Iceberg tables, or rows of one table or topic.

Each statement is tried in a temporary catalog before it is written, so that the script runs; what cannot be read stands
in comments, with the reason and what to do.
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
    """A script as far as it is written; its statements, but those of sinks, have been run in `session`.

    `relations` are what the sources and tables are called, by their names on the server.
    """

    session: Session
    kind: AddressKind
    address: Address
    parts: list[str] = field(default_factory=list)
    relations: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, SinkqlError] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {_LAKE, _REGISTRY, f"{_REGISTRY}_password"})
    variables: list[str] = field(default_factory=list)

    def run(self, statement: str) -> None:
        """Run a statement, and write it."""
        self.session.execute(statement)
        self.parts.append(statement)

    def connect(self, draft: ConnectionScaffold, *, variable: str, password: str | None, validate: bool = True) -> None:
        """Write a connection, and the secret that it needs; here a password may come of the address."""
        self.taken |= {draft.name, f"{draft.name}_password"}
        options = list(draft.options)
        if password is not None or variable in os.environ:
            secret = f"{draft.name}_password"
            here = text(password) if password is not None else f"env_var({text(variable)})"
            self.session.execute(f"CREATE SECRET {secret} AS {here};")
            self.parts.append(f"CREATE SECRET {secret} AS env_var({text(variable)});")
            options.append(f"{draft.password} SECRET {secret}")
            self.variables.append(variable)
        unasked = "" if validate else " WITH (VALIDATE = false)"
        self.run(f"CREATE CONNECTION {draft.name} TO {draft.kind} ({', '.join(options)}){unasked};")

    def read(self, wanted: ScaffoldRequest) -> None:
        """Write the sources that the connector drafts, and tables of them."""
        catalog, access = self.session.catalog, self.session.access
        connection = catalog.plans.item(catalog.plans.resolve(as_name(wanted.connection)))
        assert isinstance(connection, logical.Connection)
        for source in self.kind.sources(connection, wanted, access):
            name = self._named(source.name, source.found)
            error = self._try(source, name)
            item = catalog.plans.item(catalog.plans.resolve(as_name(name))) if error is None else None
            if error is not None:
                if source.whole:
                    raise error
                self.taken.discard(name)
                self._leave_out(source.found, error)
                continue
            assert isinstance(item, logical.Source)
            if item.tables:
                self._tables(name, item, wanted)
            else:
                self.relations[source.found] = name

    def _try(self, source: SourceScaffold, name: str) -> SinkqlError | None:
        """Write the source by the first of its clauses that can be planned; return why none can."""
        found = None
        for clauses in source.clauses:
            try:
                self.session.execute(f"CREATE SOURCE {name} {clauses};")
            except SinkqlError as error:
                found = found or error
                continue
            notes = "".join(f"-- {each}\n" for each in source.notes)
            self.parts.append(f"{notes}CREATE SOURCE {name} {clauses};")
            return None
        return found or SinkqlError("SQ4040", " ".join(source.notes))

    def _tables(self, source: str, item: logical.Source, wanted: ScaffoldRequest) -> None:
        meant = [table for table in item.tables if wanted.schema in ("", table.name[0])]
        lasts = Counter(relation_name(table.name[-1]) for table in meant)
        for table in meant:
            found = ".".join(table.name)
            if not wanted.names or {found, table.name[-1]} & set(wanted.names):
                long = "_".join(table.name)
                plain = table.name[0] == "public" or lasts[relation_name(table.name[-1])] == 1
                name = self._named(table.name[-1] if plain else long, long)
                reference = ".".join(ident(ast.Ident(part)) for part in table.name)
                more = self.kind.options(table)
                try:
                    self.run(f"CREATE TABLE {name} FROM SOURCE {source} (REFERENCE {reference}){more};")
                    self.relations[found] = name
                except SinkqlError as error:
                    self.taken.discard(name)
                    self._leave_out(found, error)

    def _leave_out(self, found: str, error: SinkqlError) -> None:
        self.left_out[found] = error
        lines = [f"{found} is left out: {error.message}", *((error.hint or "").splitlines())]
        self.parts.append("\n".join(f"-- {line}" for line in lines))

    def _named(self, short: str, long: str) -> str:
        """Return a name that no other relation has."""
        for each in (relation_name(short), relation_name(long), *(f"{relation_name(long)}_{n}" for n in range(2, 99))):
            if each not in self.taken:
                self.taken.add(each)
                return each
        raise AssertionError

    def sinks(self, namespace: str) -> None:
        """Write a sink of each relation."""
        for name in self.relations.values():
            item = self.session.catalog.plans.item(self.session.catalog.plans.resolve(as_name(name)))
            assert isinstance(item, logical.Source)
            table = text(as_name(name).parts[-1].value)
            sink = self._named(f"{name}_sink", f"{name}_iceberg_sink")
            head = f"CREATE SINK {sink} FROM {name} INTO ICEBERG CATALOG CONNECTION {_LAKE}"
            place = f"(NAMESPACE = {text(namespace)}, TABLE = {table})"
            self.parts.append(f"{_note(item)}{head} {place} {_mode(item)} WITH (COMMIT INTERVAL = '10s');")


def _mode(item: logical.Source) -> str:
    """Return how the rows of a source are written."""
    if item.shape.change is logical.Change.APPEND:
        return "ENVELOPE NONE"
    if not item.shape.keys:
        return "MODE APPEND"
    key = [ident(ast.Ident(each.name)) for each in item.shape.columns if each.name in item.shape.keys[0]]
    return f"KEY ({', '.join(key)}) MODE UPSERT"


def _note(item: logical.Source) -> str:
    keyless = item.shape.change is logical.Change.RETRACT and not item.shape.keys
    return "-- Without a key each change is a row, with what it does in its changelog columns.\n" if keyless else ""


def write_script(
    written: str, names: Sequence[str] = (), *, registry: str | None = None, namespace: str | None = None
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a script that reads what a server has, the variables with passwords that it needs, and what it leaves out.

    `names` are those of the tables or topics that are wanted, all without any; `registry` is the URL of a schema
    registry. Raises SQ4039, SQ4040, and what keeps the server from being asked.
    """
    with _drafted(written, names, registry=registry) as draft:
        if not draft.relations:
            raise _unreadable(draft) if draft.left_out else _nothing(names, draft)
        draft.parts.append(
            f"CREATE CONNECTION {_LAKE} TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = {text(_LAKE)});"
        )
        draft.sinks(namespace or relation_name(draft.address.path or draft.address.scheme).strip('"'))
        words = draft.session.catalog.registry.vocabulary
        return format_script("\n\n".join(draft.parts) + "\n", words), tuple(draft.variables), tuple(draft.left_out)


def preview_server(written: str, name: str, limit: int, *, registry: str | None = None) -> Result:
    """Return the first rows of a table or topic at an address; nothing is left on the server."""
    with _drafted(written, (name,), registry=registry, looking=True) as draft:
        if not draft.relations:
            raise next(iter(draft.left_out.values()))
        return draft.session.preview(next(iter(draft.relations.values())), limit=limit)


def examine(written: str, *, registry: str | None = None) -> Iterator[HealthCheck]:
    """Yield what keeps sources of the server at an address from running; nothing is left there. Raises SQ4039."""
    with _connected(written, registry=registry, validate=False) as (draft, wanted):
        failed = None
        try:
            draft.read(wanted)
            if not draft.relations and not draft.left_out:
                failed = _nothing((), draft)
        except SinkqlError as error:
            failed = error
        found = [_of_login(each, draft) for each in checks_of_catalog(draft.session.catalog, own=False)]
        yield from found
        if failed is not None and not any(each.state == "wrong" for each in found):
            yield HealthCheck(draft.address.scheme, "wrong", failed.message, failed.hint)
        told = {each.name.rpartition(": table ")[2] for each in found if each.state != "ok"}
        for name, reason in draft.left_out.items():
            if name not in told:
                yield HealthCheck(name, "warning", reason.message, reason.hint)


@contextmanager
def _drafted(written: str, names: Sequence[str], *, registry: str | None, looking: bool = False) -> Iterator[_Draft]:
    with _connected(written, registry=registry, looking=looking, names=names) as (draft, wanted):
        draft.read(wanted)
        found = [f".{each}" for each in (*draft.relations, *draft.left_out)]
        missing = [name for name in names if not any(each.endswith(f".{name}") for each in found)]
        if missing:
            raise _nothing(missing, draft, wanted.passed)
        yield draft


@contextmanager
def _connected(
    written: str, *, registry: str | None, looking: bool = False, validate: bool = True, names: Sequence[str] = ()
) -> Iterator[tuple[_Draft, ScaffoldRequest]]:
    """Give what has nothing yet but connections, and what is to be drafted of the server."""
    known = discover()
    address = read_address(written, tuple(known.addresses))
    kind = known.addresses[address.scheme]
    connection = kind.connection(address)
    with (
        tempfile.TemporaryDirectory(prefix="sinkql-init-") as folder,
        Session(
            Path(folder) / "catalog.db", registry=_looking(known, kind) if looking else known, project=Path.cwd()
        ) as session,
        _of_address(address, connection.variable),
    ):
        draft = _Draft(session, kind, address)
        draft.connect(connection, variable=connection.variable, password=address.password, validate=validate)
        if registry is not None:
            _connect_registry(draft, registry)
        yield draft, ScaffoldRequest(connection.name, _REGISTRY if registry else None, tuple(names), connection.schema)


@contextmanager
def _of_address(address: Address, variable: str) -> Iterator[None]:
    """Have errors speak of the address: the statements that are tried are none that the user wrote."""
    try:
        yield
    except SinkqlError as error:
        error.span = error.text = None
        if variable and "SECRET" in (error.hint or "").upper() and error.family is Family.ENVIRONMENT:
            error.hint = _password_hint(address, variable)
        raise


def _of_login(check: HealthCheck, draft: _Draft) -> HealthCheck:
    """Have a check speak of the address where it speaks of a secret, which is none of the user's."""
    if check.state != "wrong" or "SECRET" not in (check.fix or "").upper():
        return check
    return replace(check, fix=_password_hint(draft.address, draft.kind.connection(draft.address).variable))


def _password_hint(address: Address, variable: str) -> str:
    if address.password is not None:
        return f"Correct the user or the password in the address. {PERCENT}"
    if variable in os.environ:
        return f"Correct {variable}, or the user in the address."
    return f"Set {variable} to the user's password."


def _looking(known: Registry, kind: AddressKind) -> Registry:
    """Return the connectors, of which one asks for less where rows are only looked at."""
    if kind.sample is not None:
        known.sources[kind.source] = replace(known.sources[kind.source], sample=kind.sample)
    return known


def _connect_registry(draft: _Draft, url: str) -> None:
    """Write a connection to a schema registry, whose URL may have a user and a password."""
    address = read_address(url, ("http", "https"))
    host = ",".join(name if port is None else f"{name}:{port}" for name, port in address.hosts)
    path = f"/{address.path}" if address.path else ""
    options = [option("URL", f"{address.scheme}://{host}{path}")]
    if address.user is not None:
        options.append(option("USER", address.user))
    kind = next(each.name for each in draft.session.catalog.registry.connections.values() if each.schemas)
    made = ConnectionScaffold(kind, _REGISTRY, tuple(options), "PASSWORD", _REGISTRY_VARIABLE)
    needed = _REGISTRY_VARIABLE if address.user is not None else ""
    draft.connect(made, variable=needed, password=address.password)


def _tables_of(draft: _Draft) -> tuple[tuple[str, ...], ...]:
    """Return the names of the tables that there are."""
    plans = draft.session.catalog.plans
    items = [plans.item(name) for name in plans.names("SOURCE")]
    return tuple(table.name for item in items if isinstance(item, logical.Source) for table in item.tables)


def _unreadable(draft: _Draft) -> SinkqlError:
    """Return why none of what there is can be read."""
    name, first = next(iter(draft.left_out.items()))
    others = len(draft.left_out) - 1
    detail = f"So it is with {name}, and {others} more cannot be read." if others else None
    return SinkqlError(first.code, first.message, detail=detail, hint=first.hint)


def _nothing(names: Sequence[str], draft: _Draft, passed: Sequence[str] = ()) -> SinkqlError:
    """Return the error for what is not there; `passed` are names that are there, too."""
    tables, schema = _tables_of(draft), draft.address.path
    known = (*(".".join(each) for each in tables), *passed)
    if not names and tables:  # of other databases of the server, where the address names one
        near = nearest(schema, sorted({each[0] for each in tables}))
        return SinkqlError(
            "SQ4040",
            f'the server has no database "{schema}" with tables that the user may see',
            hint=f"Did you mean {near}?" if near else "Correct the name, or grant the user what it needs.",
        )
    if not names:
        return SinkqlError(
            "SQ4040",
            "the server has no table or topic that the user may see",
            hint="Create one, or grant the user what it needs.",
        )
    near = nearest(names[0], [*known, *(each.rpartition(".")[2] for each in known)])
    return SinkqlError(
        "SQ4040",
        f'the server has no table or topic "{names[0]}" that the user may see',
        hint=f"Did you mean {near}?" if near else "Correct the name, or grant the user what it needs.",
    )
