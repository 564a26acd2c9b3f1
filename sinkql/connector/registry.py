"""Find connectors: every folder of `sinkql.connectors`, and every entry point of the group `sinkql.connectors`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from sinkql.connector.plan import ConnectionKind, Connector, SinkKind, SourceKind
from sinkql.connector.store import ObjectStore, Options, RevealSecret

PACKAGE = "sinkql.connectors"


@dataclass(frozen=True, slots=True)
class Registry:
    """Hold the kinds that all connectors offer, by the words that SQL uses."""

    connections: dict[str, ConnectionKind] = field(default_factory=dict)
    sources: dict[str, SourceKind] = field(default_factory=dict)
    sinks: dict[str, SinkKind] = field(default_factory=dict)

    def store(self, kind: str, options: Options, secret: RevealSecret) -> ObjectStore:
        """Return the object store of a connection of that kind with these planned options."""
        open_store = self.connections[kind].store
        assert open_store is not None, kind
        return open_store(options, secret)


def register(connectors: Iterable[Connector]) -> Registry:
    """Return the registry of these connectors; a later one of the same word wins."""
    registry = Registry()
    for connector in connectors:
        registry.connections.update({kind.name: kind for kind in connector.connections})
        registry.sources.update({kind.name: kind for kind in connector.sources})
        registry.sinks.update({kind.name: kind for kind in connector.sinks})
    return registry


def discover() -> Registry:
    """Return all connectors that are installed: each module names its own `connector`."""
    package = import_module(PACKAGE)
    found = [import_module(f"{PACKAGE}.{module.name}").connector for module in iter_modules(package.__path__)]
    found.extend(entry.load() for entry in entry_points(group=PACKAGE))
    return register(found)
