"""Find connectors, the folders of `sinkql.connectors` and the entry points of that group, and collect their kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pkgutil import iter_modules

from sinkql import physical
from sinkql.connector_api.option_help import option_words
from sinkql.connector_api.planning import (
    AddressKind,
    ConnectionKind,
    Connector,
    FormatKind,
    MessageFormat,
    ScanKind,
    SinkKind,
    SourceKind,
    UnsupportedKind,
)
from sinkql.connector_api.stream import Context, OpenReader, OpenWriter, Reader, Writer
from sinkql.keywords import Keywords, OptionWords, Role
from sinkql.object_store.store import ObjectStore, Options, RevealSecret

GROUP = "sinkql.connectors"
"""The package whose folders are connectors, and the group of entry points of other packages."""
TABLES = "sinkql.table"


@dataclass(frozen=True)
class Registry:
    """The kinds of all connectors, by their keywords; `later` has the kinds that no connector supports yet.

    `readers` and `writers` are for reads and writes other than of sources and sinks, for example of tables and views.
    `connectors` are the connectors themselves.
    """

    connections: dict[str, ConnectionKind] = field(default_factory=dict)
    sources: dict[str, SourceKind] = field(default_factory=dict)
    sinks: dict[str, SinkKind] = field(default_factory=dict)
    formats: dict[str, FormatKind] = field(default_factory=dict)
    messages: dict[str, MessageFormat] = field(default_factory=dict)
    readers: dict[str, OpenReader] = field(default_factory=dict)
    writers: dict[str, OpenWriter] = field(default_factory=dict)
    later: dict[tuple[Role, str], UnsupportedKind] = field(default_factory=dict)
    scans: dict[str, ScanKind] = field(default_factory=dict)
    addresses: dict[str, AddressKind] = field(default_factory=dict)
    connectors: list[Connector] = field(default_factory=list)
    versions: str = ""
    """The names and versions of the packages with connectors."""

    def reader(self, read: physical.Read, context: Context) -> Reader:
        """Open the reader of a read of a job."""
        source = self.sources.get(read.connector)
        open_reader = source.reader if source is not None else self.readers[read.connector]
        formats = {name: kind.decoding for name, kind in self.formats.items()}
        messages = {name: kind.decoding for name, kind in self.messages.items()}
        return open_reader(read, replace(context, formats=formats, messages=messages))

    def writer(self, write: physical.Write, context: Context) -> Writer:
        """Open the writer of a job."""
        encodings = {name: kind.writing.encoding for name, kind in self.messages.items() if kind.writing is not None}
        sink = self.sinks.get(write.connector)
        open_writer = sink.writer if sink is not None else self.writers[write.connector]
        return open_writer(write, replace(context, encodings=encodings))

    def store(self, kind: str, options: Options, secret: RevealSecret) -> ObjectStore:
        """Open the object store of a connection of a kind with planned options."""
        open_store = self.connections[kind].store
        assert open_store is not None, kind
        return open_store(options, secret)

    def task_modules(self, jobs: Iterable[physical.Job] | None = None) -> tuple[str, ...]:
        """Return the modules that tasks of the jobs import from connectors; from all connectors without jobs."""
        connectors = self.connectors
        if jobs is not None:
            used = {
                *(name for job in jobs for read in job.reads() for name in _names_in(read.connector, read.options)),
                *(name for job in jobs for name in _names_in(job.write.connector, job.write.options)),
            }
            connectors = [connector for connector in connectors if not used.isdisjoint(_kinds_of(connector))]
        return tuple(module for connector in connectors for module in connector.tasks)

    def stores(self) -> tuple[str, ...]:
        """Return the kinds of connections that are object stores, sorted."""
        return tuple(sorted(name for name, kind in self.connections.items() if kind.store is not None))

    def expected(self, role: Role) -> tuple[str, ...]:
        """Return the kinds of a role that are not supported yet."""
        return tuple(name for kind_role, name in self.later if kind_role == role)

    @cached_property
    def keywords(self) -> Keywords:
        """Return the keywords of all kinds, for the parser, the printer and redaction."""
        kinds: dict[Role, dict[str, OptionWords]] = {}
        for role, name, options in self._words():
            kinds.setdefault(role, {})[name] = options
        return Keywords(kinds)

    def _words(self) -> Iterator[tuple[Role, str, OptionWords]]:
        for (role, name), later in self.later.items():
            yield role, name, option_words(later.options, later.with_options)
        for name, connection in self.connections.items():
            yield "CONNECTION", name, option_words(connection.options)
        for name, source in self.sources.items():
            yield "SOURCE", name, option_words(source.options, source.with_options)
        for name, sink in self.sinks.items():
            yield "SINK", name, option_words(sink.options, sink.with_options)
        for name in {**self.formats, **self.messages}:
            kinds = [kind for kind in (self.formats.get(name), self.messages.get(name)) if kind is not None]
            option_types = [kind.options for kind in kinds if kind.options is not None]
            if option_types or ("FORMAT", name) not in self.later:
                yield "FORMAT", name, option_words(*option_types)


def _names_in(*planned: object) -> Iterator[str]:
    """Yield the texts in planned options, among them the names of formats."""
    values = list(planned)
    while values:
        match values.pop():
            case str(text):
                yield text
            case dict(options):
                values.extend(options.values())
            case list(items) | tuple(items):
                values.extend(items)


def _kinds_of(connector: Connector) -> set[str]:
    """Return the names by which jobs refer to a connector: its formats only if it offers nothing else."""
    names = {kind.name for kind in connector.sources} | {kind.name for kind in connector.sinks}
    names |= connector.readers.keys() | connector.writers.keys()
    return names or {kind.name for kind in connector.formats} | {kind.name for kind in connector.messages}


def register(connectors: Iterable[Connector], *, versions: str = "") -> Registry:
    """Return the registry of some connectors; of kinds with the same keyword, the last one wins."""
    registry = Registry(versions=versions)
    for connector in connectors:
        registry.connections.update({kind.name: kind for kind in connector.connections})
        registry.sources.update({kind.name: kind for kind in connector.sources})
        registry.sinks.update({kind.name: kind for kind in connector.sinks})
        registry.formats.update({kind.name: kind for kind in connector.formats})
        registry.messages.update({kind.name: kind for kind in connector.messages})
        registry.later.update({(kind.role, kind.name): kind for kind in connector.later})
        registry.scans.update({kind.name: kind for kind in connector.scans})
        registry.addresses.update({scheme: kind for kind in connector.addresses for scheme in kind.schemes})
        registry.connectors.append(connector)
        registry.readers.update(connector.readers)
        registry.writers.update(connector.writers)
    return registry


@cache
def _entry_points() -> EntryPoints:
    """Return the entry points of the group. Cached, because the search reads each installed package."""
    return entry_points(group=GROUP)


@cache
def _modules() -> tuple[str, ...]:
    """Return the names of the connectors' modules in this package."""
    return tuple(f"{GROUP}.{module.name}" for module in iter_modules(import_module(GROUP).__path__))


def discover() -> Registry:
    """Return the registry of all installed connectors (the `connector` of each module), and of tables."""
    connectors = [import_module(name).connector for name in _modules()]
    entries = _entry_points()
    connectors.extend(entry.load() for entry in entries)
    packages = {f"{entry.dist.name} {entry.dist.version}" for entry in entries if entry.dist is not None}
    registry = register(connectors, versions=", ".join(sorted(packages)))
    tables = import_module(TABLES)
    registry.readers[tables.KIND] = tables.open_reader
    return registry
